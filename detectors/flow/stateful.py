"""Stateful transformations out of grouping, map and cycle (Kuralenok et al. 2018, section V.C and Figure 6).

The state of a key is an item itself: behind each item stands the state that it led to, so a group of two is an item and
the state before it. The combine map makes the next state of the two and feeds it back; it lets groups pass whose last is a
state, since that one is combined already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from detectors.flow.calls import PartialFailure, outputs

if TYPE_CHECKING:
    from detectors.flow.graph import Node


OUTPUTS = ".outputs"
"""How the operation is called, behind the name of the transformation, that gives its outputs."""


class State(NamedTuple):
    """A state as an item: what is fed back."""

    key: Any
    value: Any


Fold = Callable[[Any, Any], tuple[Any, Iterable[Any] | None]]


class Fused(NamedTuple):
    """What grouping, combine map and cycle do together; ``outputs`` is the operation whose outputs theirs are."""

    fold: Fold
    key: Callable[[Any], Any]
    outputs: Node


def key_of(key: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The key of items and of states among them."""

    def key_of_either(value: Any) -> Any:
        return value.key if value.__class__ is State else key(value)

    return key_of_either


def combine(fold: Fold, key: Callable[[Any], Any]) -> Callable[[tuple[Any, ...]], list[Any]]:
    """The combine map: of (state, item) the next state and what the fold gives out."""

    def combine_group(group: tuple[Any, ...]) -> list[Any]:
        item = group[-1]
        if item.__class__ is State:
            return []
        before = group[0].value if group[0].__class__ is State else None
        try:
            state, given = fold(before, item)
            return [State(key(item), state), *outputs(given)]
        except Exception as error:
            raise PartialFailure([State(key(item), before)]) from error

    return combine_group


def states_of(value: Any) -> list[Any]:
    """What is fed back: states alone."""
    return [value] if value.__class__ is State else []


def outputs_of(value: Any) -> list[Any]:
    """What goes on: everything but states."""
    return [] if value.__class__ is State else [value]
