"""A generated match for long runs: one transmitter a player at 10 Hz, one ball at 100 Hz, 320 positions a second.

The setup ``light``: the same course of play as that of 144 transmitters, without their noise, in a hundredth of the events.
45 minutes are 864,000 positions. With variety, so that every detector has something to find.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from detectors.soccer.events import Position
from middleware.model.event import type_name
from scenarios.soccer.match.physics import STEP
from scenarios.soccer.match.play import PEOPLE, TICK, Match
from scenarios.soccer.match.truth import Happening
from scenarios.soccer.match.variety import Variety

if TYPE_CHECKING:
    import pyarrow as pa

BALL = 142
_BODY_EVERY, _BALL_EVERY = 5, 5
"""Ticks between two positions of a player, steps between two of the ball."""
_HEIGHT = 1.0
_CHUNK = 10.0
"""Seconds that are played at once."""


class Light:
    """A light match: ``events`` plays it, once; ``truth`` is what has happened in it so far."""

    def __init__(self, seed: int, seconds: float, variety: Variety | None = None) -> None:
        self._match, self._seconds = Match(seed, variety), seconds

    @property
    def truth(self) -> list[Happening]:
        """What has happened, in the order in which it ended."""
        end = round(self._seconds * 1e9)
        return [happening for happening in self._match.story.happenings if happening.end < end]

    def events(self) -> Iterator[Position]:
        """Its positions in total order. Memory: ten seconds."""
        end = round(self._seconds * 1e9)
        played = 0.0
        while played < self._seconds:
            played += _CHUNK
            self._match.play(played)
            yield from (event for event in self._chunk(played - _CHUNK) if event.ts < end)

    def _chunk(self, start: float) -> list[Position]:
        """The positions since ``start``; they are cut off the match's tracks."""
        match, first, found = self._match, round(start * 1e9), []
        step, tick = round(STEP * 1e9), round(TICK * 1e9)
        for k in range(0, len(match.ball_track) // 9, _BALL_EVERY):
            ts = first + k * step
            found.append(
                Position(BALL, *match.ball_track[9 * k : 9 * k + 9], ts=ts, id=ts // (step * _BALL_EVERY), source="ball")
            )
        for k in range(0, len(match.body_track) // (6 * PEOPLE), _BODY_EVERY):
            for player in range(1, 23):
                at = 6 * (PEOPLE * k + player - 1)
                x, y, vx, vy, ax, ay = match.body_track[at : at + 6]
                ts = first + k * tick + player * step // 23  # no two of them at the same moment
                motion = x, y, _HEIGHT, vx, vy, 0.0, ax, ay, 0.0
                found.append(Position(player, *motion, ts=ts, id=ts // (tick * _BODY_EVERY), source=f"player-{player:02}"))
        del match.ball_track[:], match.body_track[:]
        return sorted(found, key=lambda event: (event.ts, event.source))


def positions(seed: int, seconds: float) -> dict[str, pa.Table]:
    """The positions of a light, varied match by event type name, in total order: ``generate`` of a scenario."""
    import pyarrow as pa

    rows = list(Light(seed, seconds, Variety(seed)).events())
    names = [name for name in Position.__struct_fields__ if name != "level"]
    return {type_name(Position): pa.table({name: [getattr(row, name) for row in rows] for name in names})}
