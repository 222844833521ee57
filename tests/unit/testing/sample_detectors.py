"""Detectors for the tests of the conformance suite: one that keeps the contract, and one for each way to break it."""

import random
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from slackline import Block, Detector, Event

CACHE: dict[int, int] = {}


class Reading(Event):
    device: Annotated[int, Meta(ge=0, le=3)]
    value: float
    label: str = "x"


class Alarm(Event):
    device: int
    value: float
    note: str = ""


class Good(Detector):
    subscribes, publishes = (Reading,), (Alarm,)

    def __init__(self, limit: float = 1.0, window: int = 3) -> None:
        self.limit = limit
        self.recent: deque[float] = deque(maxlen=window)
        self.by_label: dict[str, list[float]] = {}

    def on_event(self, event: Reading) -> Any:
        self.recent.append(event.value)
        self.by_label.setdefault(event.label, []).append(event.value)
        if sum(self.recent) > self.limit:
            yield Alarm(event.device, sum(self.recent), ts=event.ts)
        if len(self.by_label[event.label]) % 3 == 0:
            yield Alarm(event.device, self.by_label[event.label][-1], note=event.label, ts=event.ts)


class GoodKeyed(Good):
    key = "device"


@dataclass
class Box:
    values: list[float] = field(default_factory=list)


class GoodObjects(Detector):
    """State in objects of its own, random numbers from a generator of its own."""

    subscribes, publishes, key = (Reading,), (Alarm,), ("device", "label")

    def __init__(self) -> None:
        self.box = Box()
        self.generator = random.Random(7)

    def on_event(self, event: Reading) -> Any:
        self.box.values.append(event.value)
        if self.generator.random() < 0.5:
            return Alarm(event.device, sum(self.box.values), ts=event.ts)
        return None


class GoodExamples(Good):
    """Raises on all but what its examples give."""

    @classmethod
    def examples(cls) -> list[Event]:
        return [Reading(1, float(n), label="only", ts=n * 10) for n in range(20)]

    def on_event(self, event: Reading) -> Any:
        if event.label != "only":
            raise ValueError(event.label)
        return list(super().on_event(event))


class Base(Detector):
    subscribes, publishes = (Reading,), (Alarm,)

    def __init__(self) -> None:
        self.count = 0

    def alarm(self, event: Reading, value: float) -> Alarm:
        return Alarm(event.device, value, ts=event.ts)


class Cold(Base):
    """Nothing that is drawn makes it speak."""

    def on_event(self, event: Reading) -> Any:
        return self.alarm(event, 0.0) if event.label == "password" else None


class Sink(Base):
    publishes = ()

    def on_event(self, event: Reading) -> Any:
        self.count += 1


class UsesRandom(Base):
    def on_event(self, event: Reading) -> Any:
        return self.alarm(event, random.random())


class UsesTime(Base):
    def on_event(self, event: Reading) -> Any:
        return self.alarm(event, float(time.time_ns() % 1_000_000_007))


class UsesTimeCoarsely(Base):
    """Two runs hardly ever differ."""

    def on_event(self, event: Reading) -> Any:
        return self.alarm(event, float(time.time() > 0) + datetime.now().year)


class Prints(Base):
    def on_event(self, event: Reading) -> Any:
        print("seen", event)


class ClassState(Base):
    seen: list[int] = []  # noqa: RUF012

    def on_event(self, event: Reading) -> Any:
        self.seen.append(event.device)
        return self.alarm(event, float(len(self.seen)))


class SilentClassState(Base):
    """Changes what is shared without any result that shows it."""

    total = 0

    def on_event(self, event: Reading) -> Any:
        SilentClassState.total += 1


class MutableDefault(Base):
    def on_event(self, event: Reading, seen: list[int] = []) -> Any:  # noqa: B006
        seen.append(event.device)


class GlobalState(Base):
    def on_event(self, event: Reading) -> Any:
        CACHE[event.device] = CACHE.get(event.device, 0) + 1
        return self.alarm(event, float(CACHE[event.device]))


