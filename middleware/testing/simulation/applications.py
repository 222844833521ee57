"""Applications for simulated worlds: small detectors that are hard on the middleware, and streams that arrive badly."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.event import Event, EventTypes
from middleware.model.identity import named
from middleware.model.operator import Operation, Operator, Origin


class Reading(Event):
    sensor: int
    value: int


class Probe(Event):
    sensor: int
    value: int


class Low(Event):
    sensor: int
    total: int


class High(Event):
    sensor: int
    total: int


class Pair(Event):
    sensor: int
    total: int


class Summary(Event):
    order: str


class Echoed(Event):
    count: int


class Span(Event):
    sensor: int
    count: int


class Crest(Event):
    order: str


class Wild(Event):
    sensor: int
    total: int


TYPES = EventTypes([Reading, Probe, Low, High, Pair, Summary, Echoed, Span, Crest, Wild])


class Level(Detector):
    """The type of its results changes with its state, which often returns to an earlier one."""

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
    """Its state depends on the order of all events of a sensor; it publishes the same types as Level."""

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
    """The fourth level; stamps results with future times."""

    subscribes, publishes, clock = (Summary, Reading), (Echoed,), (Reading,)

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event: Summary | Reading) -> Event | None:
        self.count += 1
        return Echoed(self.count, ts=event.ts + self.count % 4) if isinstance(event, Summary) else None


class Spans(Operator):
    """Counts by sensor in windows of five: publishes a window's count as soon as it has begun, and corrects it."""

    subscribes, publishes, name = (Low, Probe), (Span,), "Spans"
    is_open = True

    def start(self, name: str, level: int) -> Operation:
        return Spanning(Origin(name, level), self.is_open)


class ClosedSpans(Spans):
    """Counts as ``Spans`` does, but publishes a window only once time has passed it."""

    is_open = False


