"""Measures of hand-made runs, against numbers worked out by hand."""

import pytest
from evaluation_samples import Alarm, Peak, Rise, event, replay, scenario

from middleware.evaluation.measuring.measures import Detection, builtins_of, latency_of, measure, ratios, rolling
from middleware.evaluation.modes import BUFFERING, DYNAMIC, FAST_DYNAMIC, FEW
from middleware.model.errors import RunError

FINALS = [
    event(Rise, "Rises", 300, 1),
    event(Rise, "Rises", 700, 2),
    event(Peak, "Peaks", 700, 3),
    event(Alarm, "Alarms", 1300, 4),
]
ALARM = FINALS[3:]


def test_latency_is_delivery_less_the_replayed_moment():
    measured = measure(replay(BUFFERING, FINALS, 40.0), scenario(), FINALS)
    assert measured.latency.mean == pytest.approx(40.0)
    assert [one.at for one in measured.detections] == pytest.approx([0.2, 0.6, 0.6, 1.2])
    assert {name: one.count for name, one in measured.by_detector.items()} == {"Rises": 2, "Peaks": 1, "Alarms": 1}
    assert measured.results is not None and measured.results.count == 1
    assert measured.focus is not None and measured.focus.count == len(measured.focus_detections) == 1
    assert measured.behind == pytest.approx(7.0)
    assert measured.oracle_equal


def test_latency_counts_in_wall_time_at_any_speed():
    assert measure(replay(FAST_DYNAMIC, FINALS, 40.0), scenario(), FINALS).latency.mean == pytest.approx(40.0)


def test_the_run_is_what_lies_between_first_and_last_event():
    measured = measure(replay(BUFFERING, FINALS, 40.0), scenario(), FINALS)
    assert [one.at for one in measured.intervals] == pytest.approx([0.5, 1.0])
    assert measured.busy == pytest.approx(0.5)
    assert measured.cpu == pytest.approx(0.25)
    assert measured.alpha == pytest.approx((0.5 + 0.25) / 2)
    first = measured.intervals[0]
    assert (first.least, first.alpha, first.most) == pytest.approx((0.0, 0.5, 1.0))
    assert first.k == pytest.approx(20.0), "that of the detector looked at"
    assert [one.memory for one in measured.intervals] == [50, 150], "beyond what the idle node had"
    assert (measured.memory, measured.peak) == (100, 150)


@pytest.mark.parametrize("expected", [FINALS[:-1], [*FINALS[:-1], event(Alarm, "Alarms", 1300, 4, value=10)], FINALS[::-1]])
def test_other_finals_than_the_oracles_are_reported(expected):
    assert not measure(replay(BUFFERING, FINALS, 40.0), scenario(), expected).oracle_equal


def test_a_final_that_changed_is_reported():
    assert not measure(replay(BUFFERING, FINALS, 40.0, violations={"Peak": 1}), scenario(), FINALS).oracle_equal


def test_late_events_are_counted():
    assert measure(replay(BUFFERING, FINALS, 40.0, late={"Rises": [("a", 1), ("b", 2)]}), scenario(), FINALS).late == 2


def test_a_mode_with_results_only_is_held_against_these():
    assert measure(replay(FEW, ALARM, 10.0), scenario(), FINALS).oracle_equal
    assert not measure(replay(FEW, ALARM, 10.0), scenario(), FINALS[:-1]).oracle_equal


def test_a_run_without_finals_is_an_error():
    with pytest.raises(RunError, match="--seconds"):
        measure(replay(BUFFERING, [], 1.0), scenario(), [])


def test_ratios_are_means_to_the_means_of_buffering():
    runs = {
        BUFFERING.name: measure(replay(BUFFERING, FINALS, 40.0), scenario(), FINALS),
        DYNAMIC.name: measure(replay(DYNAMIC, FINALS, 10.0), scenario(), FINALS),
        FEW.name: measure(replay(FEW, ALARM, 8.0), scenario(), FINALS),
        FAST_DYNAMIC.name: measure(replay(FAST_DYNAMIC, FINALS, 10.0), scenario(), FINALS),
    }
    assert ratios(runs) == pytest.approx({"all": 0.25, "pass": 0.25, "results": 0.25, "detectors": 0.25})
    assert runs[FEW.name].ratios == pytest.approx({"results": 0.2}), "not the same detections as all of buffering's"
    assert runs[FAST_DYNAMIC.name].ratios == {}, "another speed is no fair comparison"


def test_ratios_of_what_was_not_found_are_none():
    bare = FINALS[:2]
    runs = {mode.name: measure(replay(mode, bare, 5.0), scenario(), bare) for mode in (BUFFERING, DYNAMIC)}
    found = ratios(runs)
    assert found["pass"] is None and found["results"] is None
    assert found["all"] == pytest.approx(1.0)


def test_latency_of_many():
    latency = latency_of([Detection(0.0, float(number)) for number in range(100, 0, -1)])
    assert latency is not None
    assert (latency.mean, latency.p50, latency.p99, latency.count) == (50.5, 50.0, 100.0, 100)
    assert latency_of([]) is None


def test_rolling_leaves_out_empty_seconds():
    some = [Detection(0.1, 10.0), Detection(0.9, 30.0), Detection(3.5, 5.0)]
    assert rolling(some) == ([0.5, 3.5], [20.0, 5.0])


def test_json_leaves_out_single_detections():
    fields = builtins_of(measure(replay(BUFFERING, FINALS, 40.0), scenario(), FINALS))
    assert not {"detections", "focus_detections"} & fields.keys()
    assert fields["latency"]["count"] == 4
