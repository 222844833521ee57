"""Detectors whose state is not all in ``vars()``: each is run right, or refused by name."""

from __future__ import annotations

import array
import hashlib
import itertools
import random
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from middleware.model.detector import Detector
from middleware.model.event import Event


class Step(Event):
    room: int
    a: int


class Said(Event):
    text: str


class Base(Detector):
    subscribes, publishes = (Step,), (Said,)

    def say(self, event: Step, what: Any) -> Said:
        return Said(repr(what), ts=event.ts)


class Slots(Base):
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event: Step) -> Said:
        self.count += event.a
        return self.say(event, self.count)


class InheritedSlots(Slots):
    __slots__ = ("seen",)

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def on_event(self, event: Step) -> Said:
        self.count += event.a
        self.seen.append(self.count)
        return self.say(event, self.seen[-3:])


class SlotsAndDict(Slots):
    def __init__(self) -> None:
        super().__init__()
        self.latest: dict[int, int] = {}

    def on_event(self, event: Step) -> Said:
        self.count += event.a
        self.latest[event.a] = self.count
        return self.say(event, self.latest)


class PrivateSlots(Base):
    """One of them is empty at first, and again now and then."""

    __slots__ = ("__count", "__odd")

    def __init__(self) -> None:
        self.__count = 0

    def on_event(self, event: Step) -> Said:
        self.__count += event.a
        if event.a % 2:
            self.__odd = event.a
        elif hasattr(self, "_PrivateSlots__odd"):
            del self.__odd
        return self.say(event, (self.__count, getattr(self, "_PrivateSlots__odd", None)))


class SlotAndAttributeAreOne(Base):
    __slots__ = ("one",)

    def __init__(self) -> None:
        self.one: list[int] = []
        self.other = self.one

    def on_event(self, event: Step) -> Said:
        self.one.append(event.a)
        return self.say(event, self.other[-3:])


class HiddenByProperty(Base):
    __slots__ = ("_hidden",)

    def __init__(self) -> None:
        self.total = 0

    @property
    def total(self) -> int:
        return self._hidden

    @total.setter
    def total(self, value: int) -> None:
        self._hidden = value

    def on_event(self, event: Step) -> Said:
        self.total += event.a
        return self.say(event, self.total)


class GivesState(Base):
    """Leaves out a lock, which cannot be saved, and makes it again."""

    def __init__(self) -> None:
        self.counts = {"a": 0}
        self.lock = threading.Lock()

    def __getstate__(self) -> Any:
        return self.counts

    def __setstate__(self, state: Any) -> None:
        self.counts = state
        self.lock = threading.Lock()

    def on_event(self, event: Step) -> Said:
        with self.lock:
            self.counts["a"] += event.a
        return self.say(event, self.counts)