class AliasingSnapshot(Base):
    """Its snapshot is its own list."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def snapshot(self) -> Any:
        return self.values

    def restore(self, state: Any) -> None:
        self.values = state

    def on_event(self, event: Reading) -> Any:
        self.values.append(event.value)
        return self.alarm(event, sum(self.values))


class AliasingRestore(AliasingSnapshot):
    """Copies on the way out, but works on in the copy it is handed."""

    def snapshot(self) -> Any:
        return list(self.values)


class ForgetfulSnapshot(Base):
    def snapshot(self) -> Any:
        return None

    def restore(self, state: Any) -> None:
        pass

    def on_event(self, event: Reading) -> Any:
        self.count += 1
        return self.alarm(event, float(self.count))


class StateWithoutEquality(Base):
    """Its snapshots are good, but never equal."""

    class Kept:
        def __init__(self, count: int) -> None:
            self.count = count

    def snapshot(self) -> Any:
        return self.Kept(self.count)

    def restore(self, state: Any) -> None:
        self.count = state.count

    def on_event(self, event: Reading) -> Any:
        self.count += 1
        return self.alarm(event, float(self.count))


class SetOrder(Base):
    def __init__(self) -> None:
        self.labels: set[str] = set()

    def on_event(self, event: Reading) -> Any:
        self.labels.add(event.label)
        return Alarm(event.device, 0.0, note="".join(self.labels), ts=event.ts)


class Raises(Base):
    def on_event(self, event: Reading) -> Any:
        if event.value < 0:
            raise ZeroDivisionError("negative")


class TooEarly(Base):
    def on_event(self, event: Reading) -> Any:
        return Alarm(event.device, 0.0, ts=event.ts - 5)


class OneTimeForMany(Base):
    """Says that no two results have the same time stamp, but they have."""

    backdate, identity = 2**61, "time"

    def on_event(self, event: Reading) -> Any:
        return Alarm(event.device, 0.0, ts=min(event.ts, 0))


class Undeclared(Base):
    def on_event(self, event: Reading) -> Any:
        return event


class WrongField(Base):
    def on_event(self, event: Reading) -> Any:
        return Alarm(event.device, "high", ts=event.ts)  # type: ignore[arg-type]


class KeyWithoutForm(GoodKeyed):
    """It can be hashed, but has no form that is the same everywhere."""

    key = staticmethod(lambda event: Decimal(event.id))


class BadKey(Base):
    key = staticmethod(lambda event: [event.device])

    def on_event(self, event: Reading) -> Any:
        return None


class NoSubscription(Base):
    subscribes = ()


class ReadsItself(Base):
    subscribes, publishes = (Reading, Alarm), (Alarm,)


class CannotBeMade(Base):
    def __init__(self) -> None:
        raise RuntimeError("no model file")


class GoodSlots(Good):
    """Some of its state is in slots."""

    __slots__ = ("count", "seen")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.seen = self.by_label

    def on_event(self, event: Reading) -> Any:
        self.count += 1
        yield from super().on_event(event)
        yield Alarm(event.device, float(self.count + len(self.seen)), ts=event.ts)


class ForgetfulGetState(Base):
    """What it counts is not in what it says its state is."""

    count = 0

    def __getstate__(self) -> Any:
        return {}

    def on_event(self, event: Reading) -> Any:
        self.count += 1
        return self.alarm(event, float(self.count))


class SharedByKeys(Base):
    """Its snapshot omits a list, which all keys of one detector then share."""

    key = "device"

    def __init__(self) -> None:
        self.seen: list[int] = []

    def snapshot(self) -> Any:
        return None

    def restore(self, state: Any) -> None:
        pass

    def on_event(self, event: Reading) -> Any:
        self.seen.append(event.device)
        return self.alarm(event, float(len(self.seen)))


def _counter() -> Any:
    seen: list[int] = []

    def on_event(self: Any, event: Reading) -> None:
        seen.append(event.device)

    return on_event


class InClosure(Base):
    """Its method keeps what it has seen in a variable around it."""

    on_event = _counter()


class Listing(Event):
    values: list[int]


class ChangesEvents(Detector):
    subscribes, publishes = (Listing,), (Alarm,)

    def on_event(self, event: Listing) -> Any:
        event.values.append(1)


class LockInSlot(Base):
    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = threading.Lock()

    def on_event(self, event: Reading) -> Any:
        return None


class GoodOnColumns(Detector):
    """Every third reading of a device, and those that are higher than all before."""

    subscribes, publishes, key = (Reading,), (Alarm,), "device"

    def __init__(self) -> None:
        self.counts = np.zeros(4, int)
        self.highest = np.full(4, -np.inf)

    def on_batch(self, events: Block) -> Any:
        devices, values = events.array("device"), events.array("value")
        for device in np.unique(devices).tolist():
            rows = np.flatnonzero(devices == device)
            highest = np.maximum.accumulate(np.append(self.highest[device], values[rows]))
            numbers = self.counts[device] + np.arange(1, len(rows) + 1)
            self.counts[device], self.highest[device] = numbers[-1], highest[-1]
            for row in rows[(numbers % 3 == 0) | (highest[1:] > highest[:-1])]:
                yield row, Alarm(device, float(values[row]), ts=int(events.times[row]))


class ForgetsCuts(GoodOnColumns):
    """What is high begins anew with each batch."""

    def on_batch(self, events: Block) -> Any:
        self.highest[:] = -np.inf
        return super().on_batch(events)


class RaisesTogether(GoodOnColumns):
    def on_batch(self, events: Block) -> Any:
        assert len(events) < 2
        return super().on_batch(events)


class MixesKeys(Detector):
    subscribes, publishes, key = (Reading,), (Alarm,), "device"

    def __init__(self) -> None:
        self.count = 0

    def on_batch(self, events: Block) -> Any:
        numbers = self.count + np.arange(1, len(events) + 1)
        self.count += len(events)
        row = np.flatnonzero(numbers % 2 == 0)
        return {
            "device": events.array("device")[row],
            "value": numbers[row].astype(float),
            "note": events.array("label")[row],
            "ts": events.times[row],
            "row": row,
        }


class BothWays(GoodOnColumns):
    def on_event(self, event: Reading) -> Any:
        return None
