"""The real recordings of the DEBS 2013 Grand Challenge, where they are at hand."""

import csv
import os
from pathlib import Path

import pytest

from detectors.soccer.events import Kick, PlayerHitsBall, Position
from detectors.soccer.soccer_hierarchy import soccer
from middleware.model.event import Event
from middleware.testing.oracle import oracle

DATA = Path(os.environ.get("SLACKLINE_DATA", "/nonexistent")) / "debs2013"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"no real recordings: {DATA} is not there (set SLACKLINE_DATA)")


def recorded(name: str) -> list[Position]:
    """A slice in SI units: ps, mm, um/s and um/s2 with directions in 1/10,000 come to ns, m, m/s and m/s2."""
    positions, numbers = [], {}
    with (DATA / name).open() as file:
        for row in csv.reader(file):
            sensor, ts, x, y, z, speed, acceleration, *directions = map(int, row)
            v = [speed * 1e-10 * part for part in directions[:3]]
            a = [acceleration * 1e-10 * part for part in directions[3:]]
            number = numbers[sensor] = numbers.get(sensor, 0) + 1
            stamp = {"ts": ts // 1000, "id": number, "source": f"sensor-{sensor}"}
            positions.append(Position(sensor, x / 1000, y / 1000, z / 1000, *v, *a, **stamp))
    return positions


@pytest.fixture(scope="module")
def second_half() -> tuple[int, dict[str, list[Event]]]:
    positions = recorded("second-half-0.82s.csv")
    return min(event.ts for event in positions), oracle(positions, soccer("debs2013-second-half"))


def test_ball_8_is_hit_after_597_ms(second_half):
    start, derived = second_half
    (hit,) = derived["BallHits"]
    assert (hit.ball, (hit.ts - start) // 1_000_000) == (8, 597)


def test_ball_8_is_the_one_in_play(second_half):
    assert [event.ball for event in second_half[1]["BallsInPlay"]] == [8]


def test_the_player_with_sensors_63_and_64_hit_it(second_half):
    _, derived = second_half
    (hit,), (kick,) = derived["PlayerHits"], derived["Kicks"]
    assert isinstance(hit, PlayerHitsBall)
    assert isinstance(kick, Kick)
    wearer = next(player for player in soccer_players() if 63 in player.sensors)
    assert (hit.player, hit.team) == (kick.player, kick.team) == (wearer.player, "B")
    assert 1.0 < kick.speed < 3.0  # the ball came at 4 m/s and was taken down
    assert kick.ts == hit.ts


def soccer_players():
    from detectors.soccer.setup import setup_of

    return setup_of("debs2013-second-half").players


@pytest.mark.parametrize("name", ["kick-off-0.37s.csv", "pre-game-5.6s.csv"])
def test_the_other_slices_run_through(name):
    derived = oracle(recorded(name), soccer("debs2013"))
    assert len({event.player for event in derived["PlayerMotions"]}) >= 12
    assert derived["BallHits"] == []
