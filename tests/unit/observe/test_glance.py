"""A mesh at a glance: totals from one status, rates from two, and the warnings for people."""

from __future__ import annotations

import io

import pytest
from msgspec.structs import replace
from rich.console import Console
from test_metric_families import COUNTS, STATUS, UNIT, VITALS, WAITS

from middleware.cli.meshes.mesh_tables import pictured
from middleware.cli.output import table
from middleware.model.time import SECOND
from middleware.observe.glance import concerns, detector_lines, node_lines
from middleware.observe.mesh import MeshStatus


def test_totals_and_what_follows_from_them() -> None:
    (line,) = node_lines([STATUS])
    assert (line.node, line.state, line.uptime) == ("a", "waits for c", 2 * SECOND)
    assert (line.received, line.results, line.corrected) == (93, 40, 3 / 40), "without 7 repeats"
    assert line.late == 2 + UNIT.late
    assert (line.subscribers, line.publishers, line.queued) == (2, 0, 100)
    assert line.lag == 4 * SECOND
    assert line.cpu == 1.0, "2 s of processor time in 2 s"
    (unit,) = detector_lines([STATUS])
    assert (unit.detector, unit.received, unit.k, unit.alpha, unit.busy, unit.state) == (
        "Passes", 100, 2 * SECOND, 0.25, None, "runs",
    )  # fmt: skip


def test_rates_are_of_the_time_between_two_looks_and_a_restart_begins_anew() -> None:
    later = replace(VITALS, at=VITALS.at + 4 * SECOND, cpu=3.0, counts=replace(COUNTS, events_in=300))
    unit = replace(UNIT, received=180, inserted=48, revised=4, spent=3.5e9)
    now = replace(STATUS, vitals=later, units=[replace(WAITS, counts=unit)])
    (line,) = node_lines([now], [STATUS])
    assert (line.received, line.results, line.corrected, line.cpu) == (50, 2, 0.25, 0.25)
    (unit,) = detector_lines([now], [STATUS])
    assert (unit.received, unit.busy) == (20, 0.5)
    restarted = replace(now, vitals=replace(later, started=later.started + 1))
    assert node_lines([restarted], [STATUS])[0].received == 293


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "it waits for c"),
        ({"missing": []}, "node a has lost c"),
        ({"missing": [], "behind": 3 * SECOND}, "its clock is 3s behind"),
        ({"paused": ["Pass"], "slow": ["subscriber s1"]}, "Pass is paused: subscriber s1 has no room"),
        ({"units": [replace(WAITS, halted="ValueError")]}, "Passes has stopped: ValueError"),
        (
            {"vitals": replace(VITALS, counts=replace(COUNTS, drops={"other fields": 1_200, "duplicate": 9}))},
            ": 1,200 x other fields",
        ),
        ({"units": [replace(WAITS, counts=replace(UNIT, failures=3))]}, "Passes has raised 3 times"),
        ({"units": [replace(WAITS, counts=replace(UNIT, failures=1))]}, "Passes has raised once"),
        ({"vitals": replace(VITALS, unlisted=5)}, "had to let 5 entries go"),
    ],
)
def test_what_a_person_should_look_at(changes: dict[str, object], message: str) -> None:
    assert message in "\n".join(concerns([replace(STATUS, **changes)]))


def test_nothing_is_reported_where_all_is_well() -> None:
    sound = [replace(WAITS, counts=replace(UNIT, failures=0))]
    assert concerns([replace(STATUS, missing=[], units=sound, vitals=replace(VITALS, nodes={"b": ""}))]) == []


def test_names_are_whole_and_columns_of_nothing_go() -> None:
    screen = Console(file=io.StringIO(), width=60)
    name = "Detectors.WithALongName.ThatIsWorthReading"
    screen.print(table(["name", "count", "late", "failed"], [[name, "1", "0", ""], ["B", "2", "0", ""]], names=1))
    out = screen.file.getvalue()  # type: ignore[attr-defined]
    assert name in out
    assert "late" not in out
    assert "failed" not in out


def test_times_are_for_people() -> None:
    screen = Console(file=io.StringIO(), width=200)
    screen.print(pictured(MeshStatus([STATUS], ["node c at tcp://1 does not answer within 1 s"])))
    out = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "2s" in out and "4s" in out
    assert "000000" not in out
    assert "node c at tcp://1 does not answer" in out
