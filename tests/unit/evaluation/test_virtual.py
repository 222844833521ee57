"""Runs in virtual time: right in every mode, alpha by Algorithm 3 from the time they take, memory by part."""

from itertools import count
from random import Random

import pytest
from evaluation_samples import MS, Tick, scenario

from middleware.evaluation.long import LONG, LongResults, heads, memory_rows, rows
from middleware.evaluation.measuring.parts import Parts
from middleware.evaluation.modes import BUFFERING, PAPER, PAPER_FULL, SPECULATION
from middleware.evaluation.virtual import LOAD, slowness_of, virtual
from middleware.testing.oracle import LenientOracle

SECONDS = 30


def arrivals():
    """Ten ticks a second, one in four of them up to half a second late."""
    random = Random(3)
    made = [(n * 100 * MS, Tick(random.randrange(40), ts=n * 100 * MS, id=n, source="ticks")) for n in range(10 * SECONDS)]
    late = sorted(((ts + random.choice((1, 1, 1, 500)) * MS, event) for ts, event in made), key=lambda pair: pair[0])
    return [([ts for ts, _ in late], [event for _, event in late])]


def clock(per_call: float):
    """Each step takes as long."""
    ticks = count()
    return lambda: next(ticks) * per_call


@pytest.fixture(scope="module")
def runs():
    given = arrivals()
    oracle = LenientOracle(given[0][1], scenario().detectors)
    return {mode.name: virtual(scenario(), given, mode, oracle, clock=clock(1e-3)) for mode in LONG}


def test_every_mode_ends_like_the_oracle(runs):
    assert all(run.oracle_equal for run in runs.values())
    assert len({run.finals for run in runs.values()}) == 1
    assert all(run.events == 10 * SECONDS for run in runs.values())


def test_other_finals_are_reported():
    given = arrivals()
    wrong = LenientOracle(given[0][1][:-50], scenario().detectors)
    assert not virtual(scenario(), given, BUFFERING, wrong).oracle_equal


def test_alpha_follows_the_time_that_steps_take(runs):
    """Ten steps of 1 ms a second leave the machine idle: alpha is halved until it is 0; at 0.95 busy it stays at 1."""
    assert runs[BUFFERING.name].alpha == 1.0 and runs[SPECULATION.name].alpha == 0.0
    course = runs[PAPER.name].course
    assert [one.alpha for one in course[:2]] == [0.5, 0.25]
    assert all(one.busy < 0.1 for one in course)
    given = arrivals()
    oracle = LenientOracle(given[0][1], scenario().detectors)
    overloaded = virtual(scenario(), given, PAPER, oracle, slowness=1000.0, clock=clock(1e-3))
    assert {one.alpha for one in overloaded.course[:-1]} == {1.0} and overloaded.oracle_equal


def test_slowness_makes_buffering_as_busy_as_on_the_papers_machine(runs):
    plain = runs[BUFFERING.name]
    given = arrivals()
    slow = virtual(
        scenario(), given, BUFFERING, LenientOracle(given[0][1], scenario().detectors), slowness_of(plain), clock=clock(1e-3)
    )
    assert slow.busy == pytest.approx(LOAD, rel=0.1)


def test_speculation_is_earlier_and_keeps_more(runs):
    plain, fast = runs[BUFFERING.name], runs[SPECULATION.name]
    assert 0 < fast.latency["Alarm"] < plain.latency["Alarm"]
    assert plain.memory.waiting > fast.memory.waiting
    assert fast.memory.held > plain.memory.held == plain.memory.published == 0
    assert fast.memory.snapshots > plain.memory.snapshots, "of these there are only present states"
    for run in runs.values():
        assert min(run.memory.snapshots, run.memory.seen) > 0
        parts = (run.memory.waiting, run.memory.held, run.memory.snapshots, run.memory.published, run.memory.seen)
        assert run.memory.whole == sum(parts)
    assert Parts.mean([Parts(1, 2, 3, 4, 5), Parts(3, 2, 1, 0, 5)]) == Parts(2, 2, 2, 2, 5)


def test_the_table_has_counters_as_a_row_of_their_own(runs):
    results = LongResults("sample", 30.0, "Peaks", 2.0, LOAD, {}, list(runs.values()))
    table = {row[0]: row for row in rows(results)}
    assert len(table) == len(LONG) + 1
    full, counters = table[PAPER_FULL.title], table[f"{PAPER_FULL.title}, by counters"]
    at = heads(results).index("records")
    assert int(counters[at].replace(",", "")) <= int(full[at].replace(",", ""))
    assert full[:at] != counters[:at] and full[1:at] == counters[1:at]
    assert all(len(row) == len(heads(results)) for row in table.values())
    assert [row[0] for row in memory_rows(results)] == [mode.title for mode in LONG]
    assert results.oracle_equal
