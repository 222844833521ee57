"""A generated match as cameras would see it: 25 frames a second, one point a player, noise, and no dead ball.

For the setup ``tracab``: players 12 to 22 are 101 to 111. So what detectors make of optical tracking can be held against a
truth of any length; three labelled minutes of a real match are few.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from msgspec.structs import replace

from detectors.soccer.events import Position
from detectors.soccer.setup import TRACAB_AWAY, TRACAB_BALL
from middleware.recordings.sport.motion import ball_motions, motions
from scenarios.soccer.match.physics import STEP
from scenarios.soccer.match.play import PEOPLE, TICK, Match
from scenarios.soccer.match.truth import Happening
from scenarios.soccer.match.variety import Variety

FRAME = 40_000_000
"""Nanoseconds from one frame to the next."""
_NOISE = 0.03
"""Standard deviation of a place (m), per axis."""
_AGAIN = 600_000_000
"""So long (ns) before the restart cameras follow the ball again."""


def seen(seed: int, seconds: float, variety: Variety | None = None) -> tuple[list[Position], list[Happening]]:
    """What cameras see of a match, in total order, and what really happened in it. O(frames * players)."""
    match, end = Match(seed, variety), round(seconds * 1e9)
    match.play(seconds)
    frames = end // FRAME
    balls = np.array(match.ball_track).reshape(-1, 9)[:: round(FRAME / 1e9 / STEP)][:frames, :3]
    bodies = np.array(match.body_track).reshape(-1, PEOPLE, 6)[:: round(FRAME / 1e9 / TICK)][:frames, :22, :2]
    story = [happening for happening in match.story.happenings if happening.end < end]
    random, number = np.random.default_rng([seed, 25]), np.arange(frames)
    found = _track(TRACAB_BALL, number[_alive(story, number)], balls, random)
    for player in range(22):
        places = np.column_stack([bodies[:, player], np.zeros(frames)])
        found += _track(_number(player + 1), number, places, random)
    numbered = [replace(each, player=_number(each.player), other=_number(each.other)) for each in story]
    return sorted(found, key=lambda event: (event.ts, event.source)), numbered


def _number(player: int) -> int:
    """The player as the setup ``tracab`` numbers him."""
    return player if player <= 11 else TRACAB_AWAY + player - 11


def _alive(story: list[Happening], frames: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[bool]:
    """For each frame, whether play is on, or soon will be."""
    stops = [each for each in story if each.kind in ("out", "foul", "restart")]
    times = [each.end for each in stops]
    alive = []
    for ts in (frames * FRAME).tolist():
        at = bisect_right(times, ts)
        dead = at > 0 and stops[at - 1].kind != "restart" and ts > times[at - 1] + FRAME * 5
        alive.append(not dead or (at < len(times) and times[at] - ts <= _AGAIN))
    return alive


def _track(
    sensor: int, frames: np.ndarray[tuple[int], np.dtype[np.int64]], places: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    random: np.random.Generator,
) -> list[Position]:  # fmt: skip
    """One sensor's positions in these frames, with the differences of frames that follow each other."""
    noisy = np.round(places[frames] + random.normal(0.0, _NOISE, (len(frames), 3)), 2)
    rows = (ball_motions if sensor == TRACAB_BALL else motions)(frames * FRAME, noisy, 1.5 * FRAME).tolist()
    source = f"optical-{sensor:03}"
    return [Position(sensor, *row, ts=int(n) * FRAME, id=int(n), source=source) for n, row in zip(frames, rows, strict=True)]
