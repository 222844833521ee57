"""Matches in the files of providers, written here in their public formats, and read by kloppy."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slackline import Detector, Event, run
from typer.testing import CliRunner

from detectors.soccer.events import Position
from detectors.soccer.setup import TRACAB_AWAY, TRACAB_BALL
from middleware.cli.main import application
from middleware.model.errors import TraceError
from middleware.model.event import ORDER, EventTypes
from middleware.recordings.files.recording_reading import read_events
from middleware.recordings.readers import open_recording
from middleware.recordings.sport.match import AWAY, BALL
from middleware.recordings.sport.motion import motions
from middleware.recordings.sport.providers import PROVIDERS, match_recording
from scenarios.soccer import tracab

FOLDER = Path(os.environ.get("SLACKLINE_DATA", "/nonexistent")) / "tracab"
FRAME = 40_000_000
SECOND = 1_000_000_000

Frame = Mapping[str, tuple[float, ...] | None]
"""Places in metres by the name of the track, such as home_7 and ball."""


class Action(Event):
    """What people saw."""

    namespace = "soccer"

    kind: str
    result: str
    team: str
    player: int
    receiver: int
    x: float
    y: float
    placed: bool


class Fast(Event):
    """A sensor that moves faster than a sprinter."""

    sensor: int
    speed: float


class Sprints(Detector):
    """Sees what moves at more than 5 m/s."""

    subscribes, publishes = (Position,), (Fast,)

    def on_event(self, event: Position) -> Fast | None:
        speed = round(float(np.hypot(event.vx, event.vy)), 3)
        return Fast(event.sensor, speed, ts=event.ts) if speed > 5 else None


def write_tracab(
    folder: Path, halves: Mapping[int, Sequence[Frame]], dead: Iterable[int] = (), size: str = "10500x6800"
) -> list[Path]:
    """A match as TRACAB's .dat (cm, 25 frames a second) and its XML; ``halves``: their frames, by the number of the first."""
    lines, phases = [], ""
    for number, (first, frames) in enumerate(halves.items(), 1):
        phases += f"<Phase{number}StartFrame>{first}</Phase{number}StartFrame>"
        phases += f"<Phase{number}EndFrame>{first + len(frames) - 1}</Phase{number}EndFrame>"
        for frame_number, frame in enumerate(frames, first):
            players = ""
            for track, place in frame.items():
                side, _, shirt = track.partition("_")
                if place is not None and side != "ball":
                    players += f"{int(side == 'home')},{shirt},{shirt},{round(place[0] * 100)},{round(place[1] * 100)},0.00;"
            ball = ",".join(str(round(each * 100)) for each in frame["ball"] or ())
            lines.append(f"{frame_number}:{players}:{ball},0.00,H,{'Dead' if frame_number in dead else 'Alive'};:\n")
    for number in range(len(halves) + 1, 6):
        phases += f"<Phase{number}StartFrame>0</Phase{number}StartFrame><Phase{number}EndFrame>0</Phase{number}EndFrame>"
    long, _, short = size.partition("x")
    about = f"<GameID>1</GameID><Kickoff>2024-01-01 15:00:00</Kickoff><FrameRate>25</FrameRate>{phases}"
    (folder / "match.xml").write_text(
        f"<root>{about}<PitchLongSide>{long}</PitchLongSide><PitchShortSide>{short}</PitchShortSide></root>"
    )
    (folder / "match.dat").write_text("".join(lines))
    return [folder / "match.xml", folder / "match.dat"]


KEEPERS = {"home_1": (-50.0, 0.0), "away_1": (50.0, 0.0)}
SWAPPED = {"home_1": (50.0, 0.0), "away_1": (-50.0, 0.0)}


@pytest.fixture
def two_halves(tmp_path: Path) -> list[Path]:
    """Player 7 runs at 10 m/s, from the middle to the right and, with the ends changed, to the left; the break takes 4 s."""
    first = [{**KEEPERS, "home_7": (0.4 * at, 5.01), "ball": (1.0 * at, -2.5, 0.3)} for at in range(4)]
    second = [{**SWAPPED, "home_7": (-0.4 * at, -5.01), "away_19": None, "ball": (0.0, 0.0, 0.0)} for at in range(3)]
    return write_tracab(tmp_path, {100: first, 204: second}, dead=(101, 102))


