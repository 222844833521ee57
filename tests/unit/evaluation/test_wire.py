"""Withdrawals sent as counters: a reader of the records has the provisional results without a list of those withdrawn."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from slackline import Detector, Event, run

from middleware.evaluation.measuring.wire import Wire, keys_of
from middleware.model.change import Batch, Delta
from middleware.model.event import IDENTITY
from middleware.ordering.lanes.retraction import Retraction
from middleware.ordering.policies import Policies


class Step(Event):
    who: int
    by: int


class Total(Event):
    who: int
    total: int


class Odd(Event):
    who: int


class Totals(Detector):
    """Two types, of which each late event changes all later ones of its key."""

    subscribes, publishes, key = (Step,), (Total, Odd), "who"

    def __init__(self) -> None:
        self.total = 0

    def on_event(self, event):
        self.total += event.by
        results = [Total(event.who, self.total, ts=event.ts)]
        return [*results, Odd(event.who, ts=event.ts)] if self.total % 2 else results


class TotalsOfAll(Totals):
    key = None


def steps(seed: int, count: int, late: int) -> list[Event]:
    """Steps in an order of arrival in which some are up to ``late`` places late."""
    random = Random(seed)
    made = [Step(random.randrange(3), random.randrange(4), ts=10 * n, id=n, source="steps") for n in range(count)]
    return sorted(made, key=lambda event: event.id + random.choice((0, 0, 0, late)))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 99), st.integers(0, 30), st.sampled_from([Totals, TotalsOfAll]), st.integers(1, 9))
def test_counters_tell_all_that_full_retraction_withdraws(seed, late, kind, batch):
    detector = kind()
    wire = Wire(keys_of({"Totals": detector}))
    policies = Policies(alpha=0.0, retraction=Retraction.FULL)
    done = run(steps(seed, 60, late), {"Totals": detector}, policies=policies, batch=batch, watch=wire.take)
    provisional = [one for series in wire.provisional.values() for one in series]
    assert sorted(provisional) == sorted(IDENTITY(event) for event in done.finals["Totals"])
    records = wire.records
    assert records.singles == 0, "what is withdrawn is the end of its series"
    assert records.retracts == done.corrected and records.inserts == done.published
    assert records.counters <= records.retracts
    assert records.by_counters - records.counters == records.one_by_one - records.retracts


def test_what_is_no_end_of_its_series_is_sent_one_by_one():
    events = [Total(1, n, ts=n, id=n, source="Totals") for n in range(5)]
    wire = Wire(keys_of({"Totals": Totals()}))
    wire.take(Batch({"Total": Delta(events)}, {}))
    wire.take(Batch({"Total": Delta(retracts=events[3:])}, {}))
    assert (wire.records.counters, wire.records.singles) == (1, 0)
    wire.take(Batch({"Total": Delta(retracts=[events[0], events[2]])}, {}))
    assert (wire.records.counters, wire.records.singles, wire.records.retracts) == (1, 2, 4)
    assert wire.provisional == {("Totals", 1): [IDENTITY(events[1])]}


def test_on_demand_retraction_says_less():
    """It revises what changed; full retraction withdraws and publishes again, one by one or by counters."""
    counts = {}
    for way in (Retraction.ON_DEMAND, Retraction.FULL):
        wire = Wire(keys_of({"Totals": Totals()}))
        run(steps(5, 300, 12), {"Totals": Totals()}, policies=Policies(0.0, retraction=way), batch=1, watch=wire.take)
        counts[way] = wire.records
    full = counts[Retraction.FULL]
    assert counts[Retraction.ON_DEMAND].one_by_one < full.by_counters < full.one_by_one
