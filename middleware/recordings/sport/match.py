"""A match that kloppy has read, as columns: where players and ball were, and what people saw them do.

Positions are in metres from the middle of the pitch, z upwards. The home team plays towards larger x in both halves, if the
files show which way it plays (else positions stay as they are, and kloppy warns). Times are ns since kick-off; a break lasts as
long as the provider says, a second at least. ``home_7`` is player 7, ``away_7`` player 107, the ball 200, nobody 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from middleware.model.errors import TraceError
from middleware.recordings.sport.motion import ball_motions, followed, motions

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from kloppy.domain import EventDataset, TrackingDataset

    from middleware.recordings.sport.motion import Floats

POSITION = "soccer.Position"
ACTION = "soccer.Action"
AWAY, BALL = 100, 200

_MIDDLE = (0.5, 0.5, 0.0)
_BREAK = timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)
_AXES = ("x", "y", "z", "vx", "vy", "vz", "ax", "ay", "az")


def positions(match: TrackingDataset) -> pa.Table:
    """The columns of ``soccer.Position``: sensor, position (m), velocity (m/s), acceleration (m/s2): differences of two frames.

    An event's id is the number of its frame in the files, from 0. A dead ball is silent till half a second before play resumes,
    as far as it is known to be dead; motions of the ball are those of ``ball_motions``.
    Raises TraceError if a player has no number on his shirt. O(frames * players).
    """
    import numpy as np
    import pyarrow as pa
    from kloppy.domain import BallState

    ts = np.fromiter(_times(match), np.int64, len(match.records))
    flipped = np.fromiter(map(_is_flipped, match.records), bool, len(match.records))
    alive = np.fromiter((frame.ball_state is not BallState.DEAD for frame in match.records), bool, len(match.records))
    in_view = followed(alive, match.metadata.frame_rate)
    longest = 1.5 * 1e9 / match.metadata.frame_rate
    parts = []
    for sensor, (frames, points) in sorted(_tracks(match).items()):
        at = np.asarray(frames)
        motion = (ball_motions if sensor == BALL else motions)(ts[at], _metres(match, np.asarray(points), flipped[at]), longest)
        kept = in_view[at] if sensor == BALL else np.ones(len(at), bool)
        at, motion = at[kept], motion[kept]
        columns = {"ts": ts[at], "id": at, "source": pa.array([f"optical-{sensor:03}"] * len(at), pa.string())}
        columns |= {"_position": at * 1_000 + sensor, "sensor": np.full(len(at), sensor)}
        parts.append(pa.table(columns | dict(zip(_AXES, motion.T, strict=True))))
    return pa.concat_tables(parts)


def actions(match: EventDataset) -> pa.Table:
    """The actions that people saw, as columns of ``soccer.Action``: the kind and its result (in kloppy's words), who did it
    where (m).

    ``team`` is home, away or "", ``receiver`` that of a pass. An event without a recorded position has x and y of 0 and
    ``placed`` false. O(events).
    """
    import numpy as np
    import pyarrow as pa

    records = match.records
    placed = [record.coordinates is not None for record in records]
    points = [_point(record.coordinates) if seen else _MIDDLE for record, seen in zip(records, placed, strict=True)]
    metres = _metres(match, np.asarray(points), np.fromiter(map(_is_flipped, records), bool, len(records)))
    numbers = np.arange(len(records))
    results = [getattr(record, "result", None) for record in records]
    return pa.table(
        {
            "ts": np.fromiter(_times(match), np.int64, len(records)),
            "id": numbers,
            "source": pa.array([f"labels-{match.metadata.provider.value}"] * len(records), pa.string()),
            "_position": numbers,
            "kind": pa.array([record.event_type.value.lower() for record in records], pa.string()),
            "result": pa.array(["" if result is None else result.value.lower() for result in results], pa.string()),
            "team": pa.array([_side(record.team) for record in records], pa.string()),
            "player": pa.array([_number(record.player) for record in records], pa.int64()),
            "receiver": pa.array([_number(getattr(record, "receiver_player", None)) for record in records], pa.int64()),
            "x": metres[:, 0],
            "y": metres[:, 1],
            "placed": pa.array(placed, pa.bool_()),
        }
    )


def _tracks(match: TrackingDataset) -> dict[int, tuple[list[int], list[tuple[float, float, float]]]]:
    """The frames in which each sensor was seen, and where."""
    found: dict[int, tuple[list[int], list[tuple[float, float, float]]]] = {}

    def seen(sensor: int, frame: int, where: Any) -> None:
        frames, points = found.setdefault(sensor, ([], []))
        frames.append(frame)
        points.append(_point(where))

    for number, frame in enumerate(match.records):
        for player, data in frame.players_data.items():
            if data.coordinates is not None:
                seen(_number(player), number, data.coordinates)
        if frame.ball_coordinates is not None:
            seen(BALL, number, frame.ball_coordinates)
    return found


def _point(where: Any) -> tuple[float, float, float]:
    return where.x, where.y, getattr(where, "z", None) or 0.0


def _metres(match: Any, points: Floats, flipped: npt.NDArray[np.bool_]) -> Floats:
    """Positions on kloppy's pitch, from (0, 0) at the top left to (1, 1), in metres, exact to the micrometre."""
    import numpy as np

    pitch = match.metadata.pitch_dimensions
    sides = np.where(flipped, -1.0, 1.0)
    x = (points[:, 0] - 0.5) * pitch.pitch_length * sides
    y = (0.5 - points[:, 1]) * pitch.pitch_width * sides
    return np.round(np.stack([x, y, points[:, 2]], axis=1), 6) + 0.0  # no negative zeros


def _is_flipped(record: Any) -> bool:
    from kloppy.domain import AttackingDirection

    return record.attacking_direction is AttackingDirection.RTL


def _side(team: Any) -> str:
    return "" if team is None else str(team.ground.value)


def _number(player: Any) -> int:
    """A player's number; 0 for nobody. Raises TraceError if his shirt has none."""
    if player is None:
        return 0
    if player.jersey_no is None:
        raise TraceError(f"{player.full_name} has no number on the shirt, so there is nothing to call the player by")
    return int(player.jersey_no) + (AWAY if _side(player.team) == "away" else 0)


def _times(match: Any) -> Iterator[int]:
    """The time of each record in ns since kick-off."""
    starts = _starts(match.records)
    return ((starts[record.period.id] + record.timestamp) // _MICROSECOND * 1_000 for record in match.records)


def _starts(records: Iterable[Any]) -> dict[int, timedelta]:
    """When each period began, since the first did: as its provider says, and after the former one's last record."""
    lasted: dict[int, timedelta] = {}
    begins: dict[int, Any] = {}  # a date, or a time since another moment
    for record in records:
        period = record.period.id
        lasted[period] = max(lasted.get(period, record.timestamp), record.timestamp)
        begins[period] = record.period.start_timestamp
    starts: dict[int, timedelta] = {}
    over, first = timedelta(0), None
    for period in sorted(lasted):
        start = begins[period]
        first = start if first is None else first
        since: timedelta = start - first if start is not None and type(start) is type(first) else over
        starts[period] = max(since, over)
        over = starts[period] + lasted[period] + _BREAK
    return starts
