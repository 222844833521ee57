"""Draws events from the declarations of their types, or takes those of the detector, as input of the conformance checks.

Values are small and close together, on a scale that changes from one sequence to the next, so that keys recur,
thresholds are crossed and events have equal times.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec import inspect

from middleware.model.detector import Detector
from middleware.model.errors import EventError
from middleware.model.event import IDENTITY, MAX_TS, MIN_TS, ORDER, Event, EventType, Value, type_name
from middleware.model.time import MILLISECOND, SECOND
from middleware.model.words import shown

SCALES = (2, 5, 50, 10_000)
GAPS = (0, 1, MILLISECOND, 20 * MILLISECOND, SECOND, 10 * SECOND)
SOURCES = ("a", "b", "c")
BASE = frozenset(Event.__struct_fields__)

_DEEPEST = 3
"""In so many structs, one in another, collections are as small as they may be, and what may be None is."""


def sequences(detector: Detector | type[Detector], count: int, length: int, seed: int) -> list[list[Event]]:
    """Input for a detector: ``count`` sequences of up to ``length`` events in total order, the same for the same seed.

    A detector with a class method ``examples() -> list[Event]`` gives one sequence itself; its events need not be
    numbered. Raises EventError if a type declares fields that cannot be drawn.
    """
    given = getattr(detector, "examples", None)
    if given is not None:
        name = (detector if isinstance(detector, type) else type(detector)).__name__
        return [_numbered(_given(given, name), name, detector.subscribes)]
    drawn = []
    for number in range(count):
        generator = random.Random(seed * 1_000_003 + number)
        count_of_events = max(1, length * (number + 1) // count)
        drawn.append(draw_events(detector.subscribes, count_of_events, generator))
    return drawn


def _given(examples: Callable[[], Iterable[Event]], name: str) -> list[Event]:
    """A detector's own examples. Raises EventError for what are none."""
    try:
        events = list(examples())
    except Exception as error:
        raise EventError(
            f"{name}.examples() fails: {type(error).__name__}: {error}; it is a class method that returns a list of events"
        ) from None
    for event in events:
        if not (isinstance(event, Event) and type(event.ts) is type(event.id) is int and isinstance(event.source, str)):
            raise EventError(f"{name}.examples() gives {shown(event)}: its items are events, with whole numbers as ts and id")
        if not MIN_TS < event.ts < MAX_TS:
            raise EventError(f"{name}.examples() gives an event at {event.ts} ns, which is no time")
    return events


def _numbered(events: Sequence[Event], name: str, subscribes: Sequence[EventType]) -> list[Event]:
    """A detector's own examples in total order, with ids if they have none."""
    if stray := {type(event).__name__ for event in events if type(event) not in subscribes}:
        raise EventError(f"{name}.examples() gives {', '.join(sorted(stray))}, which it does not subscribe to")
    if not events:
        raise EventError(f"{name}.examples() gives no events")
    if len(set(map(IDENTITY, events))) < len(events):
        events = [msgspec.structs.replace(event, id=number) for number, event in enumerate(events)]
    return sorted(events, key=ORDER)


def draw_events(types: Sequence[EventType], count: int, generator: random.Random) -> list[Event]:
    """``count`` events of the given types in total order, as raw events of a few sources."""
    draw = Draw(generator)
    gaps = generator.sample(GAPS, 3)
    ts = SECOND
    events: list[Event] = []
    for number in range(count):
        ts += generator.choice(gaps) * generator.randint(1, 3)
        events.append(draw.event(generator.choice(types), ts, number, generator.choice(SOURCES)))
    return sorted(events, key=ORDER)


Items = inspect.ListType | inspect.SetType | inspect.FrozenSetType | inspect.VarTupleType
Sized = Items | inspect.DictType | inspect.StrType | inspect.BytesType


