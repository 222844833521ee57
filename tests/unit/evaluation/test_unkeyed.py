"""Detectors without keys find the same, and keep the contract of a detector."""

from itertools import islice

from evaluation_samples import scenario
from msgspec.structs import replace

from detectors.soccer.soccer_hierarchy import soccer
from middleware.evaluation.evaluation_runs import counted
from middleware.evaluation.modes import UNKEYED
from middleware.evaluation.unkeyed import unkeyed
from middleware.model.detector import fresh, key_function
from middleware.model.event import ORDER, Event
from middleware.runtime.scenario import load_scenario
from middleware.testing.oracle import oracle
from scenarios.soccer.match import events


def contents(results: list[Event]) -> list[Event]:
    """Results without their ids, which hang on the key."""
    return sorted((replace(one, id=0) for one in results), key=lambda one: (*ORDER(one), repr(one)))


def test_the_same_is_found():
    rows = list(islice(events(3, 2.0), 40_000))
    plain = {name: soccer()[name] for name in ("Motions", "PlayerMotions", "BallHits")}
    keyed, bare = oracle(rows, plain), oracle(rows, unkeyed(plain))
    assert keyed.keys() == bare.keys()
    for name, results in keyed.items():
        assert contents(results) == contents(bare[name])
    assert len(keyed["PlayerMotions"]) > 100


def test_none_has_a_key_and_those_without_stay_themselves():
    before = {**soccer(), **scenario().detectors}
    after = unkeyed(before)
    assert all(key_function(detector) is None for detector in after.values())
    assert after["Rises"] is before["Rises"]
    assert after["Motions"].subscribes == before["Motions"].subscribes


def test_a_restored_one_continues_as_it_was():
    rows = list(islice(events(3, 1.0), 20_000))
    first = fresh(unkeyed(soccer())["Motions"])
    for row in rows[:10_000]:
        first.on_event(row)
    state = first.snapshot()
    second = fresh(unkeyed(soccer())["Motions"])
    second.restore(state)
    expected = [first.on_event(row) for row in rows[10_000:]]
    assert [second.on_event(row) for row in rows[10_000:]] == expected
    assert any(result is not None for result in expected)
    second.restore(state)
    assert [second.on_event(row) for row in rows[10_000:]] == expected, "a state may be restored again"


def test_a_late_event_replays_all_keys():
    rows = list(islice(events(3, 1.0), 4_000))
    late = [*rows[:1_000], *rows[1_001:2_000], rows[1_000], *rows[2_000:]]
    soccer_scenario = load_scenario("soccer")
    with_keys = replace(UNKEYED, keyed=True)
    calls = [
        sum(unit.executed for unit in counted(soccer_scenario, late, mode, 0.0, 0.1).units if unit.detector == "Motions")
        for mode in (with_keys, UNKEYED)
    ]
    assert calls[0] < calls[1]
