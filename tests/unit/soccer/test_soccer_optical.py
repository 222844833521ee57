"""What cameras see of a ball: contacts out of noisy places, and what the hierarchy makes of a match that only cameras saw."""

import numpy as np
import pytest

from detectors.soccer.ball_play.ball import HIT
from detectors.soccer.soccer_hierarchy import soccer
from middleware.model.event import ORDER
from middleware.recordings.sport.motion import ball_motions
from middleware.runtime.engine import run
from scenarios.soccer.match.optical import FRAME, seen
from scenarios.soccer.match.variety import Variety
from scenarios.soccer.scores import generated
from scenarios.soccer.scoring import needed


def track(speeds, noise=0.0, seed=1):
    """A ball along x with this speed (m/s) in each frame; places off by ``noise``."""
    x = np.cumsum(np.asarray(speeds) * FRAME * 1e-9)
    places = np.column_stack([x, np.zeros(len(x)), np.zeros(len(x))])
    ts = np.arange(len(x), dtype=np.int64) * FRAME
    return ts, places + np.random.default_rng(seed).normal(0.0, noise, places.shape)


def hits(found):
    return np.flatnonzero(np.linalg.norm(found[:, 6:], axis=1) >= HIT).tolist()


def test_a_kick_is_one_contact_with_the_speeds_before_and_after():
    ts, places = track([4.0] * 20 + [15.0] * 20)
    found = ball_motions(ts, places, 1.5 * FRAME)
    assert hits(found) == [19], "the last place before the ball is faster"
    assert found[5:19, 3] == pytest.approx(4.0) and found[19:, 3] == pytest.approx(15.0), "nothing is averaged across it"
    assert found[19, 6] == pytest.approx((15.0 - 4.0) / 0.04)


def test_noise_alone_is_no_contact():
    """Differences of differences of the same places are beyond the threshold most of the time."""
    ts, places = track([6.0] * 500, noise=0.03)
    assert len(hits(ball_motions(ts, places, 1.5 * FRAME))) <= 2
    naive = np.diff(places, 2, axis=0) / (FRAME * 1e-9) ** 2
    assert np.mean(np.linalg.norm(naive, axis=1) >= HIT) > 0.5


def test_kicks_are_found_in_noise_within_a_frame():
    speeds = [5.0 if number // 25 % 2 else 12.0 for number in range(500)]
    ts, places = track(speeds, noise=0.03)
    found = np.array(hits(ball_motions(ts, places, 1.5 * FRAME)))
    kicks = np.arange(24, 499, 25)
    assert all(np.min(np.abs(found - kick)) <= 1 for kick in kicks)
    assert len(found) <= len(kicks) + 2


def test_nothing_is_told_across_a_gap():
    ts, places = track([5.0] * 20)
    ts[10:] += 10 * FRAME
    places[10:, 0] += 30.0
    found = ball_motions(ts, places, 1.5 * FRAME)
    assert hits(found) == [] and found[:, 3] == pytest.approx(5.0)
    alone = ball_motions(ts[:1], places[:1], 1.5 * FRAME)
    assert alone[0, 3:].tolist() == [0.0] * 6


def test_a_match_that_cameras_saw_is_told_with_its_players():
    """A seed by which nothing was set: passes by player and receiver, shots and goals by player, within 0.2 s."""
    events, story = seen(22, 60.0, Variety(22))
    found = generated(run(sorted(events, key=ORDER), needed(soccer("tracab"))).finals, story)
    assert found["pass"].true >= 5 and found["pass"].f1 >= 0.6, found["pass"]
