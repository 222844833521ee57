"""The generated match: seeded, of any length, the default recording.

``positions`` and ``position_batches`` give what the transmitters sent, ``truth`` what really happened. The same seed gives
the same bytes (for the same numpy and C mathematics library), and a longer match begins with the shorter one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from detectors.soccer.events import Position
from middleware.model.event import type_name
from scenarios.soccer.match.physics import STEP
from scenarios.soccer.match.play import Match
from scenarios.soccer.match.truth import Happening

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Happening", "events", "position_batches", "positions", "truth"]


def position_batches(seed: int, seconds: float) -> Iterator[pa.Table]:
    """The positions of a match, in total order, as one table for each ten seconds. Columns: those of Position.

    Without arrival times: who feeds them draws those. About 342,000 rows a table.
    """
    from scenarios.soccer.match.sensors import chunks, table

    return map(table, chunks(seed, seconds))


def positions(seed: int, seconds: float) -> dict[str, pa.Table]:
    """The positions of a whole match, in total order, by event type name: {"soccer.Position": table}."""
    import pyarrow as pa

    return {type_name(Position): pa.concat_tables(position_batches(seed, seconds))}


def events(seed: int, seconds: float) -> Iterator[Position]:
    """The positions of a match as events, in total order."""
    for batch in position_batches(seed, seconds):
        columns = [batch.column(name).to_pylist() for name in batch.column_names]
        yield from msgspec.convert(list(zip(*columns, strict=True)), list[Position])


def truth(seed: int, seconds: float) -> list[Happening]:
    """What happened in the first ``seconds`` of a match, in the order in which it ended. O(seconds); needs no numpy."""
    match, end = Match(seed), round(seconds * 1e9)
    while match.step * STEP < seconds:
        match.play(min(match.step * STEP + 10, seconds))
        del match.ball_track[:], match.body_track[:]
    return [happening for happening in match.story.happenings if happening.end < end]
