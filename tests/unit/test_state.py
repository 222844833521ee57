import pickle
from collections import OrderedDict, deque
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import NamedTuple
from uuid import UUID

import msgspec
import pytest
from slackline import Detector, run

from middleware.model.event import Event
from middleware.model.values.state import copy_state, exactly, restored_state, same_event, same_events, same_state


class Seen(Event):
    value: float


class Place(NamedTuple):
    row: int
    column: float


class Inner(msgspec.Struct, frozen=True):
    values: tuple[float, ...]


class Shade(Enum):
    DARK = 1


class Shape(IntEnum):
    ROUND = 1


class Odd:
    """No plain value: kept as its pickle."""

    def __init__(self, items):
        self.items = items

    def __eq__(self, other):
        return self.items == other.items

    __hash__ = None


STATES = [
    {},
    {"a": 1, "b": None, "c": "x", "d": 1.5, "e": b"y", "f": True},
    {"list": [1, 2], "nested": [[1], [2, {"k": [3]}]], "tuple": (1, [2])},
    {"deque": deque([1, [2]], maxlen=4), "dict": {1: {2: [3]}}, "set": {1, 2}, "frozen": frozenset({1})},
    {"event": Seen(1.0, ts=1), "events": deque([Seen(2.0, ts=2)])},
    {"ordered": OrderedDict(a=1), "odd": Odd([1, 2]), "mixed": {(1, 2): {"x"}}},
]


@pytest.mark.parametrize("state", STATES)
def test_round_trip(state):
    copy = copy_state(state)
    again = restored_state(copy)
    assert again == state and again is not state
    assert same_state(copy, copy_state(again))
    assert restored_state(copy) == state, "a copy may be restored again"


def test_copies_share_nothing_mutable():
    state = {"list": [1], "deep": {"a": [deque([1])]}, "odd": Odd([1])}
    copy = copy_state(state)
    state["list"].append(2)
    state["deep"]["a"][0].append(2)
    state["odd"].items.append(2)
    first = restored_state(copy)
    assert first["list"] == [1] and first["deep"] == {"a": [deque([1])]} and first["odd"].items == [1]
    first["deep"]["a"][0].append(3)
    assert restored_state(copy)["deep"] == {"a": [deque([1])]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ({1: "a", 2: "b"}, {2: "b", 1: "a"}),
        ((1, 2), [1, 2]),
        (deque([1], 2), deque([1], 3)),
        ([1, [2.0]], [1, [2]]),
        (Seen(1.0, ts=1), Seen(1, ts=1)),
        (Place(1, 0.0), Place(1, -0.0)),
        (Place(1, 2), Place(True, 2)),
        (Inner((1,)), Inner((1.0,))),
        (Shade.DARK, 1),
        (Decimal("1.0"), Decimal("1.00")),
        (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
    ],
)
def test_equal_is_not_the_same_where_a_detector_could_tell(one, other):
    assert not same_state({"x": one}, {"x": other})
    assert same_state(copy_state({"x": one}), copy_state({"x": one}))


@pytest.mark.parametrize(
    "value",
    [
        Place(1, 0.0),
        Inner((1.0, 2.0)),
        (Shade.DARK, Shape.ROUND),
        date(2026, 1, 1),
        datetime(2026, 1, 1, tzinfo=UTC),
        timedelta(seconds=1),
        Decimal("1.0"),
        UUID(int=7),
        {Place(1, 2.0): [Inner((1.0,))]},
    ],
)
def test_what_fields_of_events_are_made_of_is_the_same_where_it_is(value):
    other = pickle.loads(pickle.dumps(value))
    assert exactly(value, other)
    assert exactly(Seen(value, ts=1), Seen(other, ts=2))
    state = {"x": value, "list": []}
    assert same_state(copy_state(state), copy_state({"x": other, "list": []}))
    assert restored_state(copy_state(state)) == state


def test_the_bounds_of_a_deque_survive():
    assert restored_state(copy_state({"d": deque([1, 2], maxlen=2)}))["d"].maxlen == 2


def test_what_cannot_be_compared_is_not_the_same():
    class Stubborn:
        def __eq__(self, other):
            raise RuntimeError("no")

        __hash__ = None

    assert not same_state([Stubborn()], [Stubborn()])


NAN = float("nan")


def test_events_with_nan_are_the_same_if_all_else_is() -> None:
    assert same_event(Seen(NAN, ts=1), Seen(float("nan"), ts=1))
    assert not same_event(Seen(NAN, ts=1), Seen(NAN, ts=2))
    assert not same_event(Seen(NAN, ts=1), Seen(1.0, ts=1))
    assert not same_event(Seen(0.0, ts=1), Seen(-0.0, ts=1))
    assert same_events([Seen(1.0, ts=1), Seen(float("nan"), ts=2)], [Seen(1.0, ts=1), Seen(float("nan"), ts=2)])
    assert not same_events([Seen(NAN, ts=1)], [Seen(NAN, ts=1), Seen(NAN, ts=2)])


@pytest.mark.parametrize("key", [None, "key"])
def test_a_result_that_is_nan_again_is_no_correction(key: str | None) -> None:
    class Given(Event):
        key: int

    class Means(Detector):
        subscribes, publishes = (Given,), (Seen,)

        def __init__(self) -> None:
            self.count = 0

        def on_event(self, event: Given) -> Seen:
            self.count += 1
            return Seen(float("nan"), ts=event.ts)

    Means.key = key  # type: ignore[assignment]
    found = run([Given(1, ts=ts, id=ts, source="s") for ts in (1, 2, 3, 6, 4, 5)], [Means()], batch=1)
    assert (found.published, found.corrected) == (6, 0)
