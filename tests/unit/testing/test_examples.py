"""Drawn events fit their declared types, meet each other, and are the same for the same seed."""

import random
from enum import Enum
from typing import Annotated, Any, Literal, Optional

import msgspec
import pytest
from msgspec import Meta
from slackline import Detector, Event

from middleware.model.errors import EventError
from middleware.model.event import IDENTITY, ORDER
from middleware.testing.examples import draw_events, sequences


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(msgspec.Struct, frozen=True):
    x: float
    y: int = 0


class Everything(Event):
    whole: int
    bounded: Annotated[int, Meta(ge=3, lt=5)]
    below: Annotated[int, Meta(le=-7)]
    even: Annotated[int, Meta(ge=1, multiple_of=4)]
    real: float
    share: Annotated[float, Meta(gt=0, le=1)]
    text: str
    code: Annotated[str, Meta(min_length=2, max_length=2)]
    flag: bool
    raw: bytes
    colour: Colour
    side: Literal["left", "right"]
    point: Point
    maybe: int | None
    many: list[int]
    few: Annotated[list[float], Meta(min_length=1, max_length=2)]
    pair: tuple[int, str]
    row: tuple[int, ...]
    names: frozenset[str]
    table: dict[str, float]
    anything: Any = None


class Plain(Event):
    number: int


class Reader(Detector):
    subscribes = (Everything, Plain)


class Coded(Event):
    code: Annotated[str, Meta(pattern="^[A-Z]{3}$")]


class CodeReader(Detector):
    subscribes = (Coded,)


class GivenReader(Detector):
    subscribes = (Coded,)

    @classmethod
    def examples(cls) -> list[Event]:
        return [Coded("ABC", ts=7), Coded("XYZ", ts=3)]


@pytest.mark.parametrize("seed", range(20))
def test_drawn_events_fit_their_types_and_are_in_order(seed: int) -> None:
    events = draw_events((Everything, Plain), 50, random.Random(seed))
    assert len(events) == 50
    assert events == sorted(events, key=ORDER)
    assert len(set(map(IDENTITY, events))) == 50
    for event in events:
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=type(event)) == event


def test_same_seed_same_events_other_seed_others() -> None:
    one, same, other = (sequences(Reader, 5, 40, seed) for seed in (1, 1, 2))
    assert one == same != other
    assert [len(events) for events in one] == [8, 16, 24, 32, 40]


def test_events_meet_on_instants_and_on_values() -> None:
    drawn = [event for events in sequences(Reader, 12, 60, 0) for event in events]
    assert len({event.ts for event in drawn}) < len(drawn)
    assert len({event.bounded for event in drawn if isinstance(event, Everything)}) == 2


def test_what_cannot_be_drawn_is_named_with_the_way_out() -> None:
    with pytest.raises(EventError, match=r"cannot draw Coded\.code: its pattern .*; give the detector a class method examples"):
        sequences(CodeReader, 1, 1, 0)


def test_given_examples_are_sorted_and_numbered() -> None:
    assert sequences(GivenReader, 3, 9, 0) == [[Coded("XYZ", ts=3, id=1), Coded("ABC", ts=7, id=0)]]


@pytest.mark.parametrize(("given", "message"), [([], "gives no events"), ([Plain(1, ts=1)], "gives Plain, which it does not")])
def test_wrong_examples_are_refused(monkeypatch: pytest.MonkeyPatch, given: list[Event], message: str) -> None:
    monkeypatch.setattr(GivenReader, "examples", classmethod(lambda cls: given))
    with pytest.raises(EventError, match=message):
        sequences(GivenReader, 1, 1, 0)


class Ticked(Event):
    pass


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda cls: 1 / 0, "examples.. fails: ZeroDivisionError"),
        (lambda cls: None, "examples.. fails: TypeError.*returns a list of events"),
        (lambda cls: [7], "gives 7: its items are events"),
        (lambda cls: [Ticked(ts=1.5)], "its items are events, with whole numbers"),
        (lambda cls: [Ticked(ts=2**62)], "which is no time"),
        (lambda cls: [], "gives no events"),
    ],
)
def test_examples_that_are_none_are_reported(given: Any, message: str) -> None:
    class Gives(Detector):
        subscribes, publishes = (Ticked,), (Ticked,)
        examples = classmethod(given)

    with pytest.raises(EventError, match=message):
        sequences(Gives, 1, 1, 1)


def test_examples_may_come_one_by_one() -> None:
    class Gives(Detector):
        subscribes, publishes = (Ticked,), (Ticked,)

        @classmethod
        def examples(cls) -> Any:
            yield from (Ticked(ts=at, id=at) for at in (2, 1))

    assert [event.ts for event in sequences(Gives, 1, 1, 1)[0]] == [1, 2]


class Made(Detector):
    """Its inputs are given when it is made."""

    def __init__(self) -> None:
        self.subscribes = (Plain,)


def test_the_types_of_an_instance_are_drawn() -> None:
    assert {type(event) for events in sequences(Made(), 2, 9, 0) for event in events} == {Plain}


class Tree(msgspec.Struct, frozen=True):
    size: int
    left: Optional["Tree"] = None
    others: "tuple[Tree, ...]" = ()


class Grown(Event):
    tree: Tree


class Grows(Detector):
    subscribes = (Grown,)


def test_structs_that_hold_others_of_their_kind_come_to_an_end() -> None:
    drawn = [event for events in sequences(Grows(), 4, 20, 0) for event in events]
    assert any(event.tree.left or event.tree.others for event in drawn if isinstance(event, Grown))
