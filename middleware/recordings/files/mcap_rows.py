"""The messages of an MCAP file as rows, with the times at which each was published and written down.

Their encodings: JSON, Protobuf, and CDR as ROS 2 has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from middleware.installation import install
from middleware.model.errors import SlacklineError, TraceError
from middleware.model.words import listed

if TYPE_CHECKING:
    from mcap.reader import McapReader
    from mcap.records import Channel, Schema

STAMPS = ("publish_time", "log_time", "topic")
"""The columns that each row has besides the values of its message: times in ns, and the channel's topic."""

Decode = Callable[[bytes], dict[str, Any]]

_decode = msgspec.json.Decoder(dict[str, Any], float_hook=str).decode


def topics_of(file: Path) -> list[str]:
    """The topics of an MCAP file. Raises TraceError."""
    with _opened(file) as reader:
        if (summary := reader.get_summary()) is None or not summary.channels:
            return list(dict.fromkeys(channel.topic for _, channel, _ in reader.iter_messages()))
        return list(dict.fromkeys(channel.topic for channel in summary.channels.values()))


def rows_of(file: Path, patterns: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """The messages of the topics that fit one of the patterns (none: all), in order of log time. Raises TraceError.

    A message that is none, behind others of its channel that are, has no time: so its row is listed as broken.
    """
    present = topics_of(file)
    chosen = {topic for topic in present if not patterns or any(fnmatchcase(topic, each) for each in patterns)}
    if not chosen:
        raise TraceError(f"{file} has no topic {listed(patterns)}; it has {listed(present)}")
    if not patterns and len(chosen) > 1:
        raise TraceError(f"{file} has several topics ({listed(sorted(chosen))}): say in a mapping which one (topics)")
    with _opened(file) as reader:
        decoders: dict[int, Decode] = {}
        sound: set[int] = set()
        for schema, channel, message in reader.iter_messages(topics=chosen):
            if channel.id not in decoders:
                decoders[channel.id] = _decoder(file, channel, schema)
            try:
                row = decoders[channel.id](message.data)
            except Exception as error:  # of any kind: each encoding has its own
                if channel.id in sound:
                    yield dict.fromkeys(STAMPS)
                    continue
                raise TraceError(f"{file}: {channel.topic} at {message.log_time}: {error or type(error).__name__}") from None
            sound.add(channel.id)
            yield row | dict(zip(STAMPS, (message.publish_time, message.log_time, channel.topic), strict=True))


def _decoder(file: Path, channel: Channel, schema: Schema | None) -> Decode:
    """The maker of rows from a channel's messages. Raises TraceError for an encoding that cannot be read."""
    if channel.message_encoding == "json":
        return _decode
    found = None
    try:
        if channel.message_encoding == "cdr":
            from mcap_ros2.decoder import DecoderFactory as Ros2

            found = Ros2().decoder_for(channel.message_encoding, schema)
            row: Callable[[Any], Any] = _of_ros
        elif channel.message_encoding == "protobuf":
            from google.protobuf.json_format import MessageToDict
            from mcap_protobuf.decoder import DecoderFactory as Protobuf

            found = Protobuf().decoder_for(channel.message_encoding, schema)
            row = partial(MessageToDict, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    except ModuleNotFoundError as error:
        raise SlacklineError(f"reading {channel.topic} of {file} needs {error.name}; {install('mcap')}") from None
    except Exception as error:  # of any kind, where a schema is damaged
        raise TraceError(f"{file}: the schema of {channel.topic} cannot be read: {error or type(error).__name__}") from None
    if found is None:
        kind = f"{channel.message_encoding} with {'no schema' if schema is None else f'a schema of {schema.encoding}'}"
        known = "json, protobuf, and cdr with a schema of ros2msg"
        raise TraceError(f"{file}: {channel.topic} is encoded as {kind}: {known} can be read")
    return lambda data: row(found(data))


def _of_ros(value: Any) -> Any:
    """A message of ROS as a dict; what is no finite number is a gap, as in JSON."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return list(map(_of_ros, value))
    names = getattr(value, "__slots__", None)
    return value if names is None else {name: _of_ros(getattr(value, name)) for name in names}


@contextmanager
def _opened(file: Path) -> Iterator[McapReader]:
    try:
        from mcap.reader import make_reader
    except ModuleNotFoundError:
        raise SlacklineError(f"reading {file} needs mcap; {install('mcap')}") from None
    try:
        with file.open("rb") as stream:
            yield make_reader(stream, validate_crcs=True)
    except SlacklineError:
        raise
    except OSError as error:
        raise TraceError(f"{file} cannot be read: {error.strerror}") from None
    except Exception as error:  # of any kind: a damaged file may lead anywhere
        raise TraceError(f"{file} cannot be read as MCAP: {error or type(error).__name__}") from None
