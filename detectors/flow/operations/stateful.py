"""Stateful transformations built from grouping, map and cycle (Kuralenok et al. 2018, section V.C and Figure 6).

The state of a key is an item itself: each item is followed by the state that it led to, so a group of two is an item and the
state before it. The combine map makes the next state from the two and feeds it back; it skips groups that end in a state, since
that one is combined already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache
from types import NoneType
from typing import NamedTuple

import msgspec

from detectors.flow.graphs.flow_graph import Fold
from detectors.flow.operations.calls import PartialFailure, outputs
from middleware.model.errors import ENDING
from middleware.model.event import Key, Value
from middleware.model.values.state import copy_state, restored_state

OUTPUTS = ".outputs"
"""The suffix, after the transformation's name, of the operation that gives its outputs."""


class State(NamedTuple):
    """A state as an item that is fed back."""

    key: Key
    value: Value


def guarded(fold: Fold) -> Fold:
    """A fold that gets a copy of each mutable state: the state itself is kept, to continue from.

    Values of immutable types (numbers, texts, tuples, frozen structs and dataclasses) are given as they are.
    """

    def guarded_fold(state: Value, value: Value) -> tuple[Value, Iterable[Value] | None]:
        return fold(_copied(state) if _is_mutable(state.__class__) else state, value)

    return guarded_fold


@cache
def _is_mutable(kind: type) -> bool:
    if issubclass(kind, int | float | complex | str | bytes | tuple | frozenset | Enum | NoneType):
        return False
    if issubclass(kind, msgspec.Struct):
        return not kind.__struct_config__.frozen
    return not getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)


def _copied(state: Value) -> Value:
    copy = copy_state({"state": state})
    return (copy if isinstance(copy, dict) else restored_state(copy))["state"]


def key_of(key: Callable[[Value], Key]) -> Callable[[Value], Key]:
    """The key of items and of states among them."""

    def key_of_either(value: Value) -> Key:
        return value.key if value.__class__ is State else key(value)

    return key_of_either


def combine(fold: Fold, key: Callable[[Value], Key]) -> Callable[[tuple[Value, ...]], list[Value]]:
    """The combine map: from (state, item) to the next state and the fold's outputs."""

    def combine_group(group: tuple[Value, ...]) -> list[Value]:
        item = group[-1]
        if item.__class__ is State:
            return []
        before = group[0].value if group[0].__class__ is State else None
        try:
            state, given = fold(before, item)
            return [State(key(item), state), *outputs(given)]
        except ENDING:
            raise
        except BaseException as error:
            raise PartialFailure([State(key(item), before)]) from error

    return combine_group


def states_of(value: Value) -> list[Value]:
    """Keep only states: the items that are fed back."""
    return [value] if value.__class__ is State else []


def outputs_of(value: Value) -> list[Value]:
    """Keep everything but states: the items that flow on."""
    return [] if value.__class__ is State else [value]
