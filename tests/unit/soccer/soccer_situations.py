"""Hand-made situations: events numbered on the way in, one detector run over them by the oracle."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow.compute as pc
from msgspec.structs import replace

from detectors.soccer.events import BallHit, BallMotion, PlayerHitsBall, PlayerMotion, Position
from detectors.soccer.soccer_hierarchy import soccer
from middleware.model.event import Event
from middleware.model.time import MILLISECOND, SECOND
from middleware.testing.oracle import oracle
from scenarios.soccer.match import position_batches

BALL = 142


def ms(milliseconds: float) -> int:
    return round(milliseconds * MILLISECOND)


def s(seconds: float) -> int:
    return round(seconds * SECOND)


def run(detector: str, events: Sequence[Event], setup: str = "generated") -> list[Event]:
    """What one detector of the hierarchy derives from ``events``, without the stamps of the middleware."""
    numbered = [replace(event, id=number, source="test") for number, event in enumerate(events, 1)]
    derived = oracle(numbered, {detector: soccer(setup)[detector]})[detector]
    return [replace(event, id=0, source="", level=0) for event in derived]


def position(sensor: int, ts: int, x: float = 0.0, y: float = 0.0, z: float = 0.0, **motion: float) -> Position:
    fields = dict.fromkeys(("vx", "vy", "vz", "ax", "ay", "az"), 0.0) | motion
    return Position(sensor, x, y, z, **fields, ts=ts)


def ball(ts: int, x: float = 0.0, y: float = 0.0, z: float = 0.0, **speed: float) -> BallMotion:
    fields = dict.fromkeys(("vx", "vy", "vz"), 0.0) | speed
    return BallMotion(BALL, x, y, z, **fields, ts=ts)


def hit(ts: int, number: int = BALL, z: float = 0.0, ax: float = 100.0, az: float = 0.0) -> BallHit:
    return BallHit(number, (ax * ax + az * az) ** 0.5, 0.0, 0.0, z, ax, 0.0, az, ts=ts)


def touch(ts: int, player: int, x: float = 0.0, y: float = 0.0) -> PlayerHitsBall:
    return PlayerHitsBall(player, team(player), BALL, 100.0, x, y, ts=ts)


def runner(ts: int, player: int, x: float, y: float, vx: float = 0.0) -> PlayerMotion:
    return PlayerMotion(player, team(player), x, y, vx, 0.0, ts=ts)


def team(player: int) -> str:
    return "A" if player <= 11 else "B"


def recording(seed: int, seconds: float) -> list[Position]:
    """A generated match as events; only the transmitters that take part, so that tests stay quick."""
    events: list[Position] = []
    for batch in position_batches(seed, seconds):
        part = batch.filter(pc.or_(pc.less(batch["sensor"], 89), pc.equal(batch["sensor"], BALL)))
        columns = [part.column(name).to_pylist() for name in part.column_names]
        events += msgspec.convert(list(zip(*columns, strict=True)), list[Position])
    return events
