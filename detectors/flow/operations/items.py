"""Items of a flow (a value and its place in the order), and changes of items.

A position is a tuple that sorts as the ordering model of Kuralenok et al. 2018 (section V.A) wants it: the order key of the raw
event that caused the item (ts, level, source, id), then, for each operation on the way, which of its outputs the item is. So
everything an item leads to comes after it and before the next item, and a position identifies an item on an edge.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import msgspec

from middleware.model.errors import ENDING
from middleware.model.event import Event, Value
from middleware.model.values.state import exactly

Position = tuple[Any, ...]

ROOT = 4
"""How many elements of a position identify the event that caused the item: ts, level, source, id."""


class AbsentValue(Enum):
    """``ABSENT``: there is no item at a position."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = AbsentValue.ABSENT

Change = tuple[Position, Value, Value]
"""(position, old value or ABSENT, new value or ABSENT), of which at least one is not ABSENT; the two differ.

An insertion has no old value, a tombstone no new one; a change with both is a tombstone and the item in its place.
"""


def root_position(event: Event) -> Position:
    """The position of the item for an event from outside the flow."""
    return (event.ts, event.level, event.source, event.id)


def same(one: object, other: object) -> bool:
    """Whether two values are indistinguishable: equal, and of equal types all the way down. O(size), O(1) for one object.

    Objects of other classes than the built-in ones, tuples, structs and events count as the same when they say so (==).
    """
    if one is other:
        return True
    if one.__class__ is not other.__class__:
        return False
    try:
        if one != other:
            return False
    except ENDING:
        raise
    except BaseException:  # as for arrays: then they do not count as the same
        return False
    return _exact(one, other)


_EXACT = frozenset({int, str, bytes, bool, type(None), AbsentValue})


def _exact(one: Value, other: Value) -> bool:
    kind = one.__class__
    if kind is not other.__class__:
        return False
    if kind in _EXACT or one is other:
        return True
    if isinstance(one, tuple):
        return all(map(_exact, one, other))
    if isinstance(one, msgspec.Struct):
        return all(_exact(getattr(one, name), getattr(other, name)) for name in one.__struct_fields__)
    return exactly(one, other) if kind.__module__ in ("builtins", "collections") else True
