"""Keys of windows, of every kind: results carry them as they are, equal ones are one key, bad ones harm no others."""

import enum
import pickle
from ast import literal_eval
from itertools import permutations
from typing import Any

import pytest
from slackline import Delta, Event

from detectors.window import CONCAT, COUNT, MAX, Tumbling, Windows
from middleware.model.event import END
from middleware.model.values.carried import legible


class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


class Keyed(Event):
    """Something by a key of any kind."""

    flag: bool
    colour: Colour
    maybe: bool | None
    number: float
    pair: tuple[bool, Colour]
    anything: Any
    value: int = 0


KEYS = {
    "flag": [True, False],
    "colour": [Colour.RED, Colour.BLUE],
    "maybe": [True, None],
    "number": [1.5, 2.0, 1e15, -0.0],
    "pair": [(True, Colour.RED), (False, Colour.BLUE)],
    "anything": [Colour.RED, "RED", None, (1, "a"), b"x"],
    ("flag", "colour"): [(True, Colour.RED), (False, Colour.RED)],
}

cores = pytest.mark.parametrize(
    "more",
    [{}, {"all": (CONCAT, "value")}],
    ids=["core", "plain"],
)


def keyed(ts, **fields):
    own = {"flag": True, "colour": Colour.RED, "maybe": None, "number": 0.0, "pair": (True, Colour.RED), "anything": 0} | fields
    return Keyed(**own, ts=ts, id=ts)


@cores
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_results_carry_keys_as_they_are(key, more):
    fields = (key,) if isinstance(key, str) else key
    given = [value if isinstance(key, tuple) else (value,) for value in KEYS[key]]
    events = [keyed(n, **dict(zip(fields, parts, strict=True))) for n, parts in enumerate(given * 2, 1)]
    plan = Windows(Keyed, Tumbling(100), {"n": COUNT, **more}, key=key)
    before, after = plan.start("w", 1), plan.start("w", 1)
    assert before.apply(Delta(events[:-1]), 50, 0) == Delta()
    after.restore(pickle.loads(pickle.dumps(before.snapshot())))
    found = after.apply(Delta(events[-1:]), END, END).inserts
    assert after.failures == {} and len({each.id for each in found}) == len(given)
    shown = [tuple(getattr(each, field) for field in fields) for each in found]
    expected = [tuple(0.0 if isinstance(part, float) and part == 0 else part for part in parts) for parts in given]
    assert sorted(map(repr, shown)) == sorted(map(repr, expected))
    assert all(each.n == 2 for each in found)


@cores
def test_which_of_equal_keys_comes_first_never_shows(more):
    events = [keyed(1, flag=True, number=1), keyed(2, flag=1, number=True), keyed(3, flag=1.0, number=1.0)]
    for key, shown in (("flag", "True"), ("number", "1.0")):
        plan = Windows(Keyed, Tumbling(100), {"n": COUNT, **more}, key=key)
        for order in permutations(events):
            operation = plan.start("w", 1)
            (found,) = [each for event in order for each in operation.apply(Delta([event]), 50, 0).inserts] + (
                operation.apply(Delta(), END, END).inserts
            )
            assert (repr(getattr(found, key)), found.n) == (shown, 3)


@cores
def test_an_event_whose_key_has_no_place_in_results_or_no_identity_is_quarantined(more):
    good = keyed(9, anything="a")
    for key, bad in (
        ("flag", keyed(5, flag="yes")),
        ("anything", keyed(5, anything="\ud800")),
        ("anything", keyed(5, anything=[])),
    ):
        operation = Windows(Keyed, Tumbling(100), {"n": COUNT, **more}, key=key).start("w", 1)
        (found,) = operation.apply(Delta([bad, good]), 100, 0).inserts
        assert found.n == 1 and list(operation.failures) == [(bad.source, bad.id)]
        (listed,) = (event for event, _ in operation.failures.values())
        assert listed == legible(bad), "so the ledger takes it"
        assert operation.apply(Delta([], [], [bad]), 100, 0) == Delta() and not operation.failures


@pytest.mark.parametrize("value", [1e20, 2.0**63, -(2.0**63), 2.0**64, 2**63 - 1, 2**64, -(2**63), 2**70])
def test_large_keys_are_the_same_in_both_cores(value):
    found = []
    for more in ({}, {"all": (CONCAT, "value")}):
        operation = Windows(Keyed, Tumbling(100), {"n": COUNT, **more}, key="anything").start("w", 1)
        results = operation.apply(Delta([keyed(5, anything=value)]), 100, 0).inserts
        found.append(([(each.id, repr(each.anything)) for each in results], list(operation.failures)))
    assert found[0] == found[1]
    assert found[0][0] == [] or literal_eval(found[0][0][0][1]) == value


def test_made_result_types_take_the_keys_of_all_types_that_are_read():
    class Other(Event):
        colour: str

    plan = Windows((Keyed, Other), Tumbling(100), {"n": COUNT}, key="colour")
    found = plan.start("w", 1).apply(Delta([keyed(5), Other("no", ts=6, id=6)]), END, END).inserts
    assert sorted(repr(each.colour) for each in found) == ["'no'", "<Colour.RED: 'r'>"]


@cores
def test_a_result_that_stays_what_it_is_is_not_revised(more):
    plan = Windows(Keyed, Tumbling(100), {"highest": (MAX, "value"), **more}, key=("colour", "pair"), emit="change")
    operation = plan.start("w", 1)
    event = keyed(5, value=9)
    assert len(operation.apply(Delta([event]), 50, 0).inserts) == 1
    assert operation.apply(Delta([keyed(5, value=9)], [], [event]), 50, 0) == Delta()
