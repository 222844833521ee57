"""When two results are the same to everyone."""

import enum
import math
from typing import Any

import pytest
from slackline import Delta, Event

from detectors.outcomes import difference, same

NAN, OTHER_NAN = math.nan, float("nan")


class Result(Event):
    value: Any
    more: Any = 0


class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


def result(value: Any, more: Any = 0, number: int = 1) -> Result:
    return Result(value, more, ts=1, id=number, source="s")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (1, 1, True), (1, 2, False), (1, 1.0, False), (1, True, False), (0.0, -0.0, False), (NAN, OTHER_NAN, True),
        (NAN, 1.0, False), (1.0, NAN, False), ([NAN], [OTHER_NAN], True), ([NAN, 1], [OTHER_NAN, 2], False),
        (Colour.RED, Colour.RED, True), (Colour.RED, Colour.BLUE, False), ("1", 1, False), (None, 0, False),
        ((1, 0.0), (1, -0.0), False), ({1: 2}, {1: 2}, True), (b"", "", False), (math.inf, -math.inf, False),
    ],
)  # fmt: skip
def test_results_are_the_same_if_nobody_could_tell_them_apart(one, other, expected):
    assert same(result(one), result(other)) is same(result(other), result(one)) is expected
    assert same(result(NAN, one), result(OTHER_NAN, other)) is expected
    assert not same(result(one, 1), result(other, 2))


def test_the_difference_names_what_came_what_went_and_what_changed():
    before = [result(1, number=1), result(NAN, number=2), result(3, number=3), result(4, number=4)]
    after = [result(5, number=5), result(3.0, number=3), result(OTHER_NAN, number=2), result(4, number=4)]
    found = difference(before, after)
    assert (found.inserts, found.retracts) == ([after[0]], [before[0]])
    assert [(old is before[2], new is after[1]) for old, new in found.revises] == [(True, True)]
    assert difference([], after).inserts == after and difference(before, []).retracts == before
    assert difference(before, before) == difference([], []) == Delta()
