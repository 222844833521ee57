"""The scenario's scorer: totals over matches, and only what is needed is run."""

import pytest

from detectors.soccer.soccer_hierarchy import soccer
from middleware.evaluation.measuring.accuracy import Accuracy
from middleware.model.event import ORDER
from middleware.runtime.engine import run
from scenarios.soccer import scoring
from scenarios.soccer.match import events, truth


def test_matches_count_as_one():
    whole = Accuracy.total([Accuracy.of(2, 4, 2), Accuracy.of(4, 2, 2)])
    assert whole is not None and whole.f1 == pytest.approx(8 / 12)
    assert Accuracy.total([Accuracy.of(0, 0, 0)]) is None, "nothing there, nothing found: no figure"
    nothing = Accuracy.total([Accuracy.of(0, 3, 0)])
    assert nothing is not None and nothing.f1 == 0.0


def test_needed_is_what_the_scored_detectors_rest_on():
    detectors = soccer()
    needed = scoring.needed(detectors)
    assert {"Passes", "Shots", "Goals", "PlayerHits", "Motions", "BallHits"} <= needed.keys() < detectors.keys()
    for detector in needed.values():
        for name, other in detectors.items():
            if not set(detector.subscribes).isdisjoint(other.publishes):
                assert name in needed


def test_a_short_recording_is_scored_by_itself():
    seconds = 10.0
    finals = run(sorted(events(7, seconds), key=ORDER), scoring.needed(soccer())).finals
    assert any(happening.kind == "pass" for happening in truth(7, seconds))
    found = scoring.scores(finals, 7, seconds)
    assert found.keys() == {"generated_pass", "generated_shot", "generated_goal"}
    assert found["generated_pass"] is not None and found["generated_pass"].f1 >= 0.9
    nothing = scoring.scores({**finals, "Passes": []}, 7, seconds)
    assert nothing["generated_pass"] is not None and nothing["generated_pass"].recall == 0.0
