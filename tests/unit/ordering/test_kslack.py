import pickle

import pytest

from middleware.model.event import NEVER, Event
from middleware.model.time import SECOND
from middleware.ordering.slack.kslack import FixedSlack, Lateness, LocalClock, MaxSlack, QuantileSlack

EVENTS = [Event(ts=number, id=number, source="a") for number in range(100)]


def test_the_first_events_have_met_no_clock():
    clock = LocalClock(MaxSlack())
    clock.arrive([1, 5], EVENTS[:2])
    assert clock.k == 0 and clock.clk == NEVER


@pytest.mark.parametrize(("slack", "start"), [(MaxSlack(), 0), (QuantileSlack(), 0), (FixedSlack(5), 5)])
def test_before_any_delay_the_slack_is_its_start_value(slack, start):
    assert (LocalClock(slack).k, slack.k, slack.reach) == (start, start, start)


def test_k_is_the_largest_delay_on_arrival():
    clock = LocalClock(MaxSlack())
    clock.tick(10, 10)
    clock.arrive([7], EVENTS[:3])
    clock.arrive([9], EVENTS[:1])
    assert clock.k == 3


def test_a_delay_is_measured_again_when_the_clock_moves():
    clock = LocalClock(MaxSlack())
    clock.tick(2, 2)
    clock.arrive([1], EVENTS[:1])
    clock.pend([1])
    assert clock.k == 1
    clock.tick(4, 9)
    assert clock.k == 3, "against the first tick, not the last"


def test_clock_marks_spare_the_second_measurement():
    clock = LocalClock(MaxSlack())
    clock.tick(2, 2)
    clock.pend([1])
    clock.mark(50)
    clock.tick(60, 60)
    assert clock.k == 0 and clock.clk == 60
    clock.mark(10)
    assert clock.clk == 60


def test_quantile_forgets_a_burst_and_leaves_out_the_rare():
    slack = QuantileSlack(0.9, window=100)
    slack.observe(1000, [0] * 50, EVENTS)
    assert slack.k == 1000
    slack.observe(1000, [993, 500], EVENTS)
    assert slack.k == 0
    slack.observe(1000, [993] * 20, EVENTS)
    assert slack.k == 7


def test_fixed_and_max():
    fixed, largest = FixedSlack(5), MaxSlack()
    for slack in (fixed, largest):
        slack.observe(100, [], EVENTS[:3])
        slack.observe(100, [60, 90], EVENTS[:3])
    assert (fixed.k, largest.k) == (5, 40)


@pytest.mark.parametrize(
    "bad", [lambda: FixedSlack(-1), lambda: QuantileSlack(0), lambda: Lateness(0.5), lambda: Lateness(2, -1)]
)
def test_senseless_policies_are_refused(bad):
    with pytest.raises(ValueError, match=r"must|needs"):
        bad()


def test_lateness_is_never_below_the_slack():
    assert Lateness().of(0) == SECOND
    assert Lateness().of(3 * SECOND) == 6 * SECOND
    assert Lateness(1, 0).of(7) == 7


def test_what_was_learnt_outlasts_a_restart_and_what_is_configured_does_not():
    before = LocalClock(QuantileSlack(0.9, 32))
    before.tick(100, 100)
    before.arrive([90, 95], EVENTS[:10])
    after = LocalClock(QuantileSlack(0.5, 16))
    after.restore(pickle.loads(pickle.dumps(before.state())))
    assert (after.clk, after.k) == (100, before.k) and after.k > 0
    after.arrive([], EVENTS)
    assert after.k == 0 and len(after.state()["policy"]["_delays"]) == 16, "by its own share and window"
    fixed = LocalClock(FixedSlack(6))
    fixed.restore(LocalClock(FixedSlack(5_000)).state())
    assert fixed.k == 6
    other = LocalClock(MaxSlack())
    other.restore(before.state())
    assert (other.clk, other.k) == (100, 0)
