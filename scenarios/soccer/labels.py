"""What people wrote down of the TRACAB match, and how well the detectors find it: passes with their players, restarts, shots.

The labels name players by shirts of their own, the tracking by others. A shirt is laid upon the track that stood nearest to
where its labels say that he kicked: places as people saw them against places as cameras did, with no detector between. One
point a label, and few labels a shirt: some of these pairs may be wrong, which counts against the detectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import hypot
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from detectors.soccer.events import FailedPass, Pass, Position, Restart
from detectors.soccer.setup import TRACAB_AWAY, TRACAB_BALL
from middleware.evaluation.measuring.accuracy import Accuracy, Sighting, score
from middleware.model.errors import TraceError
from middleware.model.event import Event
from middleware.model.time import SECOND
from scenarios.soccer.tracab import positions, table_of

LABELLED = 2 * SECOND
"""Tolerance against labels, which people set by hand."""

_FAR = 10.0
"""Metres between label and track from which on they are not the same player, whatever other tracks there are."""

_RESTARTS = {"throw_in": "throw-in", "free_kick": "free kick", "goal_kick": "goal kick", "corner_kick": "corner kick"}


class LabelledPass(msgspec.Struct, frozen=True):
    """A pass that a human wrote down: when it was kicked (ns since kick-off), by which team and shirt, from where (m).

    ``successful``: whether it arrived; ``restart``: what it restarted play with, or ""; ``receiver``: the shirt of the
    team-mate whom the next label names, if it arrived; else 0.
    """

    ts: int
    team: str
    shirt: int
    x: float
    y: float
    successful: bool
    restart: str = ""
    receiver: int = 0


class Labels(msgspec.Struct, frozen=True):
    """All that was written down: passes, and the times and teams of shots; in order."""

    passes: list[LabelledPass]
    shots: list[tuple[int, str]]


def labels(folder: str | Path) -> Labels:
    """The labels by the tracking's clock. Raises TraceError where a file cannot be read.

    The labels' clock starts at their own event ``start``, the tracking's at kick-off: the two are laid upon each other.
    """
    events = table_of(Path(folder) / "events.parquet")
    begun = [at for at, what in zip(events["datetime"], events["original_event"], strict=True) if what == "start"]
    if not begun:
        raise TraceError(f"{folder}/events.parquet has no event 'start': its clock cannot be laid upon that of the tracking")
    table = table_of(Path(folder) / "passes.parquet")
    shirts = dict(zip(table["player_id"], zip(table["team_side"], table["jersey"], strict=True), strict=True))
    sides = dict(zip(table["team_id"], table["team_side"], strict=True))
    names = ("datetime", "team_side", "jersey", "start_x", "start_y", "outcome_str", "set_piece")
    passes = []
    for at, side, shirt, x, y, how, piece in zip(*(table[name] for name in names), strict=True):
        arrived = how != "unsuccessful"
        receiver = _next(events, at, (side, shirt), shirts) if arrived else 0
        passes.append(LabelledPass(_ts(at, begun[0]), side, shirt, x, y, arrived, _RESTARTS.get(piece, ""), receiver))
    labelled = zip(events["datetime"], events["databallpy_event"], events["team_id"], strict=True)
    return Labels(passes, [(_ts(at, begun[0]), sides.get(team, "")) for at, what, team in labelled if what == "shot"])


def _ts(at: datetime, start: datetime) -> int:
    return int((at - start).total_seconds() * 1e9)


def _next(events: dict[str, list[Any]], at: datetime, passer: tuple[str, int], shirts: dict[str, tuple[str, int]]) -> int:
    """The shirt of the next player whom a label after ``at`` names, if he is a team-mate; else 0."""
    later = sorted((when, who) for when, who in zip(events["datetime"], events["player_id"], strict=True) if who and when > at)
    side, shirt = next((shirts[who] for _, who in later if shirts.get(who) not in (passer, None)), ("", 0))
    return shirt if side == passer[0] else 0


Shirts = Mapping[tuple[str, int], int]
"""The player as the setup numbers him, by team and shirt."""


def tracks_of(passes: Sequence[LabelledPass], seen: Sequence[Position]) -> Shirts:
    """Who of the tracking each shirt is: by the median distance between where he kicked and a track at about that time.

    The closest pair first, each track and each shirt once. O(labels * positions).
    """
    near: dict[tuple[str, int, int], list[float]] = {}
    for one in passes:
        least: dict[int, float] = {}
        for event in seen:
            if abs(event.ts - one.ts) <= LABELLED and event.sensor != TRACAB_BALL:
                off = hypot(event.x - one.x, event.y - one.y)
                least[event.sensor] = min(off, least.get(event.sensor, off))
        for track, off in least.items():
            if (track > TRACAB_AWAY) == (one.team == "away"):
                near.setdefault((one.team, one.shirt, track), []).append(off)
    found: dict[tuple[str, int], int] = {}
    for (team, shirt, track), offs in sorted(near.items(), key=lambda item: median(item[1])):
        if (team, shirt) not in found and track not in found.values() and median(offs) <= _FAR:
            found[team, shirt] = track
    return found


def labelled(finals: Mapping[str, Sequence[Event]], folder: str | Path, end: int) -> dict[str, Accuracy | None]:
    """By kind, what was found of the first ``end`` ns, within 2 s of the labels: the whole, then its two halves.

    ``pass``: kicks by a team, those that failed as well, since the labels name these, too. ``pass_player``: and by that
    player. ``pass_receiver``: of those that arrived and whose receiver a label names, from that player to that one.
    ``restart``: by its kind. ``shot``: by a team. None where there is nothing to find, and nothing was found.
    """
    given = labels(folder)
    shirts = tracks_of(given.passes, list(positions(folder)))
    scores: dict[str, Accuracy | None] = {}
    for part, begin, until in (("", 0, end), (", first half", 0, end // 2), (", second half", end // 2, end)):
        found, true = (
            {kind: [one for one in some if begin <= one[1] < until] for kind, some in sightings.items()}
            for sightings in (_found(finals), _true(given, shirts))
        )
        for kind, some in found.items():
            scores[kind + part] = Accuracy.total([score(some, true[kind], LABELLED)])
    return scores


def _found(finals: Mapping[str, Sequence[Event]]) -> dict[str, list[Sighting]]:
    kicked: list[Any] = [event for event in finals["Passes"] if isinstance(event, Pass | FailedPass)]
    shots: Sequence[Any] = finals["Shots"]
    return {
        "pass": [(event.team, event.kicked) for event in kicked],
        "pass_player": [((event.team, event.player), event.kicked) for event in kicked],
        "pass_receiver": [((event.player, event.receiver), event.kicked) for event in kicked if isinstance(event, Pass)],
        "restart": [(event.restart, event.ts) for event in finals["DeadBalls"] if isinstance(event, Restart)],
        "shot": [(event.team, event.ts) for event in shots],
    }


def _true(labelled: Labels, shirts: Shirts) -> dict[str, list[Sighting]]:
    who = [(one, shirts.get((one.team, one.shirt), 0), shirts.get((one.team, one.receiver), 0)) for one in labelled.passes]
    return {
        "pass": [(one.team, one.ts) for one, _, _ in who],
        "pass_player": [((one.team, player), one.ts) for one, player, _ in who],
        "pass_receiver": [((player, receiver), one.ts) for one, player, receiver in who if player and receiver],
        "restart": [(one.restart, one.ts) for one, _, _ in who if one.restart],
        "shot": [(team, ts) for ts, team in labelled.shots],
    }
