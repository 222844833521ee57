"""What ``slackline run`` says afterwards: detectors that raised, events that were skipped, and whether it is right."""

from __future__ import annotations

import io
from collections import Counter
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace
from rich.console import Console

from middleware.cli.runs.detections import DetectionLatency, Detections, found_by_type, latest, lines
from middleware.cli.runs.skipped_events import SkippedEvents
from middleware.cli.runs.summary import RunSummary, ScenarioSummary, UnitSummary, show
from middleware.model.event import Event
from middleware.model.time import SECOND

UNIT = UnitSummary("Stops", "gate", 1, 2.5, 0.5, 1_000, 0, 3, 40, 2, 0)
RUN = RunSummary(
    events=1_000, seconds=1.0, duplicates=0, clashes=0, late=0, early=42, corrected=2, finals=40, violations={},
    oracle_equal=True, latency_by_type={}, units=[UNIT], cpu={"gate": 0.5}, busy={"gate": 0.25}, memory={"gate": 1},
)  # fmt: skip


def summary(run: RunSummary = RUN, is_inside: bool = False, **changes: Any) -> str:
    run = replace(run, **changes)
    screen = Console(file=io.StringIO(), width=200)
    result = ScenarioSummary("yard", "out", 1_000, run.finals, run.oracle_equal, {}, ["Stop"], {"speculative": run})
    show(result, screen, units=is_inside)
    text: str = screen.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_where_nothing_went_wrong_nothing_is_reported() -> None:
    text = summary()
    assert text.endswith("finals equal the in-order oracle: yes (40 events)\n")
    assert "fail" not in text
    assert "latency" not in text, "fed as fast as it goes: there is none"


def test_detectors_that_raised_are_named_with_what_they_raised() -> None:
    errors = {"ValueError: [13]": 8, "KeyError: 'x'": 1, "KeyError: 'y'": 1, "KeyError: 'z'": 1}
    failing = replace(UNIT, detector="Faults", failed=11, failures=15, errors=errors, first="Reading(13)")
    text = summary(units=[UNIT, failing])
    assert "speculative: Faults on node gate failed at 11 events, and ran on without:\n  8 x ValueError: [13]\n" in text
    assert "KeyError: 'y'" in text
    assert "  first at Reading(13)\n" in text
    assert "KeyError: 'z'" not in text, "the first few are enough"
    inside = summary(is_inside=True, units=[UNIT, failing])
    assert "failed" in inside.partition("Stops")[0], "a column of the table"
    assert "Stops on node gate" not in text


def test_a_detector_that_has_stopped_is_reported() -> None:
    text = summary(units=[replace(UNIT, failed=1, errors={"ValueError: 13": 1}, stopped=True)], oracle_equal=False)
    assert "Stops on node gate has stopped; 1 event skipped:\n  1 x ValueError: 13\n" in text
    assert "oracle: no (40 events)\nStops stopped where it raised, or what it rests on did" in text


LEFT = SkippedEvents(
    "gate", "Stops", "late", 140, {"yard.Speed": 100, "yard.Gate": 40}, 28_700_000_000, 140, 30_000_000_000, "out/left/gate"
)


def test_what_the_recording_has_too_late_is_reported_and_no_failure() -> None:
    text = summary(late=140, skipped=[LEFT])
    assert (
        "Stops on node gate did without 140 events that came too late, at most by 28.7s: 100 yard.Speed, 40 yard.Gate" in text
    )
    assert 'all of them so late (lateness = "30s" takes these)\n  all of them: slackline late list out/left/gate\n' in text
    assert text.endswith(
        "oracle: yes (40 events), without 140 that the recording itself has too late (raise lateness to have them)\n"
    )
    assert replace(RUN, skipped=[LEFT]).is_complete


def test_what_the_run_made_too_late_is_a_failure() -> None:
    fewer = replace(LEFT, recorded=100)
    text = summary(late=140, skipped=[fewer])
    assert "the recording itself has 100 of them so late" in text
    assert text.endswith("oracle: yes (40 events), but 40 events were skipped that the recording has in time\n")
    assert not replace(RUN, skipped=[fewer]).is_complete
    ahead = SkippedEvents("gate", "", "ahead", 3, {"yard.Speed": 3}, 7_000, 0, 0, "out/left/gate")
    assert "node gate rejected 3 events that came too far ahead, at most by 7us: 3 yard.Speed" in summary(skipped=[ahead])
    assert not replace(RUN, skipped=[LEFT, ahead]).is_complete
    assert not replace(RUN, lost={"unknown type": 1}).is_complete
    assert "1 events were lost: unknown type" in summary(lost={"unknown type": 1})


class Stop(Event):
    truck: int


class Motion(Event):
    """On which stops rest."""


AT = 1_700_000_000 * SECOND


def test_what_was_found_stands_first_by_type_and_with_the_latest_ones() -> None:
    stops = [Stop(n, ts=AT + n * SECOND, id=n, source="Stops") for n in range(30)]
    finals = [event for stop in stops for event in (Motion(ts=stop.ts, id=stop.id, source="Motions"), stop)]
    changes = {"Stop": Counter(inserted=33, revised=4, retracted=3), "Motion": Counter(inserted=30)}
    collector: Any = SimpleNamespace(finals=finals, changes=changes)
    found = found_by_type(collector, ["Motion", "Siren", "Stop"])
    assert found["Stop"] == Detections(33, 4, 3, 30, AT, AT + 29 * SECOND)
    assert found["Siren"] == Detections()
    newest = lines(latest(finals, ["Stop"]))
    assert len(newest) == 10
    assert newest[-1] == ("2023-11-14 22:13:49.000Z", "Stop", "truck=29")
    run = replace(RUN, found=found, latency_by_type={"Stop": DetectionLatency(1.0, 2.0, 30)})
    result = ScenarioSummary("yard", "out", 60, 60, True, {}, ["Stop", "Siren"], {"speculative": run}, latest=newest)
    screen = Console(file=io.StringIO(), width=100)
    show(result, screen)
    text: str = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "what was found (speculative)" in text
    cells = {
        line.split("│")[1].strip(): [cell.strip() for cell in line.split("│")[2:-1]]
        for line in text.splitlines()
        if "│" in line
    }
    assert cells["Stop"] == ["30", "33", "4", "3", "1 / 2", "2023-11-14 22:13:49.000Z"]
    assert cells["Siren"][0] == "0", "of what people wait for, nothing is news, too"
    assert "Motion" not in cells
    assert "and 30 of 1 other types" in text
    assert str(AT)[:8] not in text, "times are dates"
    assert "Stops" not in text, "no internals"


def test_internals_are_shown_when_asked_for() -> None:
    name = "Detectors.WithAVeryLongName.ThatIsWorthReading.InFull"
    text = summary(is_inside=True, units=[replace(UNIT, detector=name)])
    assert "speculative: units" in text
    assert name in text
    assert "rollbacks" in text
    assert "late" not in text.partition("\n│")[0].partition("units")[2], "a column of zeros goes"
    assert "gate 0.5 s CPU, busy 25%" in text


def test_an_event_at_which_a_detector_failed_is_reported_with_a_date() -> None:
    failing = replace(UNIT, failed=1, errors={"ValueError": 1}, first=f"Reading(13, ts={AT}, id=4)")
    assert "first at Reading(13, ts=2023-11-14T22:13:20Z, id=4)" in summary(units=[failing])
