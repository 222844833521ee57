"""What ``slackline run`` says afterwards: detectors that raised, events that were left out, and whether it is right."""

from __future__ import annotations

import io
from typing import Any

from msgspec.structs import replace
from rich.console import Console

from middleware.cli.left_out import LeftOut
from middleware.cli.summary import Latency, RunSummary, Summary, UnitSummary, show

UNIT = UnitSummary("Stops", "gate", 1, 2.5, 0.5, 1_000, 0, 3, 40, 2, 0)
RUN = RunSummary(
    events=1_000, seconds=1.0, duplicates=0, clashes=0, late=0, early=42, corrected=2, finals=40, violations={},
    oracle_equal=True, latency_by_type={}, units=[UNIT], cpu={"gate": 0.5}, busy={"gate": 0.25}, memory={"gate": 1},
)  # fmt: skip


def told(run: RunSummary = RUN, **changes: Any) -> str:
    run = replace(run, **changes)
    screen = Console(file=io.StringIO(), width=200)
    show(Summary("yard", "out", 1_000, run.finals, run.oracle_equal, {}, ["Stop"], {"speculative": run}), screen)
    text: str = screen.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_where_nothing_went_wrong_nothing_is_said_of_it() -> None:
    text = told()
    assert text.endswith("finals equal the in-order oracle: yes (40 events)\n")
    assert "fail" not in text
    assert "latency" not in text, "fed as fast as it goes: there is none"


def test_detectors_that_raised_are_named_with_what_they_raised() -> None:
    errors = {"ValueError: [13]": 8, "KeyError: 'x'": 1, "KeyError: 'y'": 1, "KeyError: 'z'": 1}
    failing = replace(UNIT, detector="Faults", failed=11, failures=15, errors=errors, first="Reading(13)")
    text = told(units=[UNIT, failing])
    assert "speculative: Faults on node gate failed at 11 events, and went on without:\n  8 x ValueError: [13]\n" in text
    assert "KeyError: 'y'" in text
    assert "  first at Reading(13)\n" in text
    assert "KeyError: 'z'" not in text, "the first few are enough"
    assert "failed" in text.partition("Stops")[0], "a column of the table"
    assert "Stops on node gate" not in text


def test_a_detector_that_has_stopped_is_said_to_have() -> None:
    text = told(units=[replace(UNIT, failed=1, errors={"ValueError: 13": 1}, stopped=True)], oracle_equal=False)
    assert "Stops on node gate has stopped; 1 event left out:\n  1 x ValueError: 13\n" in text
    assert "oracle: no (40 events)\nStops stopped where it raised, or what it rests on did" in text


LEFT = LeftOut("gate", "Stops", "late", 140, {"yard.Speed": 100, "yard.Gate": 40}, 28_700_000_000, 140, "out/left/gate")


def test_what_the_recording_has_too_late_is_told_and_no_failure() -> None:
    text = told(late=140, left_out=[LEFT])
    assert (
        "Stops on node gate did without 140 events that came too late, at most by 28.7s: 100 yard.Speed, 40 yard.Gate" in text
    )
    assert "the recording itself has all of them so late\n  all of them: slackline late list out/left/gate\n" in text
    assert text.endswith(
        "oracle: yes (40 events), without 140 that the recording itself has too late (raise lateness to have them)\n"
    )
    assert replace(RUN, left_out=[LEFT]).is_complete


def test_what_the_run_made_too_late_is_a_failure() -> None:
    fewer = replace(LEFT, recorded=100)
    text = told(late=140, left_out=[fewer])
    assert "the recording itself has 100 of them so late" in text
    assert text.endswith("oracle: yes (40 events), but 40 events were left out that the recording has in time\n")
    assert not replace(RUN, left_out=[fewer]).is_complete
    ahead = LeftOut("gate", "", "ahead", 3, {"yard.Speed": 3}, 7_000, 0, "out/left/gate")
    assert "node gate turned away 3 events that came too far ahead, at most by 7us: 3 yard.Speed" in told(left_out=[ahead])
    assert not replace(RUN, left_out=[LEFT, ahead]).is_complete
    assert not replace(RUN, lost={"unknown type": 1}).is_complete
    assert "1 events were lost: unknown type" in told(lost={"unknown type": 1})


def test_latency_is_shown_where_it_was_measured() -> None:
    assert "detection latency" in told(latency_by_type={"Stop": Latency(1.0, 2.0, 3)})
