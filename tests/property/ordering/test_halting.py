"""Operators that raise somewhere: finals are right, results that rest on missing ones never become final, and all else
continues."""

import copy
from random import Random

import pytest
from slackline import Detector, Event

from detectors.window import COUNT, Hopping, Monoid, Session, Tumbling, Windows
from middleware.delivery.barrier import Barrier
from middleware.model.change import Batch, Delta
from middleware.model.event import END, IDENTITY, ORDER, type_name
from middleware.model.operator import Operation, Operator
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies


class Reading(Event):
    sensor: int
    value: int


class Other(Event):
    value: int


class Totals(Event):
    sensor: int
    start: int
    end: int
    total: int


class Alarm(Event):
    total: int


class Pair(Event):
    first: int
    second: int


class Seen(Event):
    count: int


class Alarms(Detector):
    """By key, on what the operator makes."""

    subscribes, publishes, key = (Totals,), (Alarm,), "sensor"

    def __init__(self):
        self.last = 0

    def on_event(self, event):
        self.last += event.total
        return Alarm(self.last, ts=event.ts)


class Pairs(Detector):
    """On what the operator makes, and on what comes of something else: it must not take the one without the other."""

    subscribes, publishes = (Totals, Other), (Pair,)

    def __init__(self):
        self.total = 0

    def on_event(self, event):
        if isinstance(event, Totals):
            self.total += event.total
            return None
        return Pair(self.total, event.value, ts=event.ts)


class Counts(Detector):
    """On the operator's input, but not on the operator."""

    subscribes, publishes = (Reading, Other), (Seen,)

    def __init__(self):
        self.count = 0

    def on_event(self, event):
        self.count += 1
        return Seen(self.count, ts=event.ts)


class Luck:
    left = float("inf")

    def spend(self):
        self.left -= 1
        if self.left < 0:
            raise ValueError("unlucky")


class Fails(Operator):
    """Another operator that raises by itself, at whichever call: with time alone, too."""

    def __init__(self, inner, luck):
        self._inner, self._luck = inner, luck
        self.name, self.subscribes, self.publishes = inner.name, inner.subscribes, inner.publishes

    def start(self, name, level):
        return _Fails(self._inner.start(name, level), self._luck)


class _Fails(Operation):
    def __init__(self, inner, luck):
        super().__init__()
        self._inner, self._luck = inner, luck

    def apply(self, delta, emitted, final):
        out = self._inner.apply(delta, emitted, final)
        self._luck.spend()
        return out

    def snapshot(self):
        return self._inner.snapshot()

    def restore(self, state):
        self._inner.restore(state)


def operators(random: Random, luck: Luck):
    def combine(one, other):
        luck.spend()
        return one + other

    by_user = Monoid(name="by_user", identity=0, combine=combine)
    over = random.choice([Tumbling(20), Hopping(40, 15), Session(12)])
    emit = random.choice(["close", "change", "final"])
    options = {"key": "sensor", "result": Totals, "emit": emit, "name": "Summed"}
    if random.random() < 0.5:
        return Windows(Reading, over, {"total": (by_user, "value")}, **options)
    return Fails(Windows(Reading, over, {"total": COUNT}, **options), luck)


def arrivals(random: Random):
    """Two types, out of order, in batches; the promise behind each batch holds for what comes later."""
    count = random.randrange(30, 90)
    events = [
        Reading(random.randrange(3), random.randrange(9), ts=ts, id=number, source="r")
        if random.random() < 0.7
        else Other(random.randrange(9), ts=ts, id=number, source="o")
        for number, ts in enumerate(sorted(random.randrange(300) for _ in range(count)))
    ]
    events.sort(key=lambda event: event.ts + random.randrange(40))
    while events:
        size = random.randrange(1, 12)
        batch, events = events[:size], events[size:]
        yield batch, min((event.ts for event in events), default=END) - 1


