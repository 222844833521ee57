"""The promise of the ordering unit against the sorted oracle, for everything hypothesis can draw."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.model.change import Delta
from middleware.model.event import END, IDENTITY, NEVER, ORDER
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from middleware.testing.oracle import in_order, oracle
from tests.property.strategies import SLACK, policies

from .streams import Brittle, Filter, Fold, KeyedFold, KeyedWindows, Mode, Reading, TotalsOnColumns, Windows, arrivals, batches


class Consumer:
    """Nets the changes of one unit, and refuses any that touches what was final."""

    def __init__(self):
        self.now = {}
        self.final = NEVER

    def take(self, deltas):
        for delta in deltas:
            seen = [(type(event), *IDENTITY(event)) for event in delta.inserts + delta.retracts]
            seen += [(type(new), *IDENTITY(new)) for _, new in delta.revises]
            assert len(seen) == len(set(seen)), "an identity twice in one delta"
            assert delta.k_plus is None or len(delta.k_plus) == len(delta.inserts)
            for event in delta.retracts:
                assert self.now.pop(IDENTITY(event)) == event
                assert event.ts > self.final
            for old, new in delta.revises:
                assert self.now[IDENTITY(old)] == old != new
                assert min(old.ts, new.ts) > self.final
                self.now[IDENTITY(new)] = new
            for event in delta.inserts:
                assert event.ts > self.final
                assert self.now.setdefault(IDENTITY(event), event) is event

    def advance(self, watermark):
        assert watermark >= self.final
        self.final = watermark

    def finals(self):
        return sorted(self.now.values(), key=ORDER)


@pytest.mark.parametrize("detector", [Fold, KeyedFold, Filter, Mode, Brittle, Windows, KeyedWindows, TotalsOnColumns])
@settings(max_examples=100, deadline=None)
@given(data=st.data(), arrived=arrivals(), policy=policies(slack=SLACK))
def test_finals_equal_the_oracle_and_nothing_final_changes(detector, data, arrived, policy):
    unit = unit_for(detector.__name__, detector(), 1, policy)
    consumer = Consumer()
    for batch in batches(data.draw, arrived):
        unit.alpha = data.draw(st.sampled_from([policy.alpha, policy.alpha, 1.0, 0.0]))
        mark = max(event.ts for event in batch) if data.draw(st.booleans()) else None
        consumer.take(unit.push(Delta(batch), mark))
        consumer.advance(unit.watermark)
        unit.check()
    consumer.take(unit.push(Delta(), promised=END, is_open=False))
    unit.check()
    late = [IDENTITY(entry.event) for entry in unit.late]
    accepted = list(arrived)
    for identity in late:  # a listed arrival is the last of its identity that has not been struck out yet
        accepted.reverse()
        accepted.remove(next(event for event in accepted if IDENTITY(event) == identity))
        accepted.reverse()
    assert consumer.finals() == oracle(accepted, [detector()])[detector.__name__]


@pytest.mark.parametrize("detector", [Fold, KeyedFold, Mode, Brittle, Windows, KeyedWindows, TotalsOnColumns])
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), policy=policies(slack=SLACK))
def test_retractions_and_revisions_from_upstream_disturb_like_late_events(detector, seed, policy):
    """Whatever upstream inserts, revises and withdraws, the finals are those of what it stands by in the end."""
    unit = unit_for(detector.__name__, detector(), 2, policy)
    consumer = Consumer()
    stands = {}
    rng = random.Random(seed)
    queue = [
        Reading(rng.randrange(4), rng.randrange(10), ts=max(0, number - rng.randrange(9)), id=number, source="a")
        for number in range(rng.randrange(1, 60))
    ]
    promised = NEVER
    while queue or rng.random() < 0.7:
        size = rng.randrange(6)
        inserts, queue = [event for event in queue[:size] if event.ts > promised], queue[size:]
        open_ones = [identity for identity in sorted(stands) if stands[identity].ts > promised]
        delta = Delta(inserts)
        for identity in rng.sample(open_ones, min(rng.randrange(4), len(open_ones))):
            old = stands.pop(identity)
            new = Reading(
                rng.randrange(4),
                rng.randrange(10),
                ts=max(promised + 1, old.ts + rng.randint(-3, 3)),
                id=old.id,
                source=old.source,
            )
            if rng.random() < 0.5:
                delta.retracts.append(old)
            else:
                stands[identity] = new
                delta.revises += [(old, new)] if new != old else []
        stands.update({IDENTITY(event): event for event in inserts})
        promised = max(promised, rng.randint(-1, 1 + max((event.ts for event in stands.values()), default=0) // 2))
        consumer.take(unit.push(delta, promised=promised, is_open=False))
        consumer.advance(unit.watermark)
        unit.check()
    consumer.take(unit.push(Delta(), promised=END, is_open=False))
    assert not unit.late
    assert consumer.finals() == sorted(in_order(detector.__name__, detector(), 2, stands.values()), key=ORDER)


def test_what_is_known_by_its_time_stays_the_same_whatever_brings_it_out():
    readings = [Reading(0, value, ts=ts, id=ts, source="a") for ts, value in ((0, 4), (1, 5), (6, 1), (5, 1), (4, 1))]
    unit = unit_for("Windows", Windows(), 1, Policies(alpha=0.0, lateness=Lateness(2, 100)))
    deltas = [delta for reading in readings for delta in unit.push(Delta([reading]))]
    assert len(deltas) == 1  # readings at 5 and at 4 come late, and would each have given the same result
    assert sum(len(delta.inserts) for delta in deltas) == 2
