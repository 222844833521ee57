"""Optical tracking (TRACAB, as databallpy stores it): 25 frames a second turned into Positions.

Optical tracking sees one point a player and no accelerations, so velocity and acceleration are backward differences of
one frame (40 ms), zero where there is nothing to take a difference to; those of the ball, whose contacts matter, are given
from three frames to either side (``ball_motions``). Frames without a place give no Position. The ball
is reported while the tracking calls it alive, and half a second before that: else a dead ball is silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from detectors.soccer.events import Position
from detectors.soccer.setup import TRACAB_AWAY, TRACAB_BALL
from middleware.model.errors import TraceError
from middleware.recordings.sport.motion import ball_motions, followed, motions

FRAME = 40_000_000
"""Nanoseconds from one frame to the next."""

Place = tuple[float, float, float]


def positions(folder: str | Path) -> Iterator[Position]:
    """The positions of ``tracking.parquet`` in total order.

    A player's sensor is his shirt's column: ``home_7`` is 7, ``away_7`` 107. Raises TraceError where the file cannot be
    read or lacks a column. O(frames * players).
    """
    import numpy as np

    frame = table_of(Path(folder) / "tracking.parquet")
    needed = {"frame", "ball_x", "ball_y", "ball_z", "ball_status"}
    if missing := sorted(needed - set(frame)):
        raise TraceError(f"{folder}/tracking.parquet has no column {', '.join(missing)}: is it TRACAB tracking?")
    tracks = [
        (sensor, f"optical-{sensor:03}", _motions(places, ball_motions if sensor == TRACAB_BALL else motions))
        for sensor, places in _tracks(frame)
    ]
    alive = np.array([status == "alive" for status in frame["ball_status"]])
    for number, playing in enumerate(followed(alive, 1e9 / FRAME).tolist()):
        for sensor, source, moved in tracks:
            motion = moved.get(number)
            if motion is not None and (playing or sensor != TRACAB_BALL):
                yield Position(sensor, *motion, ts=number * FRAME, id=number, source=source)


Frame = dict[str, list[Any]]
"""The columns of the file by name."""


def table_of(path: Path) -> Frame:
    """The columns of a file of the recording by name. Raises TraceError if it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path).to_pydict()  # type: ignore[no-any-return]
    except (OSError, pa.ArrowException) as error:
        raise TraceError(f"cannot read {path}: {error}") from None


def _tracks(frame: Frame) -> Iterator[tuple[int, Iterator[Place]]]:
    """Each sensor with its places frame by frame, in the order of sensors. Players are on the ground."""
    for sensor, name in sorted((_sensor(name), name.removesuffix("_x")) for name in frame if name.endswith("_x")):
        xs = frame[f"{name}_x"]
        zs = frame["ball_z"] if sensor == TRACAB_BALL else [0.0] * len(xs)
        yield sensor, zip(xs, frame[f"{name}_y"], zs, strict=True)


def _sensor(column: str) -> int:
    side, _, rest = column.partition("_")
    if side == "ball":
        return TRACAB_BALL
    return int(rest.removesuffix("_x")) + (TRACAB_AWAY if side == "away" else 0)


def _motions(places: Iterable[Place], how: Callable[..., Any]) -> dict[int, tuple[float, ...]]:
    """Position, velocity and acceleration by the number of the frame, of those that have a place."""
    import numpy as np

    known = {number: place for number, place in enumerate(places) if None not in place}
    if not known:
        return {}
    found = how(np.fromiter(known, np.int64) * FRAME, np.array(list(known.values())), 1.5 * FRAME)
    return dict(zip(known, map(tuple, found.tolist()), strict=True))
