"""Motions on columns: the same windows for all transmitters at once, in numpy. What it costs stands in decision 085.

Where ``on_batch`` is tested on what a real detector does: sums carried over, several windows a batch, results of two types.
"""

from __future__ import annotations

from math import dist
from typing import Any

import numpy as np

from detectors.soccer.events import BallMotion, LimbMotion, Position
from detectors.soccer.players.player_motion import BALL_WINDOW, LIMB_WINDOW, STRUCK
from detectors.soccer.setup import Setting, setup_of
from middleware.model.batch_results import Row
from middleware.model.block.block import Block
from middleware.model.detector import Detector
from middleware.model.event import NEVER, Event
from middleware.model.time import SECOND

_HEARTBEAT = SECOND
_VALUES = ("x", "y", "z", "vx", "vy", "vz")
_LIMITS = np.array([[0.1], [0.1], [0.1], [0.3], [0.3], [0.3]])
"""Less than this is no change: metres, and metres per second."""


class Motions(Detector):
    """See ``detectors.soccer.players.player_motion``.

    State, with a place for each transmitter that matters: how many samples its window has, the time of the first, the end of
    the window, and the sums of ``_VALUES``; what was last shown of it, and when.
    """

    __slots__ = unchanging = ("_lengths", "_phases", "_places", "_sensors", "_wearers")
    subscribes, publishes, key = (Position,), (LimbMotion, BallMotion), "sensor"
    backdate, identity = LIMB_WINDOW, "time"

    def __init__(self, setup: Setting = "generated") -> None:
        known = setup_of(setup)
        self._wearers = {sensor: (p.player, p.team) for p in known.players for sensor in p.sensors}
        # the windows of a player's limbs are staggered: no two of them report at the same time
        phases = {sensor: LIMB_WINDOW * k // len(p.sensors) for p in known.players for k, sensor in enumerate(p.sensors)}
        sensors = sorted({*phases, *known.balls})
        places = len(sensors)
        self._sensors = np.array(sensors, np.int64)
        self._places = np.min_scalar_type(places).str  # short numbers are sorted sooner
        self._lengths = np.array([LIMB_WINDOW if each in phases else BALL_WINDOW for each in sensors], np.int64)
        self._phases = np.array([phases.get(each, 0) for each in sensors], np.int64)
        self.counts = np.zeros(places, np.int64)
        self.firsts = np.zeros(places, np.int64)
        self.ends = np.zeros(places, np.int64)
        self.sums = np.zeros((len(_VALUES), places))
        self.began = np.zeros((3, places))
        self.shown_at = np.full(places, NEVER, np.int64)
        self.shown = np.zeros((len(_VALUES), places))

    def on_batch(self, events: Block) -> list[Row]:
        rows, places = self._by_transmitter(events.array("sensor"))
        if not len(rows):
            return []
        ts, lengths, phases = events.times[rows], self._lengths[places], self._phases[places]
        starts = (ts - phases) // lengths * lengths + phases
        values = np.array([events.array(name)[rows] for name in _VALUES])
        heads, opens = np.ones(len(rows), np.bool_), ts >= self.ends[places]
        heads[1:] = places[1:] != places[:-1]
        opens[1:] &= heads[1:] | ~opens[:-1] | (starts[1:] != starts[:-1])
        # windows are numbered: of each transmitter the one that it has, then those that its samples open
        numbers, seen = np.cumsum(heads) + np.cumsum(opens) - 1, places[heads]
        had, new = numbers[heads] - opens[heads], numbers[opens]
        firsts = _placed(had, self.firsts[seen], new, ts[opens])
        ends = _placed(had, self.ends[seen], new, starts[opens] + lengths[opens])
        counts = np.bincount(numbers, minlength=len(ends))
        counts[had] += self.counts[seen]
        sums = _sums(np.append(had, numbers), np.append(self.sums[:, seen], values, axis=1), len(ends))
        began = np.empty((3, len(ends)))
        began[:, had], began[:, new] = self.began[:, seen], values[3:, opens]
        last = np.append(had[1:], len(ends)) - 1
        self.counts[seen], self.firsts[seen], self.ends[seen] = counts[last], firsts[last], ends[last]
        self.sums[:, seen], self.began[:, seen] = sums[:, last], began[:, last]
        # each new window closes the one before it; after a gap of more than a window the old samples say nothing any more
        closed, came, now = new - 1, ts[opens], starts[opens]
        is_gap = came >= ends[closed] + lengths[opens]
        middles = np.where(is_gap, came, (firsts[closed] + ends[closed]) // 2)
        with np.errstate(all="ignore"):  # numbers that are not finite
            motions = np.where(is_gap, values[:, opens], sums[:, closed] / np.maximum(counts[closed], 1))
            ahead = (now - middles) * 1e-9
            for at in np.flatnonzero(~is_gap & (counts[closed] > 1) & (lengths[opens] == BALL_WINDOW)).tolist():
                if dist(motions[3:, at].tolist(), began[:, closed[at]].tolist()) > STRUCK:
                    ahead[at] = 0.0
            motions[:3] += motions[3:] * ahead
            sound = np.flatnonzero((counts[closed] > 0) & np.isfinite(motions.sum(axis=0)))
        return self._changes(rows[opens][sound], places[opens][sound], now[sound], motions[:, sound])

    def _by_transmitter(self, sensors: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The rows of transmitters that matter, those of each together and in order of time; and their places."""
        places = np.searchsorted(self._sensors, sensors) % len(self._sensors)
        rows = np.flatnonzero(self._sensors[places] == sensors)
        places = places[rows]
        order = np.argsort(places.astype(self._places), kind="stable")
        return rows[order], places[order]

    def _changes(
        self, rows: np.ndarray[Any, Any], places: np.ndarray[Any, Any], now: np.ndarray[Any, Any], motions: np.ndarray[Any, Any]
    ) -> list[Row]:
        """Motions that differ from what was shown last, as events: the first of each transmitter, then the second, ..."""
        found: list[Row] = []
        left = np.arange(len(rows))
        while len(left):
            is_next = np.ones(len(left), np.bool_)
            is_next[1:] = places[left[1:]] != places[left[:-1]]
            these, left = left[is_next], left[~is_next]
            at = places[these]
            is_new = (np.abs(motions[:, these] - self.shown[:, at]) >= _LIMITS).any(axis=0)
            these = these[is_new | (now[these] - self.shown_at[at] >= _HEARTBEAT)]
            if not len(these):
                continue
            shown = [_rounded(each) for each in motions[:, these].T.tolist()]
            self.shown[:, places[these]] = np.array(shown).T
            self.shown_at[places[these]] = now[these]
            sensors = self._sensors[places[these]].tolist()
            made = map(self._event, sensors, shown, now[these].tolist())
            found += zip(rows[these].tolist(), made, strict=True)
        return found

    def _event(self, sensor: int, shown: list[float], now: int) -> Event:
        if sensor not in self._wearers:
            return BallMotion(sensor, *shown, ts=now)
        player, team = self._wearers[sensor]
        return LimbMotion(sensor, player, team, *shown, ts=now)


def _placed(at: np.ndarray[Any, Any], these: Any, elsewhere: np.ndarray[Any, Any], those: Any) -> np.ndarray[Any, Any]:
    """Whole numbers, these and those, each at its place."""
    made = np.empty(len(at) + len(elsewhere), np.int64)
    made[at], made[elsewhere] = these, those
    return made


def _sums(of: np.ndarray[Any, Any], values: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    """The sums of each row of values by number, added one after the other: the last bit hangs on that."""
    return np.array([np.bincount(of, each, count) for each in values])


def _rounded(motion: list[float]) -> list[float]:
    """To cm and 0.1 m/s, as Python rounds; no zero has a sign."""
    x, y, z, vx, vy, vz = motion
    return [round(x, 2) + 0.0, round(y, 2) + 0.0, round(z, 2) + 0.0, round(vx, 1) + 0.0, round(vy, 1) + 0.0, round(vz, 1) + 0.0]
