"""What the locating system measures of a match: unaligned, jittering, slightly noisy samples of every transmitter.

144 transmitters as in the setup ``generated``: four limbs of 22 players, 3 officials and 10 warming-up substitutes, a fixed
one for reference (200 Hz each), and three balls (2,000 Hz each), of which two lie beside the pitch: 34,200 positions a
second, always, as in the DEBS'13 recordings, where idle balls send at the full rate too. numpy and pyarrow are imported
here only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scenarios.soccer.match.physics import STEP
from scenarios.soccer.match.play import PEOPLE, TICK, Match

CHUNK = 10
"""Seconds that are drawn at once. Every transmitter has a random generator of its own for each chunk."""

LIMB_RATE, BALL_RATE = 200, 2_000
BALL = 142
SPARE_BALLS = {143: (-30.0, -37.8), 144: (30.0, 37.8)}
REFERENCE = 141

_SUBSTITUTES = 10
_TICKS, _STEPS = round(CHUNK / TICK), round(CHUNK / STEP)
_LIMB_NOISE, _BALL_NOISE = (0.03, 0.05, 0.5), (0.02, 0.05, 3.0)
"""Standard deviations of position (m), velocity (m/s) and acceleration (m/s2), per axis."""

_LIMBS = ((0.12, 0.0, 1.0, 0.1), (-0.12, np.pi, 1.0, 0.1), (0.3, np.pi, 0.6, 1.05), (-0.3, 0.0, 0.6, 1.05))
"""Left leg, right leg, left arm, right arm: to the left (m), phase and relative width of the swing, height (m)."""

Floats = NDArray[np.float64]


Columns = dict[str, NDArray[Any]]
"""The columns of a table by name."""


def chunks(seed: int, seconds: float) -> Iterator[Columns]:
    """The columns of all positions, ten seconds at a time, each in total order. Memory: O(one chunk)."""
    match, end = Match(seed), round(seconds * 1e9)
    strides = np.zeros(PEOPLE + _SUBSTITUTES)
    for chunk in range(-(-end // (CHUNK * 10**9))):
        match.play((chunk + 1) * CHUNK + 2 * TICK)
        balls, bodies = _taken(match)
        start = chunk * CHUNK
        bodies = np.concatenate([bodies, _substitutes(start)], axis=1)
        phases = strides + np.cumsum(_stride_rate(bodies), axis=0) * (2 * np.pi * TICK)
        strides = phases[_TICKS - 1]
        parts = [_limb(seed, chunk, sensor, bodies, phases) for sensor in range(1, REFERENCE)]
        parts.append(_resting(seed, chunk, REFERENCE, (0.0, -40.0, 3.0)))
        parts.append(_rolling(seed, chunk, balls))
        parts += [_resting(seed, chunk, sensor, (x, y, 0.0)) for sensor, (x, y) in SPARE_BALLS.items()]
        yield _ordered(parts, end)


def _taken(match: Match) -> tuple[Floats, Floats]:
    """The tracks of this chunk: a row a step of the ball, a row a tick of each person. They are cut off the match's own."""
    balls = np.array(match.ball_track).reshape(-1, 9)
    bodies = np.array(match.body_track).reshape(-1, PEOPLE, 6)
    del match.ball_track[: _STEPS * 9]
    del match.body_track[: _TICKS * PEOPLE * 6]
    return balls[: _STEPS + 1], bodies[: _TICKS + 1]


def _substitutes(start: float) -> Floats:
    """Ten players who jog to and fro behind the touch line."""
    t = (start + np.arange(_TICKS + 1) * TICK)[:, None]
    number = np.arange(_SUBSTITUTES)
    rate, width = 0.22 + 0.02 * number, 9.0
    angle = rate * t + number
    still = np.zeros_like(angle)
    x = -40.0 + 8.0 * number + width * np.sin(angle)
    motion = (width * rate * np.cos(angle), still, -width * rate * rate * np.sin(angle), still)
    return np.stack([x, np.full_like(angle, 37.0), *motion], axis=2)


def _stride_rate(bodies: Floats) -> Floats:
    """Strides a second of a person, by his speed."""
    rate: Floats = 0.5 + 0.18 * np.hypot(bodies[:, :, 2], bodies[:, :, 3])
    return rate


