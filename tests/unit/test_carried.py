"""Events as every process reads them: the form of values, sets in order, and the errors of what has no form."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
from slackline import Detector, Event, run

from detectors.window import COUNT, Tumbling, Windows
from middleware.model.errors import EventError
from middleware.model.values.carried import LARGEST_EVENT, all_carried, carried, encode_alike, legible, stamped, takes_any


class Box(msgspec.Struct, frozen=True):
    items: Any
    names: frozenset[str] = frozenset()


@dataclass
class Crate:
    items: Any


class Loose(Event):
    of: Any
    box: Box | None = None


class Plain(Event):
    number: int
    real: float = 0.0
    text: str = ""
    maybe: bool | None = None


class Tree(msgspec.Struct):
    parts: list[Tree]


class Rooted(Event):
    tree: Tree


SETS = """
from middleware.model.values.carried import carried
from tests.unit.test_carried import *
words = {"one", "two", "three", "four", "five"}
for value in (words, [words], {"a": words}, Box(words), Crate(words), {frozenset(words): 1}, {(1, frozenset(words)): 1}):
    print(carried(Loose(value, Box(value), ts=1)))
"""


def test_sets_in_a_field_of_any_type_have_one_order_in_all_processes() -> None:
    printed = [
        subprocess.run(
            [sys.executable, "-c", SETS], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1] and printed[0].count("['one', 'two', 'five', 'four', 'three']") == 10


def test_events_of_plain_fields_that_have_the_form_are_not_made_anew() -> None:
    events: list[Event] = [Plain(1, 2.0, "x", ts=1), Plain(2**64 - 1, 0.5, "\U0001f600", True, ts=2)]
    assert all_carried(Plain, events) is events
    other = all_carried(Plain, [*events, Plain(np.int64(3), 4, np.str_("y"), ts=np.int64(3))])
    assert other[:2] == events and repr(other[2]) == repr(Plain(3, 4.0, "y", ts=3))


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (Plain(2**64, ts=1), "Plain.number holds .* beyond 64 bits"),
        (Plain(-(2**63) - 1, ts=1), "Plain.number holds .* beyond 64 bits"),
        (Plain(10**5_000, ts=1), "Plain.number holds .* beyond 64 bits"),
        (Plain(1, 10**30, ts=1), "Plain.real holds .* beyond 64 bits"),
        (Plain(1, text="\ud800", ts=1), "Plain.text holds .* surrogate"),
        (Plain("1", ts=1), r"Plain: Expected `int`, got `str`"),  # type: ignore[arg-type]
        (Plain(1, text="x" * LARGEST_EVENT, ts=1), "Plain takes 4,"),
        (Loose([object()], ts=1), "Loose.of holds .*object"),
        (Loose(1, Box({"\udc00"}), ts=1), "Loose.box holds .* surrogate"),
    ],
)
def test_what_has_no_form_on_a_wire_is_an_error_that_names_the_field(event: Event, message: str) -> None:
    for make in (carried, lambda event: stamped(event, 1, "d", 1)):
        with pytest.raises(EventError, match=message):
            make(event)
    listed = legible(event)
    assert (listed.ts, type(listed)) == (1, type(event)) and msgspec.msgpack.encode(listed)


def test_values_nested_beyond_all_measure_are_an_error() -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(EventError):
        carried(Loose(deep, ts=1))


def test_values_that_differ_in_the_order_of_sets_and_dicts_only_have_the_same_bytes() -> None:
    one = Loose({1: {"b", "a"}, "x": {(1, 2): 0, (1, 1): 1}}, Box({2: 1, 1: 2}), ts=1)
    other = Loose({"x": {(1, 1): 1, (1, 2): 0}, 1: {"a", "b"}}, Box({1: 2, 2: 1}), ts=1)
    assert encode_alike(one) == encode_alike(other) != encode_alike(Loose({1: {"b", "a"}}, Box({2: 1, 1: 2}), ts=1))


def test_classes_that_hold_themselves_are_looked_at_once() -> None:
    assert (takes_any(Rooted), takes_any(Plain), takes_any(Loose)) == (False, False, True)
    event = Rooted(Tree([Tree([])]), ts=1)
    assert carried(event) == event


def test_a_class_that_no_process_can_read_is_refused() -> None:
    class Unread(Event):
        of: list[int] | tuple[int, ...]

    with pytest.raises(EventError, match="Unread has a field of a type that no process can read"):
        carried(Unread([1], ts=1))


def test_what_a_run_is_given_is_what_a_node_takes() -> None:
    class Reads(Detector):
        subscribes, publishes = (Plain,), (Loose,)

        def on_event(self, event: Plain) -> Loose:
            return Loose(repr((event.number, event.real)), ts=event.ts)

    (only,) = run([Plain(1, 2, ts=1, id=1)], [Reads()]).finals["Reads"]
    assert only.of == "(1, 2.0)"  # type: ignore[attr-defined]
    for wrong in (Plain(2**64, ts=1), Plain("1", ts=1), Plain(1, text="\ud800", ts=1)):  # type: ignore[arg-type]
        with pytest.raises(EventError, match="Plain"):
            run([wrong], [Reads()])


class Keyed(Event):
    key: tuple[int, int]


class Counted(Event):
    key: Any
    start: int
    end: int
    count: int


def test_a_key_of_windows_in_a_field_of_any_type_has_the_form_too() -> None:
    windows = Windows(Keyed, Tumbling(10), {"count": COUNT}, key="key", result=Counted, name="W")
    (only,) = run([Keyed((1, 2), ts=1, id=1)], [windows]).finals["W"]
    assert only.key == [1, 2] and only == carried(only)  # type: ignore[attr-defined]
