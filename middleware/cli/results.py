"""Final results as lines of JSON, one for each event: for ``jq``, ``slackline pub``, or a table of one's own."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from middleware.cli.output import STANDARD_OUTPUT, results, write_file
from middleware.model.event import Event
from middleware.runtime.records import as_record


def write_results(finals: Iterable[Event], file: str) -> None:
    """Write events in their order to ``file`` (``-``: standard output), in the records of ``as_record``.

    Raises SlacklineError if it cannot be written. O(events).
    """
    lines = b"".join(msgspec.json.encode(as_record(event)) + b"\n" for event in finals)
    if file == STANDARD_OUTPUT:
        out = results()
        out.write(lines.decode())
        out.flush()
    else:
        write_file(file, lines)
