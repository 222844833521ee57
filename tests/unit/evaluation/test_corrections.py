"""Corrections: counted in the right scope, the same for the same arrivals."""

import random

import pytest
from evaluation_samples import MS, Tick, scenario, unit

from middleware.evaluation.evaluation_runs import counted
from middleware.evaluation.measuring.corrections import above, affected, corrected, retraction_ratios
from middleware.evaluation.modes import DYNAMIC, FULL
from middleware.runtime.scenario import load_scenario


def arrivals(count: int = 4_000) -> list[Tick]:
    """Ticks of which every tenth comes up to 60 ms late."""
    rng = random.Random(5)
    events = [Tick(rng.randrange(20), ts=number * MS, id=number, source="t") for number in range(count)]
    delays = {event.id: rng.randrange(60) * MS if rng.random() < 0.1 else 0 for event in events}
    return sorted(events, key=lambda event: event.ts + delays[event.id])


def test_the_cascade_is_all_that_hangs_on_a_detector():
    detectors = scenario().detectors
    assert above(detectors, "Rises") == {"Rises", "Peaks", "Alarms"}
    assert above(detectors, "Peaks") == {"Peaks", "Alarms"}
    assert above(detectors, "Alarms") == {"Alarms"}
    soccer = load_scenario("soccer").detectors
    assert {"PlayerHits", "Passes"} <= above(soccer, "PlayerHits")
    assert "Motions" not in above(soccer, "PlayerHits")


def test_each_scope_counts_its_own():
    units = [unit("Rises", 50, 5, 5), unit("Peaks", 10, 1, 2), unit("Alarms", 8, 0, 1)]
    found = corrected(units, scenario())
    assert (found.published, found.corrected) == (10, 3)
    assert (found.published_in_cascade, found.corrected_in_cascade) == (18, 4)
    assert (found.published_at_all, found.corrected_at_all) == (68, 14)
    everything = corrected(units, scenario(evaluation={}))
    assert (everything.published, everything.corrected_in_cascade, everything.corrected_at_all) == (0, 14, 14)


def test_on_demand_retraction_touches_less_than_full():
    times = iter([0.0, 0.5, 2.0, 4.0])
    runs = {
        mode.name: affected(counted(scenario(), arrivals(), mode, 0.0, 4.0, clock=lambda: next(times)), scenario())
        for mode in (DYNAMIC, FULL)
    }
    demand, full = runs[DYNAMIC.name].corrections, runs[FULL.name].corrections
    assert 0 < demand.corrected < full.corrected
    assert 0 < demand.corrected_in_cascade < full.corrected_in_cascade
    assert demand.published - demand.corrected <= full.published
    assert (runs[DYNAMIC.name].real_time_factor, runs[FULL.name].real_time_factor) == (8.0, 2.0)
    found = retraction_ratios(runs)
    assert found["cascade"] == pytest.approx(demand.corrected_in_cascade / full.corrected_in_cascade)


def test_buffering_corrects_nothing_that_comes_within_the_slack():
    run = counted(scenario(policies={"slack": "100ms"}), arrivals(), DYNAMIC, 1.0, 4.0)
    assert run.corrected == 0 < run.published


def test_counts_are_the_same_in_every_run():
    runs = [counted(scenario(), arrivals(), FULL, 0.0, 4.0) for _ in range(2)]
    assert corrected(runs[0].units, scenario()) == corrected(runs[1].units, scenario())


def test_no_ratio_without_both():
    run = affected(counted(scenario(), arrivals(500), DYNAMIC, 0.0, 0.5), scenario())
    assert retraction_ratios({DYNAMIC.name: run}) == {"detector": None, "cascade": None, "all": None}