class Draw:
    """Draws values of declared types: one generator, one scale."""

    def __init__(self, generator: random.Random) -> None:
        self.generator = generator
        self.scale = generator.choice(SCALES)
        self._known: dict[str, list[Value]] = {}
        self._depth = 0
        """How many structs the present value lies in: some hold others of their kind."""

    def event(self, event_type: EventType, ts: int, number: int, source: str) -> Event:
        declared = inspect.type_info(event_type)
        assert isinstance(declared, inspect.StructType)
        values = {}
        for field in declared.fields:
            if field.name not in BASE:
                try:
                    values[field.name] = self._familiar(field)
                except (EventError, RecursionError) as error:
                    raise EventError(
                        f"cannot draw {type_name(event_type)}.{field.name}: {error}; "
                        "give the detector a class method examples() that returns a list of events"
                    ) from None
        return event_type(ts=ts, id=number, source=source, **values)

    def _familiar(self, field: inspect.Field) -> Value:
        """A value for a field: half of the time one of the first drawn for it, so that keys and names recur across types."""
        known = self._known.setdefault(f"{field.name} {field.type}", [])
        if known and self.generator.random() < 0.5:
            return self.generator.choice(known)
        value = self.value(field.type)
        if type(value) in (int, str) and len(known) < 2:
            known.append(value)
        return value

    def value(self, kind: inspect.Type) -> Value:
        """A value of a declared type, within its bounds."""
        draw = _DRAWS.get(type(kind))
        if draw is None:
            raise EventError(f"no way to draw a {type(kind).__name__.removesuffix('Type').lower()}")
        return draw(self, kind)

    def integer(self, kind: inspect.IntType) -> int:
        low, high = _bounds(kind, self.scale, 1)
        step = kind.multiple_of or 1
        first = math.ceil(low / step)
        return int(self.generator.randint(first, max(first, math.floor(high / step))) * step)

    def number(self, kind: inspect.FloatType) -> float:
        low, high = _bounds(kind, self.scale, 1e-9)
        if kind.multiple_of:
            return math.ceil(self.generator.uniform(low, high) / kind.multiple_of) * kind.multiple_of
        digits = self.generator.choice((0, 3))  # whole numbers recur; short ones are easy to read
        return min(max(low, round(self.generator.uniform(low, high), digits)), high)

    def text(self, kind: inspect.StrType) -> str:
        if kind.pattern:
            raise EventError(f"its pattern {kind.pattern!r} cannot be turned into text")
        word = self.generator.choice("abcde") * self._size(kind, 1)
        return word[: kind.max_length] if kind.max_length is not None else word

    def items(self, kind: Items) -> list[Value]:
        return [self.value(kind.item_type) for _ in range(self._size(kind, 0))]

    def _size(self, kind: Sized, low: int) -> int:
        low = max(low, kind.min_length or 0)
        if self._depth > _DEEPEST:
            return low
        high = low + 3 if kind.max_length is None else max(low, min(low + 3, kind.max_length))
        return self.generator.randint(low, high)

    def mapping(self, kind: inspect.DictType) -> dict[Value, Value]:
        return {self.value(kind.key_type): self.value(kind.value_type) for _ in range(self._size(kind, 0))}

    def struct(self, kind: inspect.StructType) -> Value:
        self._depth += 1
        try:
            return kind.cls(**{field.name: self.value(field.type) for field in kind.fields})
        finally:
            self._depth -= 1

    def one_of(self, kind: inspect.UnionType) -> Value:
        ends = [each for each in kind.types if isinstance(each, inspect.NoneType)] if self._depth > _DEEPEST else []
        return self.value(self.generator.choice(ends or kind.types))


def _bounds(kind: inspect.IntType | inspect.FloatType, scale: int, step: float) -> tuple[float, float]:
    """The range to draw from: the declared one, narrowed to about ``scale``."""
    low = kind.ge if kind.ge is not None else None if kind.gt is None else kind.gt + step
    high = kind.le if kind.le is not None else None if kind.lt is None else kind.lt - step
    if low is None:
        low = -scale // 4 if high is None else min(0, high - scale)
    return low, low + scale if high is None else min(high, low + scale)


_DRAWS: dict[type[inspect.Type], Callable[[Draw, Value], Value]] = {
    inspect.IntType: Draw.integer,
    inspect.FloatType: Draw.number,
    inspect.StrType: Draw.text,
    inspect.BoolType: lambda draw, kind: draw.generator.random() < 0.5,
    inspect.NoneType: lambda draw, kind: None,
    inspect.AnyType: lambda draw, kind: draw.generator.randint(0, draw.scale),
    inspect.BytesType: lambda draw, kind: draw.generator.randbytes(draw._size(kind, 0)),
    inspect.EnumType: lambda draw, kind: draw.generator.choice(list(kind.cls)),
    inspect.LiteralType: lambda draw, kind: draw.generator.choice(list(kind.values)),
    inspect.UnionType: Draw.one_of,
    inspect.Metadata: lambda draw, kind: draw.value(kind.type),
    inspect.ListType: Draw.items,
    inspect.SetType: lambda draw, kind: set(draw.items(kind)),
    inspect.FrozenSetType: lambda draw, kind: frozenset(draw.items(kind)),
    inspect.VarTupleType: lambda draw, kind: tuple(draw.items(kind)),
    inspect.TupleType: lambda draw, kind: tuple(map(draw.value, kind.item_types)),
    inspect.DictType: Draw.mapping,
    inspect.StructType: Draw.struct,
}
