"""Plain random stress of one unit, many cases a second: upstreams that change their mind, long streams that are purged.

Beyond equality with a plain run: the quarantine holds exactly the events at which a plain run fails, every event given is
accounted for, and nothing is withdrawn that never came.
"""

import random
from collections import Counter

import pytest

from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.detector import Detector, fresh, key_function
from middleware.model.event import END, IDENTITY, NEVER, ORDER, Event, Order
from middleware.model.identity import Derivation
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.lanes.retraction import Retraction
from middleware.ordering.lanes.runs import RUN
from middleware.ordering.policies import Policies
from middleware.ordering.records import UnitStatistics
from middleware.ordering.slack.kslack import FixedSlack, Lateness, QuantileSlack
from middleware.ordering.unit import Unit
from middleware.testing.oracle import in_order

from .streams import Alarm, Beat, Brittle, Filter, Fold, Mode, Reading, Totals
from .test_unit import Consumer


class Other(Event):
    sensor: int
    value: int


class Fold2(Fold):
    subscribes = (Reading, Other)


class KeyedFold2(Fold2):
    key = "sensor"


class Ticked(Fold2):
    clock = (Other,)


class KeyedTicked(Ticked):
    key = "sensor"


class KeyedBrittle(Brittle):
    subscribes, key = (Reading, Other), "sensor"


class Brittle1(KeyedBrittle):
    subscribes = (Reading,)


class Mode2(Mode):
    subscribes = (Reading, Other)


class KeyedMode(Mode2):
    key = "sensor"


class Picky(Fold2):
    @staticmethod
    def key(event):
        if event.value == 8:
            raise KeyError("eight has no key")
        return event.sensor, event.value == 3


class Holder(Detector):
    """Holds on to events, returns one object twice, has NaN in its state, fails half way through a generator."""

    subscribes, publishes, backdate = (Reading, Other), (Beat, Alarm), 2

    def __init__(self) -> None:
        self.held: list[Event] = []
        self.ratio = 0.0
        self.last: Event | None = None

    def on_event(self, event):
        self.held = [*self.held, event][-3:]
        self.ratio = {6: float("nan"), 2: 0.0}.get(event.value, self.ratio)
        names = ",".join(f"{type(held).__name__[0]}{held.value}" for held in self.held)
        result = Beat(event.sensor, len(self.held), names, ts=event.ts)
        yield result
        if event.value == 9 and self.ratio == 0.0:
            raise RuntimeError("half way")
        yield result
        if self.last is not None:
            yield Alarm(self.last.sensor, int(self.ratio == self.ratio), ts=max(event.ts - 2, self.last.ts))
        self.last = result if event.value % 2 else None


class KeyedHolder(Holder):
    key = "sensor"


DETECTORS = [
    Fold2,
    KeyedFold2,
    Ticked,
    KeyedTicked,
    Brittle,
    KeyedBrittle,
    Mode2,
    KeyedMode,
    Picky,
    Holder,
    KeyedHolder,
    Fold,
    Brittle1,
    Filter,
    Totals,
]


in_runs = pytest.mark.parametrize("run", [RUN, 2], ids=["as it comes", "in runs"])
"""Much that is ready at once is taken as it is, or in runs of two."""


def a_policy(rng: random.Random) -> Policies:
    return Policies(
        alpha=rng.choice([0.0, 0.0, 0.3, 1.0]),
        slack=rng.choice([None, None, lambda: FixedSlack(4), lambda: QuantileSlack(0.9, 16)]),
        lateness=rng.choice([Lateness(1, 0), Lateness(2, 0), Lateness(2, 20), Lateness(1, 1000)]),
        retraction=rng.choice(list(Retraction)),
        spacing=rng.choice([None, 1, 2, 3, 5, 8]),
    )


