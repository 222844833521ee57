"""Reduces lists: deletes items that a property does not need (ddmin, Zeller and Hildebrandt 2002). For causes and failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def smallest(items: Sequence[Item], fails: Callable[[list[Item]], bool], attempts: int) -> list[Item]:
    """A part of ``items``, in the same order, that still fails; with enough attempts, no single item can be omitted.

    ``fails`` is called at most ``attempts`` times: O(n log n) for one culprit, O(n^2) at worst.

    >>> smallest(range(20), lambda part: 7 in part and 13 in part, attempts=200)
    [7, 13]
    """
    kept = list(items)
    chunk = len(kept) // 2
    while chunk and attempts > 0:
        start, shrunk = len(kept) - chunk, False
        while start > -chunk and attempts > 0:
            low = max(start, 0)
            part = kept[:low] + kept[start + chunk :]
            attempts -= 1
            if fails(part):
                kept, shrunk = part, True
            start -= chunk
        if chunk == 1 and not shrunk:
            break
        chunk = chunk if shrunk and chunk == 1 else max(1, chunk // 2)
    return kept