def _limb(seed: int, chunk: int, sensor: int, bodies: Floats, phases: Floats) -> Columns:
    """One limb: it swings to and fro in the direction of running, the more the faster."""
    person, limb = divmod(sensor - 1, 4)
    aside, shift, swing, height = _LIMBS[limb]
    random, number, ts = _clock(seed, chunk, sensor, LIMB_RATE)
    x, y, vx, vy, ax, ay = _sampled(bodies[:, person], ts, chunk, TICK)
    (phase,) = _sampled(phases[:, person, None], ts, chunk, TICK)
    speed = np.hypot(vx, vy)
    fx, fy = vx + 0.3, vy
    size = np.hypot(fx, fy) + 1e-3
    fx, fy = fx / size, fy / size
    width = swing * np.minimum(0.1 * speed, 0.6)
    turning = 2 * np.pi * (0.5 + 0.18 * speed)
    out = width * np.sin(phase + shift)
    rate = width * turning * np.cos(phase + shift)
    x, y, z = x + fx * out - fy * aside, y + fy * out + fx * aside, height + 0.5 * width * (1 + np.cos(phase + shift))
    vx, vy, vz = vx + fx * rate, vy + fy * rate, -0.5 * turning * out
    ax, ay, az = ax - fx * out * turning**2, ay - fy * out * turning**2, -0.5 * turning * rate
    return _measured(random, sensor, (number, ts), (x, y, z, vx, vy, vz, ax, ay, az), _LIMB_NOISE)


def _rolling(seed: int, chunk: int, track: Floats) -> Columns:
    """The ball that is played with."""
    random, number, ts = _clock(seed, chunk, BALL, BALL_RATE)
    return _measured(random, BALL, (number, ts), _sampled(track, ts, chunk, STEP), _BALL_NOISE)


def _resting(seed: int, chunk: int, sensor: int, place: tuple[float, float, float]) -> Columns:
    """A transmitter that stays where it is: a spare ball, or the one for reference."""
    spare = sensor in SPARE_BALLS
    random, number, ts = _clock(seed, chunk, sensor, BALL_RATE if spare else LIMB_RATE)
    columns = tuple(np.full(len(ts), value) for value in (*place, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    return _measured(random, sensor, (number, ts), columns, _BALL_NOISE if spare else _LIMB_NOISE)


def _clock(seed: int, chunk: int, sensor: int, rate: int) -> tuple[np.random.Generator, NDArray[np.int64], NDArray[np.int64]]:
    """The random generator of a transmitter in a chunk, its sequence numbers, and when it samples.

    Its phase is its own, and each sample is up to a tenth of the period off: no two transmitters are aligned, and a
    sample never leaves its own period, so that chunks do not overlap.
    """
    phase = np.random.default_rng([seed, sensor]).uniform(0.1, 0.9)
    random = np.random.default_rng([seed, sensor, chunk])
    number = np.arange(chunk * CHUNK * rate, (chunk + 1) * CHUNK * rate, dtype=np.int64)
    off = np.clip(random.normal(0.0, 0.03, len(number)), -0.1, 0.1) + phase
    return random, number, number * (10**9 // rate) + (off * (10**9 / rate)).astype(np.int64)


def _sampled(track: Floats, ts: NDArray[np.int64], chunk: int, step: float) -> tuple[Floats, ...]:
    """The columns of a track at the times ``ts``, by linear interpolation (exact to less than a millimetre)."""
    at = (ts - chunk * CHUNK * 10**9) * (1e-9 / step)
    low = at.astype(np.int64)
    part = (at - low)[:, None]
    rows = track[low] * (1 - part) + track[low + 1] * part
    return tuple(rows.T)


def _measured(
    random: np.random.Generator,
    sensor: int,
    samples: tuple[NDArray[np.int64], NDArray[np.int64]],
    columns: tuple[Floats, ...],
    noise: tuple[float, float, float],
) -> Columns:
    """The columns with noise, in whole mm, mm/s and mm/s2. ``samples``: sequence numbers and times."""
    number, ts = samples
    spread = np.repeat(np.array(noise), 3)[:, None]
    values = np.round(np.stack(columns) + random.standard_normal((9, len(ts))) * spread, 3) + 0.0
    named = dict(zip(("x", "y", "z", "vx", "vy", "vz", "ax", "ay", "az"), values, strict=True))
    return {"sensor": np.full(len(ts), sensor, dtype=np.int64), **named, "ts": ts, "id": number}


def _ordered(parts: list[Columns], end: int) -> Columns:
    """All parts as one, in total order: by time, and at the same time by the name of the source."""
    parts = sorted(parts, key=lambda part: f"sensor-{part['sensor'][0]}")
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(whole["ts"], kind="stable")
    order = order[: np.searchsorted(whole["ts"][order], end)]
    return {name: column[order] for name, column in whole.items()}


def table(columns: Columns) -> pa.Table:
    """The columns as an Arrow table, with the name of the source as the last."""
    names = pa.array([f"sensor-{number}" for number in range(max(columns["sensor"], default=0) + 1)])
    return pa.table({**columns, "source": names.take(pa.array(columns["sensor"]))})
