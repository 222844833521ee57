"""What the property tests of ordering draw: events with ties, disorder, duplicates; detectors that are easily upset."""

from collections import deque

import numpy as np
from hypothesis import strategies as st

from middleware.model.detector import Detector
from middleware.model.event import Event


class Reading(Event):
    sensor: int
    value: int


class Beat(Event):
    sensor: int
    total: int
    order: str


class Alarm(Event):
    sensor: int
    total: int


class Verdict(Event):
    sensor: int
    total: int


class Summit(Event):
    order: str


class Fold(Detector):
    """State depends on the order of everything it ever saw; publishes 0, 1 or 2 events at a time."""

    subscribes, publishes, backdate = (Reading,), (Beat, Alarm), 3

    def __init__(self) -> None:
        self.total = 0
        self.recent: deque[int] = deque(maxlen=3)
        self.seen: dict[int, int] = {}

    def on_event(self, event):
        self.total = (self.total * 31 + event.value) % 1009
        self.recent.append(event.value)
        self.seen[event.sensor] = self.seen.get(event.sensor, 0) + 1
        if event.value % 5 == 0:
            yield Beat(event.sensor, self.total, ",".join(map(str, self.recent)), ts=event.ts - event.value % 4)
        if self.total % 3 == 0:
            yield Alarm(next(iter(self.seen)), self.total, ts=event.ts)


class KeyedFold(Fold):
    key = "sensor"


class Filter(Detector):
    """No state: every replay may stop early."""

    subscribes, publishes = (Reading,), (Beat,)

    def on_event(self, event):
        return Beat(event.sensor, event.value, "", ts=event.ts) if event.value > 4 else None


class Mode(Detector):
    """A state that often returns to what it was; the type of the result depends on it."""

    subscribes, publishes = (Reading,), (Beat, Alarm)

    def __init__(self) -> None:
        self.up = False

    def on_event(self, event):
        if event.value in (3, 7):
            self.up = event.value == 7
            return None
        if event.value < 2:
            return None
        return Alarm(event.sensor, event.value, ts=event.ts) if self.up else Beat(event.sensor, event.value, "", ts=event.ts)


class Windows(Detector):
    """The sum of a window of 4, published by whichever event comes first behind it: its identity is its time, not that
    event."""

    subscribes, publishes, backdate, identity = (Reading,), (Beat, Alarm), 3, "time"

    def __init__(self) -> None:
        self.end = -99
        self.values: list[int] = []

    def on_event(self, event):
        result = None
        start = event.ts // 4 * 4
        if start > self.end:
            if self.values:
                kind = Beat if sum(self.values) % 3 else Alarm
                result = kind(0, sum(self.values), *["in all"][: kind is Beat], ts=start), Alarm(1, self.values[0], ts=start)
            self.end, self.values = start, []
        self.values.append(event.value)
        return result


class KeyedWindows(Windows):
    key = "sensor"


class Brittle(Detector):
    """Raises now and then, having changed its state before; sometimes returns nonsense."""

    subscribes, publishes = (Reading,), (Alarm,)

    def __init__(self) -> None:
        self.total = 0
        self.items: list[int] = []

    def on_event(self, event):
        self.items.append(event.value)
        self.total += event.value
        if self.total % 7 == 3:
            raise RuntimeError("three of seven")
        if self.total % 11 == 5:
            return "nonsense"
        return Alarm(len(self.items), self.total, ts=event.ts)


class Totals(Detector):
    """Raises at some events, having changed its state; publishes two of a kind."""

    subscribes, publishes, key, backdate = (Reading,), (Beat, Alarm), "sensor", 2

    def __init__(self) -> None:
        self.total = self.count = 0

    def on_event(self, event):
        self.total += event.value
        self.count += 1
        if event.value == 9 and self.count % 3 == 0:
            raise RuntimeError("nine")
        if self.total % 3 == 0:
            yield Beat(event.sensor, self.total, "", ts=event.ts - self.total % 2)
            yield Beat(event.sensor, self.count, "again", ts=event.ts)
        if event.value > 5:
            yield Alarm(event.sensor, self.total, ts=event.ts)


class TotalsOnColumns(Detector):
    """The same, in arrays of all keys."""

    subscribes, publishes, key, backdate = (Reading,), (Beat, Alarm), "sensor", 2

    def __init__(self) -> None:
        self.totals = np.zeros(4, np.int64)
        self.counts = np.zeros(4, np.int64)

    def on_batch(self, events):
        sensor, value, ts = events.array("sensor"), events.array("value"), events.times
        totals, counts = np.empty_like(value), np.empty_like(value)
        for each in np.unique(sensor):
            own = sensor == each
            totals[own] = self.totals[each] + np.cumsum(value[own])
            counts[own] = self.counts[each] + np.arange(1, own.sum() + 1)
            self.totals[each], self.counts[each] = totals[own][-1], counts[own][-1]
        if ((value == 9) & (counts % 3 == 0)).any():
            raise RuntimeError("nine")
        for row in np.flatnonzero(totals % 3 == 0).tolist():
            yield row, Beat(int(sensor[row]), int(totals[row]), "", ts=int(ts[row] - totals[row] % 2))
            yield row, Beat(int(sensor[row]), int(counts[row]), "again", ts=int(ts[row]))
        for row in np.flatnonzero(value > 5)[::-1]:  # in any order of rows
            yield row, Alarm(int(sensor[row]), int(totals[row]), ts=int(ts[row]))


class Upper(Detector):
    """Reads derived and raw events, keyed by what is derived."""

    subscribes, publishes, key = (Beat, Alarm, Reading), (Verdict,), "sensor"

    def __init__(self) -> None:
        self.last = 0
        self.count = 0

    def on_event(self, event):
        self.count += 1
        before, self.last = self.last, getattr(event, "total", 1)
        return Verdict(event.sensor, before * 100 + self.count, ts=event.ts) if (before + self.last) % 2 else None


class Top(Detector):
    """Reads two levels at once."""

    subscribes, publishes = (Beat, Alarm, Verdict), (Summit,)

    def __init__(self) -> None:
        self.last = ""

    def on_event(self, event):
        name = type(event).__name__[0]
        self.last = (self.last + name)[-5:]
        return Summit(self.last, ts=event.ts) if name != "A" else None


@st.composite
def arrivals(draw, most: int = 60) -> list[Reading]:
    """Readings in arrival order: late, repeated, with equal time stamps, from several sources."""
    count = draw(st.integers(1, most))
    spread = draw(st.sampled_from([1, 3, 10]))
    disorder = draw(st.sampled_from([0, 2, 10, 50]))
    rows = []
    for number in range(count):
        ts = draw(st.integers(0, count * spread // 2))
        reading = Reading(
            draw(st.integers(0, 3)), draw(st.integers(0, 9)), ts=ts, id=number, source=draw(st.sampled_from("ab"))
        )
        rows.append((ts + draw(st.integers(0, disorder)), number, reading))
    arrived = [reading for _, _, reading in sorted(rows)]
    for number in draw(st.lists(st.integers(0, count - 1), max_size=4)):
        arrived.insert(draw(st.integers(0, len(arrived))), arrived[number])
    return arrived


def batches(draw, items: list) -> list[list]:
    """The items in batches of drawn sizes."""
    parts = []
    while items:
        size = draw(st.integers(1, 12))
        parts.append(items[:size])
        items = items[size:]
    return parts
