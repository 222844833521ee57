"""Whole numbers beyond 64 bits: the result that has one is quarantined, alone, as long as it has it."""

import pickle

import pytest
from slackline import Delta, Event

from detectors.window import COUNT, LAST, RANGE, SUM, Session, Tumbling, Windows
from middleware.model.event import END, IDENTITY
from middleware.runtime import engine


class Amount(Event):
    account: int
    value: int


BIG = 2**62
cores = pytest.mark.parametrize(
    "more",
    [{}, {"last": (LAST, "value")}],
    ids=["core", "plain"],
)


@cores
@pytest.mark.parametrize("emit", ["close", "change"])
def test_a_sum_that_becomes_too_large_is_withdrawn_and_comes_back(emit, more):
    plan = Windows(Amount, Tumbling(10), {"total": (SUM, "value"), **more}, key="account", emit=emit)
    operation = plan.start("w", 1)
    first, second, third = (Amount(1, BIG, ts=ts, id=ts) for ts in (1, 2, 3))
    other = Amount(2, 5, ts=2, id=9)
    found = operation.apply(Delta([first, other]), 10, 0)
    published = next(each for each in found.inserts if each.account == 1)
    assert sorted(each.total for each in found.inserts) == [5, BIG]
    out = operation.apply(Delta([second]), 10, 0)
    assert (out.inserts, out.revises, out.retracts) == ([], [], [published])
    ((event, reason),) = operation.failures.values()
    assert IDENTITY(event) == IDENTITY(published) and str(2 * BIG) in reason and "64 bits" in reason and "\n" not in reason
    assert operation.apply(Delta([third]), 10, 0) == Delta()  # still too large, and quarantined as it is now
    restarted = plan.start("w", 1)
    restarted.restore(pickle.loads(pickle.dumps(operation.snapshot())))
    assert restarted.failures == operation.failures and str(3 * BIG) in next(iter(restarted.failures.values()))[1]
    out = restarted.apply(Delta([], [], [second, third]), 10, 0)
    assert (out.inserts, out.revises, out.retracts) == ([published], [], []) and not restarted.failures
    restarted.apply(Delta([second]), 10, 0)
    assert restarted.apply(Delta([], [], [first, second]), 10, 0) == Delta() and not restarted.failures


@cores
def test_the_largest_numbers_that_fit_go_out(more):
    values = [2**63 - 1, -(2**63)]
    events = [Amount(account, value, ts=1, id=account) for account, value in enumerate(values)]
    plan = Windows(Amount, Tumbling(10), {"total": (SUM, "value"), **more}, key="account")
    assert sorted(each.total for each in plan.start("w", 1).apply(Delta(events), END, END).inserts) == sorted(values)
    plan = Windows(Amount, Tumbling(10), {"range": (RANGE, "value"), "n": COUNT, **more})
    operation = plan.start("w", 1)
    assert operation.apply(Delta(events), END, END) == Delta() and len(operation.failures) == 1


@pytest.mark.parametrize("kind", [Tumbling(10), Session(4)], ids=repr)
def test_a_run_lists_them_once_they_are_final_and_goes_on(kind):
    values = [BIG, BIG, 1, BIG, 7]
    times = [1, 2, 21, 3, 41]
    events = [Amount(1, value, ts=ts, id=n) for n, (value, ts) in enumerate(zip(values, times, strict=True))]
    found = engine.run(events, [Windows(Amount, kind, {"total": (SUM, "value")}, name="Totals")], batch=1, failing="skip")
    assert [each.total for each in found.finals["Totals"]] == [1, 7]