def of(provider: str, files: Sequence[Path], kind: type[Event] = Position) -> list:
    events, read = read_events(match_recording(provider, files), EventTypes([kind]))
    assert read.bad.count == 0
    return events


def test_numbers_are_those_of_the_setup():
    assert (AWAY, BALL) == (TRACAB_AWAY, TRACAB_BALL)


def test_halves_follow_each_other_and_the_home_team_always_plays_to_the_right(two_halves: list[Path]):
    runs = [event for event in of("tracab", two_halves) if event.sensor == 7]
    starts = [0, 1, 2, 3, 104, 105, 106]
    assert [event.ts for event in runs] == [frame * FRAME for frame in starts]
    assert [(event.x, event.y, event.z) for event in runs] == [(x, 5.01, 0.0) for x in (0.0, 0.4, 0.8, 1.2, 0.0, 0.4, 0.8)]
    assert [event.vx for event in runs] == pytest.approx([0, 10, 10, 10, 0, 10, 10])
    assert [event.ax for event in runs] == pytest.approx([0, 250, 0, 0, 0, 250, 0])
    assert [event.id for event in runs] == list(range(7)) and {event.source for event in runs} == {"optical-007"}


def test_a_dead_ball_is_silent_until_just_before_play_resumes_but_its_motion_continues(tmp_path: Path):
    frames = [{**KEEPERS, "home_7": (0.4 * at, 5.01), "ball": (1.0 * at, -2.5, 0.3)} for at in range(20)]
    ball = [e for e in of("tracab", write_tracab(tmp_path, {100: frames}, dead=range(101, 119))) if e.sensor == BALL]
    assert [(event.ts // FRAME, event.x, event.z) for event in ball] == [(at, at, 0.3) for at in (0, *range(7, 20))]
    assert ball[1].vx == pytest.approx(25.0) and ball[1].ax == pytest.approx(0.0)


@pytest.mark.skipif(not FOLDER.exists(), reason="no tracab recording: set SLACKLINE_DATA")
def test_a_real_match_reads_as_the_reader_of_its_own_format_does(tmp_path: Path):
    columns = pq.read_table(FOLDER / "tracking.parquet").slice(0, 250).to_pydict()
    tracks = [name.removesuffix("_x") for name in columns if name.endswith("_x") and not name.startswith("ball")]
    frames, dead = [], []
    for row in range(250):
        places = {track: (columns[f"{track}_x"][row], columns[f"{track}_y"][row]) for track in tracks}
        seen: dict[str, tuple[float, ...] | None] = {t: None if None in place else place for t, place in places.items()}
        frames.append(seen | {"ball": tuple(columns[f"ball_{axis}"][row] for axis in "xyz")})
        if columns["ball_status"][row] != "alive":
            dead.append(1_000 + row)
    files = write_tracab(tmp_path, {1_000: frames}, dead, "10490x6780")
    end = 235 * FRAME  # the ball comes with up to half a second of look-ahead
    expected = [event for event in tracab.positions(FOLDER) if event.ts < end]
    assert [event for event in sorted(of("tracab", files), key=ORDER) if event.ts < end] == expected


def write_metrica(folder: Path) -> list[Path]:
    """Two players and the ball in Metrica's CSV: shares of the pitch from the top left, one file a team."""
    rows = [("0.25", "0.5"), ("NaN", "NaN"), ("0.26", "0.5")]
    files = []
    for side, shirt, flip in (("Home", 11, False), ("Away", 25, True)):
        lines = [f",,,{side},,,", f",,,{shirt},,,", f"Period,Frame,Time [s],Player{shirt},,Ball,"]
        for frame, (x, y) in enumerate(rows, 1):
            x = f"{1 - float(x):.2f}" if flip and x != "NaN" else x
            lines.append(f"1,{frame},{frame / 25:.2f},{x},{y},0.5,0.25")
        files.append(folder / f"{side}.csv")
        files[-1].write_text("\n".join(lines) + "\n")
    return files


def test_shares_of_a_pitch_become_metres_of_one_of_usual_size_with_a_warning(tmp_path: Path):
    files = write_metrica(tmp_path)
    found = of("metrica", files)
    assert [(e.ts, e.x, e.y, e.vx) for e in found if e.sensor == 11] == [
        (FRAME, -26.25, 0.0, 0.0),
        (3 * FRAME, -25.2, 0.0, 0.0),
    ]
    assert {e.x for e in found if e.sensor == 125} == {26.25, 25.2}
    assert {(e.x, e.y) for e in found if e.sensor == BALL} == {(0.0, -17.0)}  # kloppy turns Metrica's y around
    assert "105 m" in match_recording("metrica", files).warnings[0]


def write_statsbomb(folder: Path) -> list[Path]:
    """A pass that arrives, and one by the other team that does not, in StatsBomb's JSON: yards-like units, 120 by 80."""
    teams = [{"id": 1, "name": "Home"}, {"id": 2, "name": "Away"}]
    people = {1: [(10, 4), (11, 8)], 2: [(20, 4), (21, 9)]}

    def event(number: int, kind: tuple[int, str], team: int, time: str, period: int = 1, **more: object) -> dict[str, object]:
        common = {"id": f"e{number}", "index": number, "period": period, "timestamp": f"00:00:{time}", "minute": 0, "second": 0}
        named = {
            "type": {"id": kind[0], "name": kind[1]},
            "team": teams[team - 1],
            "possession": 1,
            "possession_team": teams[0],
        }
        return {**common, **named, "play_pattern": {"id": 1, "name": "Regular Play"}, **more}

    def lineup(team: int) -> dict[str, object]:
        players = [
            {
                "player": {"id": person, "name": f"P{person}"},
                "position": {"id": 1, "name": "Goalkeeper"},
                "jersey_number": shirt,
            }
            for person, shirt in people[team]
        ]
        return {"formation": 442, "lineup": players}

    def person(number: int) -> dict[str, object]:
        return {"id": number, "name": f"P{number}"}

    there: dict[str, object] = {
        "end_location": [90.0, 20.0],
        "length": 10.0,
        "angle": 0.0,
        "height": {"id": 1, "name": "Ground Pass"},
    }
    arrived = {**there, "recipient": person(11)}
    missed = {"outcome": {"id": 9, "name": "Incomplete"}}
    found = [
        event(1, (35, "Starting XI"), 1, "00.000", tactics=lineup(1)),
        event(2, (35, "Starting XI"), 2, "00.000", tactics=lineup(2)),
        event(3, (18, "Half Start"), 1, "00.000"),
        event(4, (30, "Pass"), 1, "02.500", player=person(10), location=[60.5, 40.0], **{"pass": arrived}),
        event(5, (30, "Pass"), 2, "04.000", player=person(20), location=[90.0, 20.0], **{"pass": {**there, **missed}}),
        event(6, (34, "Half End"), 1, "10.000"),
    ]
    names = [
        {"team_id": team["id"], "team_name": team["name"], "lineup": [
            {"player_id": who, "player_name": f"P{who}", "jersey_number": shirt} for who, shirt in people[int(str(team["id"]))]
        ]}
        for team in teams
    ]  # fmt: skip
    (folder / "events.json").write_text(json.dumps(found))
    (folder / "lineups.json").write_text(json.dumps(names))
    return [folder / "events.json", folder / "lineups.json"]


def test_what_people_saw_is_read_with_who_did_it_where(tmp_path: Path):
    passes = [action for action in of("statsbomb", write_statsbomb(tmp_path), Action) if action.kind == "pass"]
    ours, theirs = passes
    assert (ours.ts, ours.team, ours.player, ours.receiver, ours.result) == (2_500_000_000, "home", 4, 8, "complete")
    assert (theirs.ts, theirs.team, theirs.player, theirs.receiver, theirs.result) == (4 * SECOND, "away", 104, 0, "incomplete")
    assert ours.placed and abs(ours.x) < 1 and abs(ours.y) < 1
    assert theirs.x == pytest.approx(-25, abs=3) and theirs.y < -10  # they play to the left, and saw it from their side


def test_a_recording_of_a_match_runs_through_detectors_as_any_other(two_halves: list[Path]):
    found = run(open_recording(two_halves, reader="tracab"), [Sprints()]).finals["Sprints"]
    assert [(event.sensor, event.ts // FRAME) for event in found if event.sensor == 7] == [
        (7, at) for at in (1, 2, 3, 105, 106)
    ]
    with pytest.raises(TraceError, match="a mapping is for tables"):
        run(open_recording(two_halves, reader="tracab"), [Sprints()], mapping={"type": "X"})


NODES = """
name = "sprints"
detectors = ["sprints:Sprints"]

[recording]
files = ["match.xml", "match.dat"]
reader = "tracab"

[[nodes]]
name = "here"
detectors = ["*"]
"""
SPRINTS = """
from detectors.soccer.events import Position
from slackline import Detector, Event

class Sprint(Event):
    speed: float

class Sprints(Detector):
    subscribes, publishes = (Position,), (Sprint,)

    def on_event(self, event):
        return Sprint(event.vx, ts=event.ts) if event.sensor == 7 and event.vx > 9 else None
"""


def test_a_scenario_plays_a_match_and_a_query_asks_it(two_halves: list[Path], tmp_path: Path):
    (tmp_path / "nodes.toml").write_text(NODES)
    (tmp_path / "sprints.py").write_text(SPRINTS)
    text = "EVENT SEQ(Sprint a, Sprint b) WITHIN 45 milliseconds RETURN Going(a.speed AS speed)"
    result = CliRunner().invoke(application(), ["query", text, str(tmp_path), "--results", str(tmp_path / "going.jsonl")])
    assert result.exit_code == 0, result.output
    going = [json.loads(line) for line in (tmp_path / "going.jsonl").read_text().splitlines()]
    assert [each["ts"] // FRAME for each in going] == [2, 3, 106]


def test_files_that_are_something_else_are_reported(two_halves: list[Path], tmp_path: Path):
    with pytest.raises(TraceError, match=r"tracab reads 2 files: meta_data, raw_data, in this order; 1 given"):
        match_recording("tracab", two_halves[:1])
    with pytest.raises(TraceError, match=r"cannot read this as tracab \(meta_data: .*match.dat, raw_data: .*match.xml\)"):
        of("tracab", two_halves[::-1])
    (tmp_path / "match.dat").write_text("\n")
    with pytest.warns(UserWarning, match="orientation"), pytest.raises(TraceError, match="finds nothing in it as tracab"):
        of("tracab", two_halves)


def test_a_missing_kloppy_is_reported_with_what_to_install(two_halves: list[Path], monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "kloppy"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kloppy", None)
    with pytest.raises(TraceError, match=r"needs kloppy.*; .*\[kloppy\]"):
        of("tracab", two_halves)


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_provider_is_read_by_a_function_that_kloppy_has(name: str):
    module, function, files, _ = PROVIDERS[name]
    arguments = inspect.signature(getattr(import_module(f"kloppy.{module}"), function)).parameters
    needed = [each.name for each in arguments.values() if each.default is inspect.Parameter.empty]
    assert needed == list(files) and "coordinates" in arguments


@given(st.lists(st.tuples(st.integers(1, 3), st.floats(-50, 50)), max_size=30))
def test_motions_are_those_of_one_place_after_the_other(steps: list[tuple[int, float]]):
    ts, places, at = [], [], 0
    for step, x in steps:
        at += step
        ts.append(at * FRAME)
        places.append((x, -x, 0.0))
    rows = []
    for number, place in enumerate(places):
        known = number > 0 and ts[number] - ts[number - 1] <= 1.5 * FRAME
        velocity = tuple((a - b) * 25.0 for a, b in zip(place, places[number - 1], strict=True)) if known else (0.0,) * 3
        change = tuple((a - b) * 25.0 for a, b in zip(velocity, rows[-1][3:6], strict=True)) if known else (0.0,) * 3
        rows.append((*place, *velocity, *change))
    found = motions(np.array(ts, np.int64), np.array(places, float).reshape(-1, 3), 1.5 * FRAME)
    assert [tuple(row) for row in found.tolist()] == rows
