"""Optical tracking: frames into positions, and the whole hierarchy against labels that people set on a real match."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from detectors.soccer.events import Pass, Position
from detectors.soccer.soccer_hierarchy import soccer
from middleware.model.errors import TraceError
from middleware.model.event import IDENTITY, ORDER
from middleware.testing.oracle import oracle
from scenarios.soccer.labels import LabelledPass, Labels, labelled, labels, tracks_of
from scenarios.soccer.scoring import needed
from scenarios.soccer.tracab import FRAME, positions

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
    assert [event.vx for event in ball] == pytest.approx([10.0, 20.0, 20.0]), "it was kicked in the second frame"
    assert [event.ax for event in ball] == pytest.approx([0.0, 250.0, 0.0])
    assert [(e.ts, e.x, e.vx) for e in found if e.sensor == 107] == [(FRAME, -5.0, 0.0), (2 * FRAME, -5.1, pytest.approx(-2.5))]
    assert {event.sensor for event in found} == {7, 107, 200}


def test_positions_come_in_total_order_each_once(three_frames: Path):
    found = list(positions(three_frames))
    assert found == sorted(found, key=ORDER)
    assert len(set(map(IDENTITY, found))) == len(found) == 8
    assert all(type(event) is Position for event in found)


def test_a_dead_ball_is_silent_until_half_a_second_before_play_goes_on(tmp_path: Path):
    frames = 20
    x, status = [float(number) for number in range(frames)], ["alive"] * 2 + ["dead"] * 16 + ["alive"] * 2
    still = [0.0] * frames
    found = list(positions(tracking(tmp_path, ball_x=x, ball_y=still, ball_z=still, ball_status=status)))
    assert [event.ts // FRAME for event in found] == [0, 1, *range(18 - 12, frames)]
    assert all(event.vx == pytest.approx(25.0) for event in found), "its motion continues meanwhile"


def test_what_is_no_tracking_is_told_so(tmp_path: Path):
    with pytest.raises(TraceError, match="cannot read"):
        list(positions(tmp_path))
    pq.write_table(pa.table({"frame": [1]}), tmp_path / "tracking.parquet")
    with pytest.raises(TraceError, match="no column ball_status, ball_x"):
        list(positions(tmp_path))
    (tmp_path / "tracking.parquet").write_text("not a table")
    with pytest.raises(TraceError, match="cannot read"):
        list(positions(tmp_path))


def write_labels(folder: Path, what: str = "start") -> None:
    """A pass of shirt 20 that arrives at shirt 4, one of shirt 4 that does not and restarts play, and a shot."""
    start = datetime(2020, 1, 1, 15, 0, 2, tzinfo=UTC)
    times = [start + timedelta(seconds=at) for at in (0, 0.08, 3.5, 9)]
    events = {
        "datetime": times,
        "original_event": [what, "pass", "pass", "miss"],
        "databallpy_event": [None, "pass", "pass", "shot"],
        "player_id": [None, "P-20", "P-4", "P-20"],
        "team_id": ["T", "T", "T", "T"],
    }
    pq.write_table(pa.table(events), folder / "events.parquet")
    table = {
        "datetime": times[1:3],
        "team_side": ["home", "home"],
        "team_id": ["T", "T"],
        "player_id": ["P-20", "P-4"],
        "jersey": [20, 4],
        "start_x": [5.1, -5.0],
        "start_y": [1.2, 2.0],
        "outcome_str": ["successful", "unsuccessful"],
        "set_piece": ["no_set_piece", "throw_in"],
    }
    pq.write_table(pa.table(table), folder / "passes.parquet")


def test_labels_count_from_their_own_kick_off(tmp_path: Path):
    write_labels(tmp_path)
    one = LabelledPass(80_000_000, "home", 20, 5.1, 1.2, True, receiver=4)
    other = LabelledPass(3_500_000_000, "home", 4, -5.0, 2.0, False, restart="throw-in")
    assert labels(tmp_path) == Labels([one, other], [(9_000_000_000, "home")])
    write_labels(tmp_path, "goal")
    with pytest.raises(TraceError, match="no event 'start'"):
        labels(tmp_path)


def test_a_shirt_is_the_track_that_stood_where_its_labels_say(three_frames: Path):
    seen = list(positions(three_frames))
    one = LabelledPass(80_000_000, "home", 20, 5.1, 1.2, True)
    assert tracks_of([one], seen) == {("home", 20): 7}
    far, other_side = LabelledPass(0, "home", 20, 40.0, 1.2, True), LabelledPass(0, "away", 9, -5.0, 2.0, True)
    assert tracks_of([far, other_side], seen) == {("away", 9): 107}, "nobody of his team was near the place"


def test_players_and_receivers_are_compared(tmp_path: Path, three_frames: Path):
    write_labels(tmp_path)
    kicked = 1_000_000_000
    right = Pass(7, 8, "home", 200, 9.0, kicked, ts=2 * kicked)
    other_player = Pass(9, 8, "home", 200, 9.0, kicked, ts=2 * kicked)
    for one, players in ((right, 1), (other_player, 0)):
        finals = {"Passes": [one], "Shots": [], "DeadBalls": []}
        found = labelled(finals, tmp_path, 180 * kicked)
        assert found["pass"] is not None and (found["pass"].hits, found["pass"].true) == (1, 2)
        assert found["pass_player"] is not None and found["pass_player"].hits == players
        assert found["shot"] is not None and (found["shot"].found, found["shot"].true) == (0, 1)
        assert found["restart"] is not None and found["restart"].true == 1
        assert found["shot, second half"] is None, "there is nothing to find"


@pytest.mark.skipif(REAL is None, reason="no tracab recording: set SLACKLINE_DATA")
def test_a_real_match():
    """Not the figures of the day: what must not get lost. The labels set no threshold of any detector."""
    assert REAL is not None
    found = labelled(oracle(positions(REAL), needed(soccer("tracab"))), REAL, 180 * 10**9)
    least = {"pass": 0.75, "pass_player": 0.7, "pass_receiver": 0.75, "restart": 0.6}
    for kind, f1 in least.items():
        accuracy = found[kind]
        assert accuracy is not None and accuracy.f1 >= f1, f"{kind}: {accuracy}"
