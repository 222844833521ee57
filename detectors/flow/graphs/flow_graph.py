"""Flows as graphs (Kuralenok et al. 2018, II.B): operations and their inputs. They say what is computed, not where."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, NamedTuple

from middleware.model.errors import SlacklineError
from middleware.model.event import EventType, Key, Value

Annotation = Any
"""The type of values, as annotated; None without an annotation."""

Fold = Callable[[Value, Value], tuple[Value, Iterable[Value] | None]]
"""From a state and a value to the next state and the outputs. The first state is None, and None means no state."""


class FlowError(SlacklineError):
    """A flow cannot run as it is built; the message names the operation and what is wrong with it."""


class FlowNodeKind(StrEnum):
    """The kind of an operation of the graph."""

    SOURCE = "source"
    MAP = "map"
    GROUP = "group"
    UNION = "union"
    CYCLE = "cycle"
    SINK = "sink"


class FlowNode:
    """One operation of the graph.

    ``function``
        map: value to its outputs. group: value to its key. sink: value to the fields of its event.
    ``accepts``, ``gives``
        types of the values that it takes and gives; None if not declared (``Any`` declares nothing).
    ``fused``
        for the group of a stateful transformation: the whole transformation, to be run as one operation.
    ``inputs``, ``outputs``
        the operations before and after it, in the order in which they were joined.
    """

    def __init__(
        self,
        kind: FlowNodeKind,
        name: str,
        function: Callable[[Value], Value] | None = None,
        accepts: Annotation = None,
        gives: Annotation = None,
        window: int = 0,
        event_type: EventType | None = None,
    ) -> None:
        self.kind, self.name, self.function = kind, name, function
        self.accepts: Annotation = None if accepts is Any else accepts
        self.gives: Annotation = None if gives is Any else gives
        self.window, self.event_type = window, event_type
        self.fused: FusedFold | None = None
        self.inputs: list[FlowNode] = []
        self.outputs: list[FlowNode] = []

    def __repr__(self) -> str:
        return f"{self.kind} {self.name!r}"


class FusedFold(NamedTuple):
    """Grouping, combine map and cycle as one; ``outputs`` is the operation that gives their outputs."""

    fold: Fold
    key: Callable[[Value], Key]
    outputs: FlowNode


class Graph:
    """The operations of a flow, in the order in which they were added, with unique names.

    ``version`` grows with every change.
    """

    def __init__(self, name: str) -> None:
        if not name.isidentifier():
            raise FlowError(f"flow {name!r}: its name stands before those of its operators and event types; give a plain word")
        self.name = name
        self.nodes: list[FlowNode] = []
        self.version = 0
        self._names: set[str] = set()

    def add(self, node: FlowNode) -> FlowNode:
        """Add an operation; its name gets a number if the name is taken."""
        base, number = node.name, 2
        while node.name in self._names:
            node.name, number = f"{base}_{number}", number + 1
        self._names.add(node.name)
        self.nodes.append(node)
        self.version += 1
        return node

    def join(self, before: FlowNode, node: FlowNode) -> None:
        """Feed an operation the outputs of another."""
        before.outputs.append(node)
        node.inputs.append(before)
        self.version += 1
