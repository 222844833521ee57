"""The generated match: the same for a seed, and like football."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from soccer_situations import BALL

from detectors.soccer.events import Position
from detectors.soccer.setup import setup_of
from middleware.model.event import ORDER
from scenarios.soccer.match import Happening, events, position_batches, positions, truth
from scenarios.soccer.match.physics import STEP, Ball, Body
from scenarios.soccer.match.play import TICK, Match

SEED = 16
SECONDS = 10


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return positions(SEED, SECONDS)["soccer.Position"]


@pytest.fixture(scope="module")
def match() -> Match:
    played = Match(SEED)
    played.play(120)
    return played


@pytest.fixture(scope="module")
def dozen() -> list[list[Happening]]:
    return [truth(seed, 65) for seed in range(12)]


def column(table: pa.Table, name: str, sensor: int) -> np.ndarray:
    return table.filter(pa.compute.equal(table["sensor"], sensor))[name].to_numpy()


def test_columns_are_those_of_position(table):
    assert table.column_names == [name for name in Position.__struct_fields__ if name != "level"]
    assert {name: str(table.schema.field(name).type) for name in ("sensor", "x", "ts", "id", "source")} == {
        "sensor": "int64", "x": "double", "ts": "int64", "id": "int64", "source": "string",
    }  # fmt: skip


def test_as_many_positions_as_in_the_paper(table):
    """144 transmitters, 141 at 200 Hz and 3 balls at 2,000 Hz: 2.2 million in 65 s."""
    assert table.num_rows == SECONDS * 34_200
    counts = dict(zip(*np.unique(table["sensor"].to_numpy(), return_counts=True), strict=True))
    assert counts == {sensor: SECONDS * (2_000 if sensor >= 142 else 200) for sensor in range(1, 145)}


def test_sources_are_numbered_and_named(table):
    for sensor in (1, 88, 100, 140, 141, BALL, 144):
        ts = column(table, "ts", sensor)
        assert np.array_equal(column(table, "id", sensor), np.arange(len(ts)))
        assert set(column(table, "source", sensor)) == {f"sensor-{sensor}"}
        assert (np.diff(ts) > 0).all()
    assert table["ts"].to_numpy()[[0, -1]].tolist() == sorted(table["ts"].to_numpy())[:: table.num_rows - 1]


def test_transmitters_are_not_aligned_and_jitter(table):
    phases = {int(column(table, "ts", sensor)[7]) % 5_000_000 for sensor in range(1, 142)}
    assert len(phases) == 141
    assert len(set(np.diff(column(table, "ts", 3)))) > 1000


def test_same_seed_same_bytes_other_seed_other_match(table):
    assert positions(SEED, SECONDS)["soccer.Position"].equals(table)
    assert not positions(SEED + 1, 1)["soccer.Position"].equals(positions(SEED, 1)["soccer.Position"])


def test_a_longer_match_begins_with_the_shorter_one(table):
    longer = positions(SEED, SECONDS + 1.5)["soccer.Position"]
    assert longer.num_rows == pytest.approx(11.5 * 34_200, abs=300)
    assert longer.slice(0, table.num_rows).equals(table)
    short = positions(SEED, 2.25)["soccer.Position"]
    assert short.equals(table.slice(0, short.num_rows))
    assert short["ts"].to_numpy()[-1] < 2.25e9 <= table["ts"].to_numpy()[short.num_rows]
    story = truth(SEED, 60)
    assert truth(SEED, 30) == [happening for happening in story if happening.end < 30e9]


def test_batches_and_events_are_the_same_as_the_table(table):
    assert pa.concat_tables(position_batches(SEED, SECONDS)).equals(table)
    few = list(events(SEED, 0.05))
    assert few == sorted(few, key=ORDER)
    assert [event.x for event in few] == table["x"].to_pylist()[: len(few)]
    assert (few[5].source, few[5].id, few[5].ts) == tuple(table[name][5].as_py() for name in ("source", "id", "ts"))


def test_velocity_and_acceleration_belong_to_the_positions(table):
    """Summed up over 0.1 s (limbs) or 0.05 s (ball), rates give the change: to 0.25 m, and 0.8 m/s of at most 10."""
    for sensor, stride in ((9, 20), (41, 20), (BALL, 100)):
        ts = column(table, "ts", sensor) * 1e-9
        for position, speed in (("x", "vx"), ("y", "vy"), ("vx", "ax"), ("vy", "ay")):
            whole, rate = column(table, position, sensor), column(table, speed, sensor)
            summed = np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2 * np.diff(ts))])
            drift = (whole - whole[0] - summed)[stride::stride]
            assert np.abs(np.diff(drift)).max() < (0.8 if position.startswith("v") else 0.25), (sensor, position)


def test_players_run_like_players(match):
    bodies = np.array(match.body_track).reshape(-1, 25, 6)[:, :22]
    speed, strength = np.hypot(bodies[:, :, 2], bodies[:, :, 3]), np.hypot(bodies[:, :, 4], bodies[:, :, 5])
    assert 5.0 < speed.max() < 8.0
    assert strength.max() <= Body.STRENGTH + 1e-6
    assert 0.5 < speed.mean() < 4.0
    assert np.abs(bodies[:, :, 0]).max() < 57
    assert np.abs(bodies[:, :, 1]).max() < 38
    step = np.diff(bodies[:, :, :2], axis=0) / TICK
    assert np.abs(step - bodies[:-1, :, 2:4]).max() < Body.STRENGTH * TICK  # nobody jumps


def test_the_ball_flies_like_a_ball(match):
    track = np.array(match.ball_track).reshape(-1, 9)
    speed = np.sqrt((track[:, 3:6] ** 2).sum(axis=1))
    assert 15 < speed.max() < 40
    assert track[:, 2].min() > -0.2
    assert 1.0 < track[:, 2].max() < 20
    assert np.abs(np.diff(track[:, :3], axis=0)).max() < 40 * STEP  # it does not jump


def test_a_free_ball_rolls_to_rest_and_a_falling_one_bounces_lower():
    rolling = Ball()
    rolling.vx = 6.0
    for _ in range(round(10 / STEP)):
        rolling.step()
    assert rolling.speed == 0
    assert 10 < rolling.x < 20  # v^2 / (2 * 0.9) without drag: 20 m
    falling, heights = Ball(), []
    falling.z = 2.0
    for _ in range(round(2 / STEP)):
        falling.step()
        heights.append(falling.z)
    assert heights.index(min(heights)) == pytest.approx(0.64 / STEP, abs=10)  # sqrt(2 * 2 m / g)
    assert max(heights[round(0.7 / STEP) :]) == pytest.approx(0.55**2 * 2.0, abs=0.1)


def test_there_is_football_in_any_half_minute(dozen):
    """Several passes and touches always, a shot usually; a shot always within 65 s, for these seeds."""
    halves = [[h.kind for h in story if h.end < 30e9] for story in dozen]
    assert all(kinds.count("pass") >= 3 and kinds.count("touch") >= 10 for kinds in halves)
    assert sum("shot" in kinds for kinds in halves) >= 8
    assert all("shot" in [h.kind for h in story] for story in dozen)


def test_all_of_football_happens(dozen):
    kinds = [happening.kind for story in dozen for happening in story]
    assert set(kinds) == {
        "touch", "pass", "failed pass", "interception", "tackle", "shot", "block", "save", "miss", "goal", "out", "restart",
    }  # fmt: skip
    assert {h.on_target for story in dozen for h in story if h.kind == "shot"} == {True, False}
    assert 0.6 < kinds.count("pass") / (kinds.count("pass") + kinds.count("failed pass")) < 0.95


def test_truth_agrees_with_the_positions(table):
    """At each touch the ball's acceleration peaks, and the player who did it is at the ball."""
    setup = setup_of("generated")
    ts = column(table, "ts", BALL)
    size = np.sqrt(sum(column(table, axis, BALL) ** 2 for axis in ("ax", "ay", "az")))
    touches = [happening for happening in truth(SEED, SECONDS - 0.1) if happening.kind == "touch"]
    assert len(touches) >= 4
    for touch in touches:
        around = (ts >= touch.ts) & (ts < touch.ts + 40_000_000)
        assert size[around].max() > 55
        limbs = setup.players[touch.player - 1].sensors
        gaps = []
        for axis in ("x", "y"):
            ball = np.interp(touch.ts, ts, column(table, axis, BALL))
            body = np.mean([np.interp(touch.ts, column(table, "ts", n), column(table, axis, n)) for n in limbs])
            gaps.append(ball - body)
        assert np.hypot(*gaps) < 1.4, touch


def test_passes_run_from_touch_to_touch():
    story = truth(SEED, 60)
    touches = {(h.player, h.ts) for h in story if h.kind == "touch"}
    passes = [h for h in story if h.kind == "pass"]
    assert len(passes) > 5
    for done in passes:
        assert (done.player, done.ts) in touches
        assert (done.other, done.end) in touches
        assert (done.player <= 11) == (done.other <= 11)
        assert not any(done.ts < ts < done.end for _, ts in touches)
    assert all(one.end <= other.end for one, other in pairwise(story))
