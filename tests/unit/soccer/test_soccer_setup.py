"""Setups: by name, from a table, from a file."""

import pytest
from soccer_situations import run

from detectors.soccer.ball_play.ball import BallHits
from detectors.soccer.setup import SETUPS, setup_of
from detectors.soccer.soccer_hierarchy import soccer
from middleware.model.errors import ScenarioError
from middleware.model.identity import levels

TABLE = {
    "name": "back yard",
    "pitch": {"x_min": 0, "x_max": 20, "y_min": 0, "y_max": 10},
    "goals": [
        {"team": "us", "along": "y", "line": 0, "low": 4, "high": 6},
        {"team": "them", "along": "y", "line": 20, "low": 4, "high": 6},
    ],
    "players": [{"player": 1, "team": "us", "sensors": [1, 2]}, {"player": 2, "team": "them", "sensors": [3]}],
    "balls": [9],
}


@pytest.mark.parametrize("name", sorted(SETUPS))
def test_every_sensor_has_one_wearer(name):
    setup = setup_of(name)
    worn = [sensor for player in setup.players for sensor in player.sensors] + [*setup.balls, *setup.officials]
    assert len(worn) == len(set(worn))
    teams = {"home", "away"} if name == "tracab" else {"A", "B"}
    assert {goal.team for goal in setup.goals} == {player.team for player in setup.players} == teams
    assert sorted(player.team for player in setup.players if player.keeper) == sorted(teams)


def test_the_setup_of_debs_2013_agrees_with_its_metadata():
    setup = setup_of("debs2013")
    assert setup.balls == (4, 8, 10, 12)
    assert len([sensor for player in setup.players for sensor in player.sensors]) == 36
    assert {player.team for player in setup.players if 88 in player.sensors} == {"A"}
    assert [player.player for player in setup.players if 99 in player.sensors] == [9]


def test_from_a_table_and_from_a_file(tmp_path):
    assert setup_of(TABLE).players[0].sensors == (1, 2)
    file = tmp_path / "yard.toml"
    file.write_text(
        'name = "back yard"\nballs = [9]\n[pitch]\nx_min = 0\nx_max = 20\ny_min = 0\ny_max = 10\n'
        '[[goals]]\nteam = "us"\nalong = "y"\nline = 0\nlow = 4\nhigh = 6\n'
        '[[goals]]\nteam = "them"\nalong = "y"\nline = 20\nlow = 4\nhigh = 6\n'
        '[[players]]\nplayer = 1\nteam = "us"\nsensors = [1, 2]\n[[players]]\nplayer = 2\nteam = "them"\nsensors = [3]\n'
    )
    assert setup_of(str(file)) == setup_of(TABLE)
    assert len(soccer(TABLE)) == len(soccer())


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("champions league", "no soccer setup 'champions league': use debs2013, debs2013-second-half, generated"),
        ("nowhere.toml", "cannot read the soccer setup nowhere.toml"),
        (TABLE | {"balls": ["round"]}, r"soccer setup .*balls"),
        (TABLE | {"balls": [3]}, r"sensors \[3\] are given to two wearers"),
        (TABLE | {"goals": TABLE["goals"][:1]}, "goals must be two"),
        ({"name": "empty"}, "missing required field"),
    ],
)
def test_what_is_wrong_is_said(setting, message):
    with pytest.raises(ScenarioError, match=message):
        BallHits(setting)


def test_the_hierarchy_has_at_least_twelve_detectors_on_six_levels():
    level = levels(soccer())
    assert len(level) >= 12
    assert set(level.values()) >= set(range(1, 9))
    assert level["Passes"] == level["ShotOutcomes"] == 7


def test_only_two_detectors_read_raw_positions():
    by_name = soccer()
    assert [name for name in by_name if levels(by_name)[name] == 1] == ["Motions", "BallHits"]


@pytest.mark.parametrize(
    ("name", "results"), [("BallHits", 4), ("Shots", 2), ("Interceptions", 1), ("DoublePasses", 2), ("PassSequences", 4)]
)
def test_examples_for_the_conformance_suite_lead_to_results(name, results):
    assert len(run(name, soccer()[name].examples())) == results  # type: ignore[attr-defined]


def test_the_documentation_names_the_level_each_detector_has():
    by_name = soccer()
    documented = {
        name: int((detector.__doc__ or "").split(".")[0].removeprefix("Level ")) for name, detector in by_name.items()
    }
    assert documented == levels(by_name)
