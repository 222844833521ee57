"""The messages of an MCAP file as rows: JSON, with the times at which each was published and written down."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from middleware.installation import install
from middleware.model.errors import SlacklineError, TraceError
from middleware.model.words import listed

if TYPE_CHECKING:
    from mcap.reader import McapReader

STAMPS = ("publish_time", "log_time", "topic")
"""The columns that each row has besides the values of its message: times in ns, and the channel's topic."""

_decode = msgspec.json.Decoder(dict[str, Any], float_hook=str).decode


def topics_of(file: Path) -> list[str]:
    """The topics of an MCAP file. Raises TraceError."""
    with _opened(file) as reader:
        if (summary := reader.get_summary()) is None or not summary.channels:
            return list(dict.fromkeys(channel.topic for _, channel, _ in reader.iter_messages()))
        return list(dict.fromkeys(channel.topic for channel in summary.channels.values()))


def rows_of(file: Path, patterns: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """The messages of the topics that fit one of the patterns (none: all), in order of log time. Raises TraceError."""
    present = topics_of(file)
    chosen = {topic for topic in present if not patterns or any(fnmatchcase(topic, each) for each in patterns)}
    if not chosen:
        raise TraceError(f"{file} has no topic {listed(patterns)}; it has {listed(present)}")
    if not patterns and len(chosen) > 1:
        raise TraceError(f"{file} has several topics ({listed(sorted(chosen))}): say in a mapping which one (topics)")
    with _opened(file) as reader:
        for _, channel, message in reader.iter_messages(topics=chosen):
            if channel.message_encoding != "json":
                raise TraceError(f"{file}: {channel.topic} is encoded as {channel.message_encoding}: only json can be read")
            try:
                row = _decode(message.data)
            except msgspec.MsgspecError as error:
                raise TraceError(f"{file}: {channel.topic} at {message.log_time}: {error}") from None
            yield row | dict(zip(STAMPS, (message.publish_time, message.log_time, channel.topic), strict=True))


@contextmanager
def _opened(file: Path) -> Iterator[McapReader]:
    try:
        from mcap.exceptions import McapError
        from mcap.reader import make_reader
    except ModuleNotFoundError:
        raise SlacklineError(f"reading {file} needs mcap; {install('mcap')}") from None
    try:
        with file.open("rb") as stream:
            yield make_reader(stream)
    except McapError as error:
        raise TraceError(f"{file} cannot be read as MCAP: {error or type(error).__name__}") from None
    except OSError as error:
        raise TraceError(f"{file} cannot be read: {error.strerror}") from None
