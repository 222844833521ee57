"""Detectors that once came out wrong, found by a hunt for counter-examples: whatever arrives when, they equal the plain run."""

from itertools import permutations

import pytest

from middleware.delivery.barrier import Barrier
from middleware.model.change import Batch, Delta
from middleware.model.detector import Detector
from middleware.model.event import END, Event
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from middleware.runtime.engine import run
from middleware.testing.oracle import oracle


class Step(Event):
    a: int
    b: int = 0


class Said(Event):
    text: str


class Number(Event):
    value: float


class Found(Event):
    found: dict[str, int]


class Machine(Detector):
    """Its snapshots are any string, "stopped" among them."""

    subscribes, publishes = (Step,), (Said,)

    def __init__(self):
        self.mode = "running"

    def on_event(self, event):
        self.mode = {1: "stopped", 2: "running"}.get(event.a, self.mode)
        return Said(self.mode, ts=event.ts)

    def snapshot(self):
        return self.mode

    def restore(self, state):
        self.mode = state


class Pairs(Detector):
    """Keys that are equal and look different: frozenset({8, 0}) and frozenset({0, 8})."""

    subscribes, publishes = (Step,), (Said,)

    def __init__(self):
        self.count = 0

    @staticmethod
    def key(event):
        return frozenset((event.a * 8, event.b * 8))

    def on_event(self, event):
        self.count += 1
        return Said(str(self.count), ts=event.ts)


class Shared(Detector):
    """Two attributes are one list."""

    subscribes, publishes = (Step,), (Said,)

    def __init__(self):
        self.windows = {}
        self.current = None

    def on_event(self, event):
        if event.ts // 3 not in self.windows:
            self.windows[event.ts // 3] = self.current = []
        self.current.append(event.a)
        return Said(repr(self.windows), ts=event.ts)


class Handlers(Detector):
    """Its state holds a method of its own."""

    subscribes, publishes = (Step,), (Said,)

    def __init__(self):
        self.count = 0
        self.handler = self.low

    def low(self, event):
        self.count += event.a
        self.handler = self.high
        return Said(f"low {self.count}", ts=event.ts)

    def high(self, event):
        self.count += 10 * event.a
        self.handler = self.low
        return Said(f"high {self.count}", ts=event.ts)

    def on_event(self, event):
        return self.handler(event)


class Signs(Detector):
    """Results that are == and yet differ: 0.0 and -0.0."""

    subscribes, publishes = (Step,), (Number,)

    def __init__(self):
        self.sign = 1.0

    def on_event(self, event):
        self.sign = -self.sign if event.a == 1 else self.sign
        return Number(self.sign * 0.0, ts=event.ts)


class Orders(Detector):
    """Results that are == and differ in order."""

    subscribes, publishes = (Step,), (Found,)

    def __init__(self):
        self.found = {}

    def on_event(self, event):
        self.found["abcd"[event.a]] = 1
        return Found(dict(self.found), ts=event.ts)


class Firsts(Detector):
    """Makes something of that order."""

    subscribes, publishes = (Found,), (Said,)

    def on_event(self, event):
        return Said(next(iter(event.found)), ts=event.ts)


class Flags(Detector):
    """Its attributes, all plain, come and go, and in another order."""

    subscribes, publishes = (Step,), (Said,)

    def on_event(self, event):
        for name in "abcd"[event.a % 2 : event.a + 1]:
            if hasattr(self, name):
                delattr(self, name)
            else:
                setattr(self, name, event.b if event.a else float("nan"))
        return Said(repr(vars(self)), ts=event.ts)


class Pair(Detector):
    """Its state is a tuple: of equal values that differ in type or sign, or one with a list in it."""

    subscribes, publishes = (Step,), (Said,)

    def __init__(self):
        self.held = (0,)

    def on_event(self, event):
        if event.a == 3:
            self.held = (*self.held, [event.b])
        elif type(self.held[-1]) is list:
            self.held[-1].append(event.a)
        else:
            self.held = ((1, True, 1.0)[event.a], -0.0 if event.b else 0.0)
        return Said(repr(self.held), ts=event.ts)


class Same(Detector):
    """Returns one event object twice, and keeps it for the next time."""

    subscribes, publishes = (Step,), (Said,)

    def __init__(self):
        self.last = Said("none", ts=0)

    def on_event(self, event):
        before, self.last = self.last, Said(str(event.a), ts=event.ts)
        return [self.last, self.last, Said(before.text, ts=event.ts)]


TRICKY = [[Machine], [Pairs], [Shared], [Handlers], [Signs], [Orders, Firsts], [Flags], [Pair], [Same]]


@pytest.mark.parametrize("detectors", TRICKY, ids=str)
@pytest.mark.parametrize("spacing", [1, 3])
def test_every_arrival_order_comes_out_as_in_order(detectors, spacing):
    steps = [Step(n % 4, (n + 1) % 2, ts=2 * n, id=n, source="s") for n in range(5)]
    policy = Policies(alpha=0.0, lateness=Lateness(2, 1000), spacing=spacing)
    expected = repr(oracle(steps, [each() for each in detectors]))
    for arrived in permutations(steps):
        assert repr(run(arrived, [each() for each in detectors], policies=policy, batch=1).finals) == expected, arrived


def test_a_result_that_turns_is_not_lost_when_insertion_and_retraction_come_apart():
    text_event, number = Said("x", ts=5, id=7, source="d", level=1), Number(1.0, ts=5, id=7, source="d", level=1)
    barrier = Barrier(["Said", "Number"])
    barrier.take(Batch({"Said": Delta([text_event])}))
    barrier.take(Batch({"Number": Delta([number])}))
    barrier.take(Batch({"Said": Delta(retracts=[text_event])}))
    assert barrier.take(Batch({}, {"Said": END, "Number": END})) == [number]


def test_a_revision_across_what_is_final_is_late_as_a_whole():
    class Reader(Machine):
        subscribes = (Said,)

        def on_event(self, event):
            return Said(event.text, ts=event.ts)

    unit = unit_for("Reader", Reader(), 2, Policies(alpha=0.0))
    old, new = Said("old", ts=5, id=7, source="d", level=1), Said("new", ts=15, id=7, source="d", level=1)
    unit.push(Delta([old]), promised=10, is_open=False)
    assert unit.push(Delta(revises=[(old, new)]), promised=10, is_open=False) == []
    assert [(entry.change, entry.event) for entry in unit.late] == [("revise", new)]


def test_a_state_that_cannot_be_copied_stops_the_detector_and_is_told():
    class Generators(Machine):
        def on_event(self, event):
            self.mode = (n for n in range(3))
            return Said("x", ts=event.ts)

        def snapshot(self):
            return Detector.snapshot(self)

    unit = unit_for("Generators", Generators(), 1, Policies(alpha=0.0, spacing=1))
    unit.push(Delta([Step(n, ts=n, id=n, source="s") for n in range(5)]))
    unit.push(Delta(), promised=END, is_open=False)
    assert unit.statistics().failures == 1
    assert "cannot pickle" in unit.quarantine[0].failure


def test_a_withdrawn_event_without_a_key_is_not_quarantined():
    class Keyless(Pairs):
        @staticmethod
        def key(event):
            return 1 // event.a

    unit = unit_for("Keyless", Keyless(), 1, Policies(alpha=0.0))
    bad = Step(0, ts=1, id=1, source="s")
    unit.push(Delta([bad, Step(1, ts=2, id=2, source="s")]))
    unit.push(Delta(retracts=[bad]))
    unit.push(Delta(), promised=END, is_open=False)
    assert unit.quarantine == []
    assert unit.statistics().unknown == 0
