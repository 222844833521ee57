"""Applications for simulated worlds: small detectors that are hard on what runs them, and streams that arrive badly."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator

from middleware.detector import Detector
from middleware.event import Event, EventTypes


class Reading(Event, frozen=True):
    sensor: int
    value: int


class Probe(Event, frozen=True):
    sensor: int
    value: int


class Low(Event, frozen=True):
    sensor: int
    total: int


class High(Event, frozen=True):
    sensor: int
    total: int


class Pair(Event, frozen=True):
    sensor: int
    total: int


class Summary(Event, frozen=True):
    order: str


class Echoed(Event, frozen=True):
    count: int


TYPES = EventTypes([Reading, Probe, Low, High, Pair, Summary, Echoed])


class Level(Detector):
    """The type of its results turns with its state, which often returns to what it was."""

    subscribes, publishes, backdate = (Reading,), (Low, High), 2

    def __init__(self) -> None:
        self.up = False
        self.recent: deque[int] = deque(maxlen=2)

    def on_event(self, event: Reading) -> Iterator[Event]:
        self.recent.append(event.value)
        if event.value in (3, 7):
            self.up = event.value == 7
        if event.value == 5:
            raise RuntimeError("five")
        if event.value > 1:
            yield (High if self.up else Low)(event.sensor, sum(self.recent), ts=event.ts - event.value % 3)


class Totals(Detector):
    """Its state depends on the order of everything it ever saw for a sensor; publishes the same types as Level."""

    subscribes, publishes, key = (Reading, Probe), (Low, High), "sensor"

    def __init__(self) -> None:
        self.total = 0

    def on_event(self, event: Reading | Probe) -> list[Event]:
        self.total = (self.total * 31 + event.value) % 1009
        return [kind(event.sensor, self.total, ts=event.ts) for kind in (Low, High)[: self.total % 3]]


class Pairs(Detector):
    """Reads raw events and two derived types; its key changes when what it reads is revised."""

    subscribes, publishes, backdate = (Low, High, Probe), (Pair,), 3
    key = staticmethod(lambda event: event.sensor % 2)  # type: ignore[assignment]

    def __init__(self) -> None:
        self.last = 0

    def on_event(self, event: Low | High | Probe) -> Event | None:
        before, self.last = self.last, getattr(event, "total", event.sensor)
        return Pair(event.sensor, before * 1000 + self.last, ts=event.ts - 3) if (before + self.last) % 2 else None


class Summaries(Detector):
    """Reads two levels at once, and is driven by clock marks alone."""

    subscribes, publishes = (Low, Pair), (Summary,)

    def __init__(self) -> None:
        self.order = ""

    def on_event(self, event: Low | Pair) -> Event:
        self.order = (self.order + f"{type(event).__name__[0]}{event.total % 10}")[-6:]
        return Summary(self.order, ts=event.ts)


class Echo(Detector):
    """The fourth level; stamps into the future."""

    subscribes, publishes, clock = (Summary, Reading), (Echoed,), (Reading,)

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event: Summary | Reading) -> Event | None:
        self.count += 1
        return Echoed(self.count, ts=event.ts + self.count % 4) if isinstance(event, Summary) else None


APPLICATIONS: list[list[type[Detector]]] = [
    [Level],
    [Level, Totals, Pairs, Summaries],
    [Totals, Pairs, Summaries],
    [Level, Pairs, Summaries],
    [Level, Totals, Pairs],
    [Totals, Pairs, Summaries, Echo],
    [Level, Totals, Pairs, Summaries, Echo],
]


def a_stream(rng: random.Random, kind: type[Reading] | type[Probe], source: str) -> list[Event]:
    """Events in order of arrival: late, repeated, with equal time stamps."""
    count, rate = rng.choice([5, 60, 60, 150]), rng.choice([1, 2, 5])
    disorder, share = rng.choice([0, 3, 12, 60]), rng.choice([0.05, 0.5, 1.0])
    rows: list[tuple[int, int, Event]] = []
    for number in range(count):
        ts = number // rate
        event = kind(rng.randrange(4), rng.randrange(10), ts=ts, id=number, source=source)
        rows.append((ts + (rng.randint(0, disorder) if rng.random() < share else 0), number, event))
    arrived = [event for _, _, event in sorted(rows)]
    for again in rng.sample(arrived, rng.choice([0, 0, 3])):
        arrived.insert(rng.randrange(len(arrived) + 1), again)
    return arrived