def failing(detector: Detector, level: int, events: list[Event]) -> list[Order]:
    """Where a plain run in order fails."""
    key = key_function(detector)
    lanes: dict[object, tuple[Detector, Derivation]] = {}
    failed = []
    for event in sorted(events, key=ORDER):
        before = None
        try:
            value = key(event) if key else None
            lane, derive = lanes.setdefault(value, (fresh(detector), Derivation("d", detector, level, value)))
            before = lane.snapshot()
            result = lane.on_event(event)
            if result is not None:
                derive(event, result)
        except Exception:
            failed.append(ORDER(event))
            if before is not None:
                lane.restore(before)
    return failed


def finish(unit: Unit, consumer: Consumer, present: list[Event]) -> UnitStatistics:
    """End the stream, and compare everything with a plain run over the events that stand."""
    consumer.take(unit.push(Delta(), promised=END, is_open=False))
    unit.check()
    assert consumer.finals() == sorted(in_order("d", unit.detector, unit.level, present), key=ORDER)
    assert sorted(ORDER(failure.cause) for failure in unit.quarantine) == failing(unit.detector, unit.level, present)
    statistics = unit.statistics()
    assert statistics.unknown == statistics.waiting == 0
    return statistics


class Upstream:
    """A stream that revises (key, type and time too), withdraws and inserts again, but keeps its promises."""

    def __init__(self, rng: random.Random, kinds: tuple[type[Event], ...]) -> None:
        self.rng, self.kinds = rng, kinds
        self.present: dict[object, Event] = {}
        self.promised = NEVER
        self.number = 0
        self.width, self.rate, self.sensors = rng.choice([2, 6, 30]), rng.choice([1, 2, 5]), rng.choice([1, 3, 20])

    def next(self, size: int) -> Delta:
        rng, delta, k_plus = self.rng, Delta(), []
        opened = [identity for identity, event in self.present.items() if event.ts > self.promised]
        for identity in rng.sample(opened, min(len(opened), rng.choice([0, 0, 1, 2, 6]))):
            old = self.present.pop(identity)
            new = self._event(old.ts + rng.choice([0, 0, 0, -2, 3]), old.id)
            if rng.random() < 0.35:
                delta.retracts.append(old)
                continue
            self.present[identity] = new
            if type(new) is not type(old):
                delta.retracts.append(old)
                delta.inserts.append(new)
            elif new != old:
                delta.revises.append((old, new))
        for _ in range(size):
            event = self._event(self.number // self.rate - rng.randrange(self.width), self.number)
            self.number += 1
            self.present[IDENTITY(event)] = event
            delta.inserts.append(event)
        k_plus = [rng.randrange(self.width) for _ in delta.inserts]
        if rng.random() < 0.5 and any(k_plus):
            delta.early = k_plus
        if len(self.kinds) == 1 and delta.inserts and rng.random() < 0.5:
            columns = Block.from_events(self.kinds[0], delta.inserts)
            delta = Delta(columns, delta.revises, delta.retracts, delta.early)
        if rng.random() < 0.5:
            self.promised = max(self.promised, self.number // self.rate - self.width + rng.randint(-1, 1))
        return delta

    def _event(self, ts: int, number: int) -> Event:
        rng = self.rng
        ts = max(ts, self.promised + 1, 0)
        return rng.choice(self.kinds)(rng.randrange(self.sensors), rng.randrange(10), ts=ts, id=number, source="u")


@in_runs
def test_an_upstream_may_change_its_mind_about_everything_that_is_not_final(run: int) -> None:
    corrections = failures = 0
    for seed in range(600):
        rng = random.Random(seed)
        unit = unit_for("d", rng.choice(DETECTORS)(), 2, a_policy(rng), run=run)
        upstream, consumer = Upstream(rng, unit.detector.subscribes), Consumer()
        while upstream.number < 60 or rng.random() < 0.5:
            delta = upstream.next(rng.choice([0, 1, 3, 8, 40]))
            if rng.random() < 0.2:
                unit.alpha = rng.choice([0.0, 0.5, 1.0])
            mark = upstream.number // upstream.rate if rng.random() < 0.5 else None
            consumer.take(unit.push(delta, mark, promised=upstream.promised, is_open=False))
            consumer.advance(unit.watermark)
            assert unit.watermark <= upstream.promised
            if rng.random() < 0.1:
                unit.state()  # forgets what is final, too
            unit.check()
        statistics = finish(unit, consumer, list(upstream.present.values()))
        assert not unit.late, f"seed {seed}"
        corrections += statistics.revised + statistics.retracted
        failures += len(unit.quarantine)
    assert corrections > 10_000
    assert failures > 500


def a_long_stream(rng: random.Random, kinds: tuple[type[Event], ...]) -> list[Event]:
    """Readings in order of arrival: ties, some late, some far behind any allowed lateness, some repeated."""
    rate, width, sensors = rng.choice([1, 2, 6]), rng.choice([0, 2, 10, 40]), rng.choice([1, 3, 50])
    share, rows = rng.choice([0, 0.01, 0.2, 1.0]), []
    for number in range(rng.choice([200, 2_000])):
        ts = number // rate
        event = rng.choice(kinds)(rng.randrange(sensors), rng.randrange(10), ts=ts, id=number, source=rng.choice("ab"))
        rows.append((ts + (rng.randint(0, width) if rng.random() < share else 0), number, event))
    arrived = [event for _, _, event in sorted(rows)]
    for again in rng.sample(arrived, rng.choice([0, 3, 20])):
        arrived.insert(rng.randrange(len(arrived)), again)
    return arrived


@in_runs
def test_long_streams_are_purged_on_the_way_and_every_event_is_accounted_for(run: int) -> None:
    late = 0
    for seed in range(40):
        rng = random.Random(seed)
        unit = unit_for("d", rng.choice(DETECTORS)(), 1, a_policy(rng), run=run)
        kinds = unit.detector.subscribes[: rng.choice([1, None])]
        arrived, consumer, at, top = a_long_stream(rng, kinds), Consumer(), 0, NEVER
        most, marks = rng.choice([1, 5, 64, 300]), rng.random() < 0.5
        while at < len(arrived):
            batch = arrived[at : at + rng.randint(1, most)]
            at += len(batch)
            top = max(top, *(event.ts for event in batch))
            if rng.random() < 0.1:
                unit.alpha = rng.choice([0.0, 0.5, 1.0])
            in_columns = len(kinds) == 1 and rng.random() < 0.7
            given = Delta(Block.from_events(kinds[0], batch)) if in_columns else Delta(batch)
            consumer.take(unit.push(given, top + rng.choice([0, 0, 3]) if marks else None))
            consumer.advance(unit.watermark)
        listed = Counter(IDENTITY(entry.event) for entry in unit.late)
        came = Counter(map(IDENTITY, arrived))
        first = {IDENTITY(event): event for event in reversed(arrived)}
        taken = [event for identity, event in first.items() if came[identity] > listed[identity]]
        statistics = finish(unit, consumer, taken)
        if not isinstance(unit.detector, Picky):  # an event without key is quarantined as often as it comes
            assert len(taken) + statistics.duplicates + statistics.late == len(arrived), f"seed {seed}"
        late += statistics.late
    assert late > 1_000


@pytest.mark.parametrize("spacing", [1, 3, 8])
@pytest.mark.parametrize("detector", [Fold2, KeyedFold2, KeyedHolder])
def test_memory_is_bounded_by_the_lateness_not_by_the_length_of_the_stream(detector: type[Detector], spacing: int) -> None:
    unit = unit_for(
        "d", detector(), 1, Policies(alpha=0.0, lateness=Lateness(1, 50), slack=lambda: FixedSlack(20), spacing=spacing)
    )
    rng, held = random.Random(7), []
    for number in range(0, 6_000, 10):
        batch = [Reading(rng.randrange(4), rng.randrange(10), ts=n, id=n, source="a") for n in range(number, number + 10)]
        unit.push(Delta([*batch[1:], batch[0]]))
        held.append(unit.statistics().held)
    assert not unit.late
    assert max(held) < 1_600
