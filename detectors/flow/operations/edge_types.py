"""Event types of the edges between stages: one for each receiving part, made on demand."""

from __future__ import annotations

import sys
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from detectors.flow.graphs.flow_graph import Annotation
from detectors.flow.graphs.flow_stages import Outlet
from detectors.flow.operations.stateful import OUTPUTS
from middleware.model.event import Event, EventType

Cause = tuple[int | str, ...]
"""The place of an item among those of its time: level, source and id of its raw event, then which output of each operation
on the way it is. With ts in front, it is the item's position."""


def edge_types(flow: str, outlet: Outlet, parts: int) -> list[EventType]:
    """The event types of items on their way from an operation to each part of a grouping: a value and its cause."""
    name = f"{outlet.node.name.removesuffix(OUTPUTS)}_to_{outlet.to.name}"
    return [_edge_type(flow, f"{name}_{part}" if parts > 1 else name, outlet.node.gives) for part in range(parts)]


def spread_types(flow: str, source: str, event_type: EventType, parts: int) -> list[EventType]:
    """The event types of a source's events on their way to each part that maps them."""
    return [_edge_type(flow, f"{source}_spread_{part}", event_type) for part in range(parts)]


@cache
def _edge_type(flow: str, name: str, value: Annotation) -> EventType:
    called = "".join(each if each.isalnum() else "_" for each in name)
    made = msgspec.defstruct(
        called,
        [("value", value if value is not None else Any), ("cause", Cause)],
        bases=(Event,),
        namespace={
            "namespace": flow,
            "__doc__": f"An item of flow {flow}, between two operations.",
            "__qualname__": f"{flow}.{called}",
        },
        module=__name__,
        frozen=True,
        gc=False,
    )
    module = sys.modules[__name__]  # pickle looks for it here, in a process that has the same flow
    setattr(module, flow, getattr(module, flow, None) or SimpleNamespace())
    setattr(getattr(module, flow), called, made)
    return cast(EventType, made)