class Mesh:
    """A node without its I/O, restarted from its checkpoint at drawn steps; what it publishes goes through a barrier a type."""

    def __init__(self, detectors, alpha):
        self._make = lambda: Hierarchy(detectors, policies=Policies(alpha=alpha))
        self.hierarchy = self._make()
        self.barriers = {name: Barrier([name]) for name in self.hierarchy.publications}
        self.finals = {name: [] for name in self.barriers}
        self.failed = {unit.name: [] for unit in self.hierarchy.units}

    def step(self, events, promised):
        kinds = {kind: [event for event in events if event.__class__ is kind] for kind in (Reading, Other)}
        deltas = {type_name(kind): Delta(of_kind) for kind, of_kind in kinds.items() if of_kind}
        for batch in self.hierarchy.process(Batch(deltas, {type_name(kind): promised for kind in kinds})):
            for name, barrier in self.barriers.items():
                own = Batch({name: batch.deltas[name]} if name in batch.deltas else {}, batch.watermarks)
                self.finals[name] += barrier.take(own)
                assert not barrier.violations, (name, barrier.violations)
        for unit in self.hierarchy.units:
            unit.check()
            self.failed[unit.name] += unit.quarantine
            unit.quarantine = []

    def restart(self):
        state = copy.deepcopy(self.hierarchy.state())
        parts = []
        while part := self.hierarchy.parts(1_000):
            parts.append(copy.deepcopy(part))
        self.hierarchy = self._make()
        self.hierarchy.restore(state, parts)


def play(seed: int, call: float):
    """A drawn history, in which the operator raises at this call; where it did, or None."""
    random, luck = Random(seed), Luck()
    mesh = Mesh([operators(random, luck), Alarms(), Pairs(), Counts()], random.choice([0.0, 0.3, 1.0]))
    luck.left = call
    came, halted_at = [], None
    for step, (batch, promised) in enumerate(arrivals(random)):
        mesh.step(batch, promised)
        came.append(batch)
        if mesh.hierarchy.halted and halted_at is None:
            halted_at = step
        if random.random() < 0.2:
            rest, luck.left = luck.left, float("inf")  # taking up a checkpoint combines, too
            mesh.restart()
            luck.left = rest
    mesh.step([], END)
    if mesh.hierarchy.halted and halted_at is None:
        halted_at = len(came)
    return mesh, came, halted_at


@pytest.mark.parametrize("seed", range(40))
def test_what_is_final_is_right_wherever_an_operator_raises(seed):
    whole, _, never = play(seed, float("inf"))
    assert never is None and not any(whole.failed.values())
    random, stopped = Random(seed), 0
    for call in (0, 1, 2, *(random.randrange(200) for _ in range(6))):
        mesh, came, halted_at = play(seed, call)
        assert mesh.finals[type_name(Seen)] == whole.finals[type_name(Seen)], "what does not rest on it continues"
        for name in (type_name(Totals), type_name(Alarm), type_name(Pair)):
            assert mesh.finals[name] == whole.finals[name][: len(mesh.finals[name])], "final is right, up to where it stopped"
        for barrier in mesh.barriers.values():
            assert not len(barrier) and barrier.watermark == END, "nothing waits for what has stopped"
        if halted_at is None:
            assert mesh.finals == whole.finals
            continue
        stopped += 1
        assert set(mesh.hierarchy.halted) == {"Summed", "Alarms", "Pairs"}
        assert "Summed has stopped: ValueError: unlucky" in mesh.hierarchy.halted["Pairs"]
        unused = {IDENTITY(event) for batch in came[halted_at:] for event in batch if isinstance(event, Reading)}
        listed = [IDENTITY(each.cause) for each in mesh.failed["Summed"]]
        assert len(listed) == len(set(listed)) and set(listed) >= unused, "what is not used is listed, once"
        others = {IDENTITY(event) for batch in came[halted_at + 1 :] for event in batch if isinstance(event, Other)}
        assert {IDENTITY(each.cause) for each in mesh.failed["Pairs"]} >= others
    assert stopped or not whole.finals[type_name(Totals)]


def test_early_results_that_rest_on_what_failed_are_withdrawn():
    luck = Luck()
    mesh = Mesh(
        [Fails(Windows(Reading, Tumbling(10), {"total": COUNT}, key="sensor", result=Totals, emit="change"), luck)], 0.0
    )
    events = [Reading(1, 1, ts=ts, id=ts, source="r") for ts in (1, 5, 12)]
    mesh.step(events[:2], 0)
    assert len(mesh.barriers[type_name(Totals)]) == 1
    luck.left = 0
    mesh.step(events[2:], 0)
    assert len(mesh.barriers[type_name(Totals)]) == 0, "withdrawn when it stopped, long before it could become final"
    mesh.step([], END)
    assert mesh.finals == {type_name(Totals): []}
    assert sorted(map(ORDER, events[2:])) == [ORDER(each.cause) for each in mesh.failed[next(iter(mesh.failed))]]
