"""Delay models: how long after its occurrence each event arrives. Seeded, and independent of how rows are partitioned.

The randomness of a row is a hash of (seed, source, id): there is no generator state that depends on the order of rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

import msgspec
import numpy as np
import numpy.typing as npt

from middleware.model.errors import QuantityError, TraceError
from middleware.model.event import stable_hash
from middleware.model.quantities import format_duration, parse_duration

Words = npt.NDArray[np.uint64]
Reals = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]
Samples = dict[str, Reals]

_MASK = 2**64 - 1
_STEP = 0x9E3779B97F4A7C15


class Nanoseconds(int):
    """Nanoseconds; marks the parameters that are written with a unit."""


def mixed(words: Words) -> Words:
    """A bijective 64-bit mix in which every input bit affects every output bit (the finaliser of SplitMix64, Steele 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


class RowRandom:
    """Uniform random numbers in (0, 1) for rows of one source; ``stream`` separates several draws of one row."""

    def __init__(self, seed: int, source: str) -> None:
        self._key = stable_hash(f"{seed}/{source}")

    def uniform(self, numbers: Times, stream: int) -> Reals:
        """One number for each of ``numbers`` (ids, or periods of time). O(rows)."""
        salt = np.uint64((self._key + stream * _STEP) & _MASK)
        words = mixed(mixed(numbers.astype(np.uint64) * np.uint64(_STEP) ^ salt) + salt)
        return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53

    def once(self, stream: int) -> float:
        """One number for the source as a whole."""
        return float(self.uniform(np.zeros(1, np.int64), stream)[0])


class DelayModel(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the delay models. All of them take these parameters:

    ``spread``
        sources differ: each has its own factor for all delays, uniform between 1 - spread and 1 + spread.
    ``fifo``
        a source's events never overtake each other: each arrives no earlier than the one before it.
    """

    name: ClassVar[str]

    spread: float = 0.0
    fifo: bool = False

    def check(self) -> None:
        """Raise TraceError if the parameters make no sense."""
        if not 0 <= self.spread < 1:
            raise TraceError(f"{self}: spread is a share of the delay, at least 0 and below 1")
        for name, hint in get_type_hints(type(self)).items():
            if hint is Nanoseconds and getattr(self, name) < 0:
                raise TraceError(f"{self}: {name} must not be negative: nothing arrives before it happens")

    def delays(self, draw: RowRandom, ts: Times, ids: Times, stream: int, samples: Samples) -> Reals:
        """Delays (ns) of one source's rows."""
        raise NotImplementedError

    def __str__(self) -> str:
        parts = []
        for field in msgspec.structs.fields(self):
            value = getattr(self, field.name)
            if field.required or value != field.default:
                text = format_duration(value) if get_type_hints(type(self))[field.name] is Nanoseconds else str(value)
                parts.append(f"{field.name}={text.lower() if isinstance(value, bool) else text}")
        return f"{self.name}({', '.join(parts)})"


class Constant(DelayModel, frozen=True):
    """Always the same: ``constant(3ms)``."""

    name: ClassVar[str] = "constant"
    delay: Nanoseconds

    def delays(self, draw: RowRandom, ts: Times, ids: Times, stream: int, samples: Samples) -> Reals:
        return np.full(len(ts), float(self.delay))


class Uniform(DelayModel, frozen=True):
    """Evenly between two bounds: ``uniform(5ms, 250ms)``."""

    name: ClassVar[str] = "uniform"
    low: Nanoseconds
    high: Nanoseconds

    def check(self) -> None:
        super().check()
        if self.high < self.low:
            raise TraceError(f"{self}: high must be at least low")

    def delays(self, draw: RowRandom, ts: Times, ids: Times, stream: int, samples: Samples) -> Reals:
        return self.low + (self.high - self.low) * draw.uniform(ids, stream)


class Lognormal(DelayModel, frozen=True):
    """Many short delays, few very long: ``lognormal(median=20ms, sigma=0.8, max=900ms)``; longer ones become ``max``."""

    name: ClassVar[str] = "lognormal"
    median: Nanoseconds
    sigma: float
    max: Nanoseconds = Nanoseconds(10_000_000_000)

    def check(self) -> None:
        super().check()
        if self.sigma < 0:
            raise TraceError(f"{self}: sigma must not be negative")

    def delays(self, draw: RowRandom, ts: Times, ids: Times, stream: int, samples: Samples) -> Reals:
        # Box and Muller: two uniform numbers make a normal one.
        radius = np.sqrt(-2.0 * np.log(draw.uniform(ids, stream)))
        normal = radius * np.cos(2.0 * np.pi * draw.uniform(ids, stream + 1))
        limited: Reals = np.minimum(self.median * np.exp(self.sigma * normal), float(self.max))
        return limited


class Bursts(DelayModel, frozen=True):
    """Mostly ``base``, but ``burst`` once in each period ``every``, for ``length``, at a moment drawn per source and period:
    ``bursts(base=10ms, burst=600ms, every=5s, length=200ms)``."""

    name: ClassVar[str] = "bursts"
    base: Nanoseconds
    burst: Nanoseconds
    every: Nanoseconds
    length: Nanoseconds

    def check(self) -> None:
        super().check()
        if not 0 < self.length <= self.every:
            raise TraceError(f"{self}: length must be above 0 and at most every")

    def delays(self, draw: RowRandom, ts: Times, ids: Times, stream: int, samples: Samples) -> Reals:
        period, moment = np.divmod(ts, np.int64(self.every))
        # The moment depends on source and period, not on the row: a copy of an event meets the same burst.
        start = draw.uniform(period, 64) * (self.every - self.length)
        inside = (moment >= start) & (moment < start + self.length)
        return np.where(inside, float(self.burst), float(self.base))


class Empirical(DelayModel, frozen=True):
    """Drawn from the delays measured in another trace: ``empirical(traces/umts, fifo=true)``."""

    name: ClassVar[str] = "empirical"
    path: str

    def delays(self, draw: RowRandom, ts: Times, ids: Times, stream: int, samples: Samples) -> Reals:
        measured = samples[self.path]
        return measured[(draw.uniform(ids, stream) * len(measured)).astype(np.int64)]


_MODELS: dict[str, type[DelayModel]] = {m.name: m for m in (Constant, Uniform, Lognormal, Bursts, Empirical)}
_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
_PARSERS: dict[type, Callable[[str], Any]] = {
    Nanoseconds: lambda text: Nanoseconds(parse_duration(text)),
    float: float,
    str: lambda text: text.strip("'\""),
    bool: lambda text: {"true": True, "false": False}[text],
}


def parse_model(text: str) -> DelayModel:
    """The delay model described by a text such as ``uniform(5ms, 250ms)``; TraceError if the text is invalid."""
    found = _CALL.fullmatch(text)
    if not found or found[1] not in _MODELS:
        raise TraceError(f"{text!r} is no delay model: write one of {', '.join(f'{name}(...)' for name in _MODELS)}")
    model = _MODELS[found[1]]
    names = [field.name for field in msgspec.structs.fields(model) if field.name not in ("spread", "fifo")]
    hints = get_type_hints(model)
    values: dict[str, Any] = {}
    for position, argument in enumerate(filter(None, (part.strip() for part in found[2].split(",")))):
        name, equals, value = (part.strip() for part in argument.partition("="))
        if not equals:
            name, value = names[position] if position < len(names) else "?", argument
        if name not in (*names, "spread", "fifo") or name in values:
            raise TraceError(f"{text!r}: {argument!r} does not fit; {model.name} takes {', '.join(names)}, spread, fifo")
        try:
            values[name] = _PARSERS[hints[name]](value)
        except QuantityError as error:
            raise TraceError(f"{text!r}: {error}") from None
        except (ValueError, KeyError):
            raise TraceError(f"{text!r}: {value!r} is no value for {name}") from None
    try:
        made = model(**values)
    except TypeError:
        raise TraceError(f"{text!r}: {model.name} needs {', '.join(names)}") from None
    made.check()
    return made


class Delays(msgspec.Struct, frozen=True):
    """The delay model of each source.

    ``model``
        for every source that no pattern names.
    ``overrides``
        models by source pattern (``sensor-4``, ``phone-*``); the first match counts.
    ``duplicates``
        probability that an event arrives a second time, after a delay of its own.
    ``seed``
        same seed, same delays.
    """

    model: DelayModel
    overrides: dict[str, DelayModel] = {}
    duplicates: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.duplicates <= 1:
            raise TraceError(f"duplicates is a probability, so between 0 and 1, not {self.duplicates}")

    def for_source(self, source: str) -> DelayModel:
        """The model of one source."""
        return next((model for pattern, model in self.overrides.items() if fnmatchcase(source, pattern)), self.model)

    @property
    def models(self) -> list[DelayModel]:
        return [self.model, *self.overrides.values()]

    def describe(self) -> str:
        """The models as text, for ``trace.json``."""
        overrides = "".join(f"; {pattern}: {model}" for pattern, model in self.overrides.items())
        return f"{self.model}{overrides}" + (f"; duplicates={self.duplicates}" if self.duplicates else "")

    def arrivals(self, source: str, ts: Times, ids: Times, samples: Samples, copy: bool = False) -> Times:
        """Arrival times (ns) of one source's rows, or of their second copies. O(rows)."""
        model = self.for_source(source)
        draw = RowRandom(self.seed, source)
        delays = model.delays(draw, ts, ids, 32 if copy else 0, samples)
        factor = 1.0 + model.spread * (2.0 * draw.once(65) - 1.0)
        arrivals: Times = ts + np.rint(delays * factor).astype(np.int64)
        return arrivals

    def duplicated(self, source: str, ids: Times) -> npt.NDArray[np.bool_]:
        """Which rows of one source arrive twice."""
        return RowRandom(self.seed, source).uniform(ids, 66) < self.duplicates


def parse_delays(model: str, overrides: Mapping[str, str] | None = None, duplicates: float = 0.0, seed: int = 0) -> Delays:
    """Parse delays from texts: a model for all sources, and models by source pattern. Raises TraceError."""
    by_pattern = {pattern: parse_model(text) for pattern, text in (overrides or {}).items()}
    return Delays(parse_model(model), by_pattern, duplicates, seed)


MAX_SAMPLES = 100_000


def measured_delays(path: str) -> Reals:
    """The delays (ns) measured in a trace, sorted; thinned evenly to at most 100,000. Raises TraceError."""
    from middleware.recordings.traces import columns, load_trace

    trace = load_trace(path)
    found = [
        batch.column("arrival").to_numpy() - batch.column("ts").to_numpy()
        for name in trace.types
        for batch in columns(Path(path), trace, name, ["arrival", "ts"])
    ]
    delays = np.sort(np.concatenate(found)).astype(np.float64)
    if delays[0] < 0:
        raise TraceError(f"{path}: events that arrive before they happen; a trace with measured, aligned delays is needed")
    if len(delays) > MAX_SAMPLES:
        delays = delays[np.linspace(0, len(delays) - 1, MAX_SAMPLES).astype(np.int64)]
    return delays
