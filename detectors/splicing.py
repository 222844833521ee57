"""Insert or delete many items of a long sorted list at once, for late and withdrawn events."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")

FEW = 128
"""Up to this many items, one by one is faster for any length of the list, although each moves the list behind it."""


def put_in(column: list[T], places: list[int], items: list[T]) -> None:
    """Insert items, each before the item now at its place. Places ascend. O(items + list behind the first place).

    >>> column = list("bdf")
    >>> put_in(column, [0, 1, 1, 3], list("acCg"))
    >>> "".join(column)
    'abcCdfg'
    """
    if len(places) <= FEW:
        for place, item in zip(reversed(places), reversed(items), strict=True):
            column.insert(place, item)
        return
    made: list[T] = []
    for (place, until), item in zip(pairwise([*places, len(column)]), items, strict=True):
        made.append(item)
        made += column[place:until]
    column[places[0] :] = made


def take_out(column: list[T], places: list[int]) -> None:
    """Delete the items at these places, which ascend. O(places + list behind the first place).

    >>> column = list("abcd")
    >>> take_out(column, [0, 2])
    >>> "".join(column)
    'bd'
    """
    if len(places) <= FEW:
        for place in reversed(places):
            del column[place]
        return
    made: list[T] = []
    for place, until in pairwise([*places, len(column)]):
        made += column[place + 1 : until]
    column[places[0] :] = made
