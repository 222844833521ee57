"""The hierarchy as a whole: its size, its order, and that every detector keeps the contract."""

import random
from collections import Counter

import msgspec
import pytest
from soccer_situations import recording

from detectors.soccer.census import event_kinds, event_types
from detectors.soccer.events import Position
from detectors.soccer.setup import SETUPS
from detectors.soccer.soccer_hierarchy import LEVELS, soccer
from middleware.evaluation.measuring.accuracy import Accuracy, score
from middleware.model.event import EventTypes, type_name
from middleware.model.identity import levels
from middleware.ordering.policies import Policies
from middleware.runtime.engine import run
from middleware.testing.conformance import check_detector
from middleware.testing.oracle import oracle

KINDS = [kind for level in LEVELS for kind in level]


def test_the_size_of_the_paper_and_more():
    assert len(KINDS) == len(set(KINDS)) == len(soccer()) >= 70
    assert len(LEVELS) == max(levels(soccer()).values()) == 15
    assert event_types() >= 750


def test_every_detector_stands_at_its_level():
    found = levels(soccer())
    assert {kind.__name__: number for number, level in enumerate(LEVELS, 1) for kind in level} == found


def test_only_the_lowest_level_reads_raw_positions():
    assert [kind.__name__ for kind in KINDS if Position in kind.subscribes] == ["Motions", "BallHits"]
    published = {event_type for kind in KINDS for event_type in kind.publishes}
    assert {event_type for kind in KINDS for event_type in kind.subscribes} - published == {Position}


def test_each_event_type_is_derived_by_one_detector_under_one_name():
    published = Counter(event_type for kind in KINDS for event_type in kind.publishes)
    assert set(published.values()) == {1}
    assert len(EventTypes(published)) == len(published)


def test_kinds_are_counted_per_player_team_and_ball():
    kinds = Counter(kind.partition(" ")[0] for kind in event_kinds())
    assert (kinds["soccer.Pass"], kinds["soccer.Save"], kinds["soccer.Score"], kinds["soccer.Bounce"]) == (22, 2, 2, 3)
    assert set(kinds) == {type_name(event_type) for kind in KINDS for event_type in kind.publishes}
    assert len(event_kinds("debs2013")) == event_types("debs2013") < event_types()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_conformance(kind):
    """The suite of ``slackline check``, on less input; no detector is left cold by it."""
    assert {v.check: v.problem for v in check_detector(kind, count=8, length=40) if v.state in ("fail", "warn")} == {}


@pytest.mark.parametrize("setup", sorted(SETUPS))
def test_all_detectors_can_be_made_for_every_setup(setup):
    assert len(soccer(setup)) == len(KINDS)


@pytest.fixture(scope="module")
def few_seconds():
    return oracle(recording(16, 4), soccer())


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_finals_equal_the_oracle_however_positions_arrive(alpha, few_seconds):
    """A few seconds of play with all 95 detectors, positions up to a quarter of a second late."""
    generator = random.Random(3)
    events = recording(16, 4)
    arrivals = sorted(events, key=lambda event: event.ts + generator.random() ** 3 * 250e6)
    result = run(arrivals, soccer(), policies=Policies(alpha=alpha), batch=500)
    assert not any(result.late_identities().values())
    assert result.finals == few_seconds
    assert sum(map(len, few_seconds.values())) > 1000


# Scores


def test_scores_count_each_sighting_once():
    found = score([("a", 10), ("a", 11), ("b", 50)], [("a", 12), ("b", 90), ("c", 10)], tolerance=5)
    assert found == Accuracy.of(3, 3, 1) and found.f1 == 1 / 3
    assert score([("a", 1)], [], 5).f1 == score([], [("a", 1)], 5).f1 == score([], [], 5).f1 == 0.0


def test_as_many_sightings_match_as_possible():
    generator = random.Random(1)
    for _ in range(300):
        found, true = (sorted(generator.randrange(30) for _ in range(generator.randrange(6))) for _ in range(2))
        got = score([("x", ts) for ts in found], [("x", ts) for ts in true], tolerance=3)
        assert got.hits == most_pairs(found, true)


def most_pairs(found: list[int], true: list[int]) -> int:
    """By trying everything."""
    if not found:
        return 0
    rest = found[1:]
    with_it = (1 + most_pairs(rest, true[:k] + true[k + 1 :]) for k, ts in enumerate(true) if abs(ts - found[0]) <= 3)
    return max([most_pairs(rest, true), *with_it])


def test_events_survive_the_wire():
    """Every event type can be written and read (what the links between nodes do)."""
    derived = oracle(recording(16, 3), soccer())
    for event in (event for events in derived.values() for event in events[:3]):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=type(event)) == event