class Spanning(Operation):
    """The running state of both."""

    def __init__(self, origin: Origin, is_open: bool) -> None:
        super().__init__()
        self.origin, self.is_open = origin, is_open
        self.counts: Counter[tuple[int, int]] = Counter()
        self.published: dict[tuple[int, int], Span] = {}

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        for sign, events in ((-1, delta.retracts), (1, delta.inserts)):
            for event in events:
                assert isinstance(event, Low | Probe)
                self.counts[-(-event.ts // 5) * 5, event.sensor] += sign
        out = Delta()
        for (end, sensor), count in list(self.counts.items()):
            was = self.published.pop((end, sensor), None)
            now = self.result(sensor, count, end) if count and (self.is_open or end <= emitted) else None
            if was and now and was != now:
                out.revises.append((was, now))
            elif was and not now:
                out.retracts.append(was)
            elif now and not was:
                out.inserts.append(now)
            if end <= final:
                del self.counts[end, sensor]
            elif now:
                self.published[end, sensor] = now
        return out

    def result(self, sensor: int, count: int, end: int) -> Span:
        origin = self.origin
        return Span(sensor, count, ts=end, id=origin.id(sensor, end), source=origin.source, level=origin.level)

    def snapshot(self) -> Any:
        return dict(self.counts), dict(self.published)

    def restore(self, state: Any) -> None:
        self.counts, self.published = Counter(state[0]), dict(state[1])


class Crests(Detector):
    """Reads an operator's results, and raw events."""

    subscribes, publishes = (Span, Reading), (Crest,)

    def __init__(self) -> None:
        self.order = ""

    def on_event(self, event: Span | Reading) -> Event | None:
        if isinstance(event, Span):
            self.order = (self.order + str(event.count))[-5:]
            return Crest(self.order, ts=event.ts)
        self.order = (self.order + "r")[-5:]
        return None


def _wild_key(event: Reading | Low) -> Any:
    """A key function that raises, or returns an invalid key, for some events."""
    content = event.value if isinstance(event, Reading) else event.total
    return [event.sensor] if content % 11 == 8 else 6 // (content % 11 - 9) and event.sensor % 2


class Unruly(Detector):
    """It and its key raise, also half way, and return what no detector may: all depending on the event's content."""

    subscribes, publishes, backdate = (Reading, Low), (Wild,), 1

    def __init__(self) -> None:
        self.total = 0

    def on_event(self, event: Reading | Low) -> Any:
        content = event.value if isinstance(event, Reading) else event.total
        self.total = (self.total * 7 + content) % 1009
        good = Wild(event.sensor, self.total, ts=event.ts)
        match content % 13:
            case 0:
                raise RuntimeError("nought")
            case 1:
                return "nonsense"
            case 2:
                return self.total
            case 3:
                return [good, Low(event.sensor, self.total, ts=event.ts)]
            case 4:
                return Wild(event.sensor, self.total, ts=event.ts - 2)
            case 5:
                return self.half_way(good)
            case 6:
                return [[good]]
            case 7:
                return Wild(event.sensor, self.total, ts=event.ts + 0.5)  # type: ignore[arg-type]
            case _:
                return good

    def half_way(self, good: Event) -> Iterator[Event]:
        """Yields a result, and then raises."""
        self.total += 1
        yield good
        raise RuntimeError("half way")


class UnrulyByKey(Unruly):
    """Is as unruly by key, with a key function that is no better."""

    key = staticmethod(_wild_key)  # type: ignore[assignment]


class _Counted(Detector):
    """Keeps a part of its state in a slot."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen = 0


class Slotted(_Counted):
    """Keeps its state in slots: its own, one of its base class, and one that is not set at first."""

    __slots__ = ("before", "recent")
    subscribes, publishes = (Reading, Probe), (Low, High)

    def __init__(self) -> None:
        super().__init__()
        self.recent: list[int] = []

    def on_event(self, event: Reading | Probe) -> Event | None:
        self.seen = (self.seen * 7 + event.value) % 1009
        self.recent = [*self.recent[-1:], event.value]
        gone, self.before = getattr(self, "before", 0), event.sensor
        if event.value == 4:
            raise RuntimeError("four")
        return (Low if gone % 2 else High)(event.sensor, self.seen + sum(self.recent), ts=event.ts)


class SlottedByKey(Slotted):
    """``Slotted`` with one instance a sensor."""

    key = "sensor"


RAISING = (Level, Unruly, Slotted)
"""Detectors that raise at some events."""

APPLICATIONS: list[list[type[Detector]]] = [
    [Level, Spans, Crests],
    [Level, ClosedSpans, Crests],
    [Totals, Spans, Crests],
    [Level],
    [Level, Unruly],
    [Totals, UnrulyByKey],
    [Level, Totals, Pairs, Summaries],
    [Totals, Pairs, Summaries],
    [Level, Pairs, Summaries],
    [Level, Totals, Pairs],
    [Totals, Pairs, Summaries, Echo],
    [Level, Totals, Pairs, Summaries, Echo],
    [Slotted],
    [SlottedByKey],
    [Slotted, Pairs],
    [SlottedByKey, Spans, Crests],
]


def an_application(rng: random.Random) -> dict[str, Detector]:
    """Fresh detectors of one of the applications, by name."""
    return named([cls() for cls in rng.choice(APPLICATIONS)])


def a_stream(rng: random.Random, kinds: list[type[Reading] | type[Probe]], source: str) -> list[Event]:
    """Events in order of arrival: some late, some with equal time stamps."""
    count, rate = rng.choice([5, 40, 60, 60, 150]), rng.choice([1, 2, 5])
    disorder, share = rng.choice([0, 3, 12, 60]), rng.choice([0.05, 0.5, 1.0])
    rows: list[tuple[int, int, Event]] = []
    for number in range(count):
        ts = number // rate
        event = rng.choice(kinds)(rng.randrange(4), rng.randrange(10), ts=ts, id=number, source=source)
        rows.append((ts + (rng.randint(0, disorder) if rng.random() < share else 0), number, event))
    return [event for _, _, event in sorted(rows)]