class GivesAttributes(Slots):
    """Its ``__getstate__`` gives attributes and slots, as that of ``object`` does."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []
        self.cache: dict[int, int] = {}

    def __getstate__(self) -> Any:
        return {"seen": self.seen, "cache": {}}, {"count": self.count}

    def on_event(self, event: Step) -> Said:
        self.count += event.a
        self.seen.append(event.a)
        self.cache.setdefault(event.a, event.a**2)
        return self.say(event, (self.count, self.seen[-2:]))


class OwnGenerator(Base):
    def __init__(self) -> None:
        self.random = random.Random(3)

    def on_event(self, event: Step) -> Said:
        return self.say(event, (event.a, self.random.random()))


class Vector(Base):
    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: Any = np.zeros(3)

    def on_event(self, event: Step) -> Said:
        self.values[event.a % 3] += event.a
        return self.say(event, list(map(float, self.values)))


class Numbers(Vector):
    def __init__(self) -> None:
        self.values = array.array("d", [0, 0, 0])


class Counting(Base):
    def __init__(self) -> None:
        self.numbers = itertools.count()

    def on_event(self, event: Step) -> Said:
        return self.say(event, (event.a, next(self.numbers)))


class SharedDefault(Base):
    """All that are made without an argument are given the same list."""

    def __init__(self, seen: list[int] = []) -> None:  # noqa: B006
        self.seen = seen

    def on_event(self, event: Step) -> Said:
        self.seen.append(event.a)
        return self.say(event, self.seen[-3:])


class InClosure(Base):
    def __init__(self) -> None:
        total = 0

        def add(number: int) -> int:
            nonlocal total
            total += number
            return total

        self.add = add

    def on_event(self, event: Step) -> Said:
        return self.say(event, self.add(event.a))


class Tables(Base):
    """What its class holds is constant, as tables are."""

    names: ClassVar = {number: f"n{number}" for number in range(10)}
    edges: ClassVar = [0, 3, 6]
    odd: ClassVar = {1, 3, 5}
    nested: ClassVar = {"a": {"b": [1, 2]}}
    at_random = random.Random(3)
    handlers: ClassVar = {"double": lambda number: 2 * number, "kind": int}

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event: Step) -> Said:
        self.count += self.handlers["double"](event.a) + self.edges[event.a % 3] + self.nested["a"]["b"][0]
        return self.say(event, (self.names[event.a % 10], self.count, event.a in self.odd))


KEPT = [
    Slots,
    InheritedSlots,
    SlotsAndDict,
    PrivateSlots,
    SlotAndAttributeAreOne,
    HiddenByProperty,
    GivesState,
    GivesAttributes,
    OwnGenerator,
    Vector,
    Numbers,
    Counting,
    SharedDefault,
    InClosure,
    Tables,
]
"""What these hold is saved, all of it."""


class Hash(Base):
    def __init__(self) -> None:
        self.held = hashlib.sha256()


class Generator(Base):
    def __init__(self) -> None:
        self.held = (number for number in range(3))


class Lock(Base):
    def __init__(self) -> None:
        self.held = threading.Lock()


class LockInSlot(Base):
    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = threading.Lock()


class LockInList(Base):
    def __init__(self) -> None:
        self.held = [1, threading.Lock()]


class ClassHash(Base):
    held = hashlib.sha256()


class ClassGenerator(Base):
    held = (number for number in range(3))


REFUSED = [Hash, Generator, Lock, LockInSlot, LockInList, ClassHash, ClassGenerator]
"""What these hold (``held``) cannot be saved."""


class Cell:
    """A property whose values are kept in itself."""

    def __init__(self) -> None:
        self.values: dict[int, int] = {}

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else self.values.get(id(instance), 0)

    def __set__(self, instance: Any, value: int) -> None:
        self.values[id(instance)] = value


def changing(held: Any, change: Callable[[Any, Step], None]) -> Callable[[], type[Detector]]:
    """Makes a detector class that changes what it holds, ``held``."""

    def make() -> type[Detector]:
        class Changing(Base):
            def on_event(self, event: Step) -> Said:
                change(self, event)
                return self.say(event, event.a)

        Changing.held = held() if callable(held) else held
        return Changing

    return make


def _assign(detector: Any, event: Step) -> None:
    type(detector).held = type(detector).held + 1


def _add(detector: Any, event: Step) -> None:
    detector.held += 1


CHANGING = {
    "list": changing(list, lambda detector, event: detector.held.append(event.a)),
    "dict": changing(lambda: {0: 0}, lambda detector, event: detector.held.update({0: event.a})),
    "set": changing(set, lambda detector, event: detector.held.add(event.a)),
    "nested": changing(lambda: {"a": [[0]]}, lambda detector, event: detector.held["a"][0].append(1)),
    "number": changing(0, _assign),
    "random": changing(lambda: random.Random(5), lambda detector, event: detector.held.random()),
    "vector": changing(lambda: np.zeros(2), lambda detector, event: detector.held.__setitem__(0, event.a)),
    "count": changing(itertools.count, lambda detector, event: next(detector.held)),
    "property": changing(Cell, _add),
    "new": changing(0, lambda detector, event: setattr(type(detector), f"held_{event.a}", 1)),
}
"""Makers of classes that change what the class holds: each call makes a class anew."""
