"""Optical tracking: frames into positions, and the whole hierarchy against labels that people set on a real match."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from detectors.soccer.events import Position
from detectors.soccer.hierarchy import soccer
from middleware.model.errors import TraceError
from middleware.model.event import IDENTITY, ORDER
from middleware.testing.oracle import oracle
from scenarios.soccer.scores import labelled
from scenarios.soccer.tracab import FRAME, LabelledPass, passes, positions

FOLDER = Path(os.environ.get("SLACKLINE_DATA", "/nonexistent")) / "tracab"
REAL = FOLDER if (FOLDER / "tracking.parquet").exists() else None


def tracking(folder: Path, **columns: list[Any]) -> Path:
    rows = max(map(len, columns.values()))
    common = {"frame": list(range(1, rows + 1)), "ball_status": ["alive"] * rows}
    pq.write_table(pa.table(common | columns), folder / "tracking.parquet")
    return folder


@pytest.fixture
def three_frames(tmp_path: Path) -> Path:
    """A ball that starts to roll, a player of each team, of whom one comes into sight later, and a substitute."""
    return tracking(
        tmp_path,
        ball_x=[0.0, 0.4, 1.2],
        ball_y=[0.0, 0.0, 0.0],
        ball_z=[0.1, 0.1, 0.1],
        home_7_x=[5.0, 5.2, 5.4],
        home_7_y=[1.0, 1.0, 1.0],
        away_7_x=[None, -5.0, -5.1],
        away_7_y=[None, 2.0, 2.0],
        home_16_x=pa.nulls(3, pa.float64()),
        home_16_y=pa.nulls(3, pa.float64()),
    )


def test_velocities_and_accelerations_are_differences(three_frames: Path):
    found = list(positions(three_frames))
    ball = [event for event in found if event.sensor == 200]
    assert [event.ts for event in ball] == [0, FRAME, 2 * FRAME]
    assert [event.vx for event in ball] == pytest.approx([0.0, 10.0, 20.0])
    assert [event.ax for event in ball] == pytest.approx([0.0, 250.0, 250.0])
    assert [(e.ts, e.x, e.vx) for e in found if e.sensor == 107] == [(FRAME, -5.0, 0.0), (2 * FRAME, -5.1, pytest.approx(-2.5))]
    assert {event.sensor for event in found} == {7, 107, 200}


def test_positions_come_in_total_order_each_once(three_frames: Path):
    found = list(positions(three_frames))
    assert found == sorted(found, key=ORDER)
    assert len(set(map(IDENTITY, found))) == len(found) == 8
    assert all(type(event) is Position for event in found)


def test_a_dead_ball_is_silent_but_its_motion_goes_on(tmp_path: Path):
    x, status = [0.0, 1.0, 2.0, 3.0], ["alive", "dead", "dead", "alive"]
    still = [0.0] * 4
    found = list(positions(tracking(tmp_path, ball_x=x, ball_y=still, ball_z=still, ball_status=status)))
    assert [(event.ts, event.vx) for event in found] == [(0, 0.0), (3 * FRAME, pytest.approx(25.0))]


def test_what_is_no_tracking_is_told_so(tmp_path: Path):
    with pytest.raises(TraceError, match="cannot read"):
        list(positions(tmp_path))
    pq.write_table(pa.table({"frame": [1]}), tmp_path / "tracking.parquet")
    with pytest.raises(TraceError, match="no column ball_status, ball_x"):
        list(positions(tmp_path))
    (tmp_path / "tracking.parquet").write_text("not a table")
    with pytest.raises(TraceError, match="cannot read"):
        list(positions(tmp_path))


def write_labels(folder: Path, what: str) -> None:
    start = datetime(2020, 1, 1, 15, 0, 2, tzinfo=UTC)
    pq.write_table(pa.table({"datetime": [start], "original_event": [what]}), folder / "events.parquet")
    times, outcomes = [start, start + timedelta(seconds=3.5)], ["successful", "unsuccessful"]
    table = {"datetime": times, "team_side": ["home", "away"], "outcome_str": outcomes}
    pq.write_table(pa.table(table), folder / "passes.parquet")


def test_labels_count_from_their_own_kick_off(tmp_path: Path):
    write_labels(tmp_path, "start")
    assert passes(tmp_path) == [LabelledPass(0, "home", True), LabelledPass(3_500_000_000, "away", False)]
    write_labels(tmp_path, "goal")
    with pytest.raises(TraceError, match="no event 'start'"):
        passes(tmp_path)


@pytest.mark.skipif(REAL is None, reason="no tracab recording: set SLACKLINE_DATA")
def test_passes_of_a_real_match():
    assert REAL is not None
    found = labelled(oracle(positions(REAL), soccer("tracab")), passes(REAL))
    assert found.true == 38
    assert found.f1 >= 0.8, found  # asked for is 0.7
    assert min(found.precision, found.recall) >= 0.75, found
