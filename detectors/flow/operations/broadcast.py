"""A stream that goes to all parts of an operation, beside one that is spread over them by key.

Values are spread over a fixed number of shards, whatever the number of parts; each value of the broadcast stream is copied to
every shard, and so to every part, and a shard remembers the last of them. It is made of maps, a union and a stateful
transformation: late and withdrawn values of either stream are corrected as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from detectors.flow.graphs.flow_graph import Annotation
from detectors.flow.operations.sharding import part_of
from middleware.model.event import Key, Value

Placed = tuple[int, bool, Value]
"""A shard, whether the value was broadcast, and the value."""


def placed_type(gives: Annotation) -> Annotation:
    """The type of a placed value."""
    return tuple[int, bool, Any if gives is None else gives]  # type: ignore[misc]


def copied(shards: int) -> Callable[[Value], list[Placed]]:
    """The map that copies a value to every shard."""

    def copies(value: Value) -> list[Placed]:
        return [(shard, True, value) for shard in range(shards)]

    return copies


def spread(key: Callable[[Value], Key], shards: int) -> Callable[[Value], list[Placed]]:
    """The map that places a value by its key."""

    def place(value: Value) -> list[Placed]:
        return [(part_of(key(value), shards), False, value)]

    return place


def shard_of(placed: Placed) -> int:
    """The key of the stateful transformation."""
    return placed[0]


def remember(known: tuple[Value] | None, placed: Placed) -> tuple[tuple[Value] | None, Iterable[Value]]:
    """Keep what was broadcast last; give each other value beside it."""
    _, is_broadcast, value = placed
    return ((value,), []) if is_broadcast else (known, [(value, known[0] if known else None)])
