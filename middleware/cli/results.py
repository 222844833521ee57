"""Final results as lines of JSON, one for each event: for ``jq``, ``slackline pub``, or a table of one's own."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import msgspec

from middleware.change import Insert
from middleware.cli.output import STANDARD_OUTPUT, write_file
from middleware.cli.pubsub import described
from middleware.event import Event


def write_results(finals: Iterable[Event], file: str) -> None:
    """Write events in their order to ``file`` (``-``: standard output): type, fields, ts (ns), id, source and level.

    NaN and infinities become null. Raises SlacklineError if it cannot be written. O(events).
    """
    encode = msgspec.json.Encoder().encode
    lines = bytearray()
    for event in finals:
        record = described(Insert(event))
        del record["change"]  # they are final: nothing else will happen to them
        lines += encode(record)
        lines += b"\n"
    if file == STANDARD_OUTPUT:
        sys.stdout.write(lines.decode())
        sys.stdout.flush()
    else:
        write_file(file, bytes(lines))
