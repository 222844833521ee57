"""Stages as incremental operators: the physical graph, which runs on units, nodes and links like any detector.

Each part of a stage runs as an operator, on any node. Each edge between stages has one event type for each part of the
receiving stage. So a subscription brings a part only the items of its keys, and the watermarks of these types tell it all it
needs to know: watermark and barrier are the middleware's own.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from detectors.flow.graphs.flow_checks import check
from detectors.flow.graphs.flow_graph import FlowError, FlowNodeKind, Graph
from detectors.flow.graphs.flow_stages import Outlet, Stage, stages
from detectors.flow.operations.edge_types import edge_types, spread_types
from detectors.flow.operations.items import ABSENT, ROOT, Change, Position, root_position
from detectors.flow.operations.outputs import KeyedOutput, Output, SinkOutput, SpreadOutput
from detectors.flow.operations.program import Program
from middleware.model.change import Delta
from middleware.model.event import IDENTITY, Event, EventType, Identity, Key, Value
from middleware.model.operator import Operation, Operator, Origin, Snapshot, described


class FlowOperator(Operator):
    """One part of one stage of a flow.

    ``stage``
        the stage it runs; None if it only passes a source's events to the parts that map them.
    ``part``
        the number of the part, from 0.
    """

    emits_before_clock = True

    def __init__(self, name: str, stage: Stage | None, part: int, inputs: list[EventType], outputs: list[Output]) -> None:
        self.name, self.stage, self.part, self.outputs = name, stage, part, outputs
        self.subscribes = tuple(inputs)
        self.publishes = tuple(dict.fromkeys(each for output in outputs for each in output.types))
        nodes = [stage.entry, *stage.maps] if stage is not None else []
        self.partition_key = _partition_key(stage)
        self.definition = described(part, [(node.kind, node.name, node.window, node.function) for node in nodes])

    def start(self, name: str, level: int) -> FlowOperation:
        return FlowOperation(self, name, level)


class _KeyOf:
    """The key of the value in an item's event."""

    def __init__(self, function: Callable[[Value], Key]) -> None:
        self._function = function

    def __call__(self, event: Any) -> Key:
        return self._function(event.value)


def _partition_key(stage: Stage | None) -> tuple[str, ...] | Callable[[Any], Key]:
    """The key of a grouping, unless a cycle brings its items back; the source for maps, which have no state."""
    if stage is None or stage.entry.kind is FlowNodeKind.SOURCE:
        return ("source",)
    if stage.looped:
        return ()
    key = stage.entry.fused.key if stage.entry.fused is not None else stage.entry.function
    return _KeyOf(key) if key is not None else ()


class FlowOperation(Operation):
    """A running part of a stage: reads items from events, runs the stage's program, and gives changes as events."""

    def __init__(self, plan: FlowOperator, name: str, level: int) -> None:
        super().__init__()
        self._plan = plan
        self._program = Program(plan.stage) if plan.stage is not None else None
        self._origin = Origin(name, level)
        from_source = plan.stage is None or (
            plan.stage.entry.kind is FlowNodeKind.SOURCE and not hasattr(plan.subscribes[0], "cause")
        )
        self._read: Callable[[Event], tuple[Position, Value]] = _of_source if from_source else _of_edge

    @property
    def held(self) -> int:
        return self._program.held if self._program is not None else 0

    @property
    def keys(self) -> int:
        return len(self._program.buckets) if self._program is not None else 1

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        changes = self._changes(delta)
        program, origin, out = self._program, self._origin, Delta()
        if program is None:
            for output in self._plan.outputs:
                output.publish(changes, origin, out, None)
            return out
        made = program.run(changes, final)
        for output in self._plan.outputs:
            if mine := made.get(output.outlet):
                output.publish(mine, origin, out, program.failures)
        if program.failures.found or self.failures:
            self._tell_failures()
        return out

    def _changes(self, delta: Delta) -> list[Change]:
        """Changes of events as changes of items: a withdrawal and an insertion at the same place are one change."""
        read = self._read
        come = [(*read(event),) for event in delta.inserts]
        if not delta.retracts:
            return [(position, ABSENT, value) for position, value in come]
        gone = dict(map(read, delta.retracts))
        changes = [(position, gone.pop(position, ABSENT), value) for position, value in come]
        return changes + [(position, value, ABSENT) for position, value in gone.items()]

    def _tell_failures(self) -> None:
        """List the current failures by the raw events that led to them; failures that are gone are no longer listed."""
        assert self._program is not None
        found = self._program.failures.found
        self.failures.clear()
        for (where, position), failure in found.items():
            ts, level, source, number = position[:ROOT]
            cause = Event(ts=ts, level=level, source=source, id=number)
            self.failures[IDENTITY(cause)] = (cause, f"{where}: {failure}")

    def failed(self, final: int) -> list[tuple[Event, str]]:
        if self._program is not None:
            found = self._program.failures.found
            for place in [place for place in found if place[1][0] <= final]:
                del found[place]
        return super().failed(final)

    def snapshot(self) -> Snapshot:
        failures: dict[Identity, tuple[Event, str]] = dict(self.failures)
        return (self._program.snapshot() if self._program is not None else None), failures

    def restore(self, state: Snapshot) -> None:
        kept, failures = state
        self.failures = dict(failures)
        if self._program is not None:
            self._program.restore(kept)


def _of_source(event: Event) -> tuple[Position, Value]:
    return root_position(event), event


_edge = attrgetter("ts", "cause", "value")


def _of_edge(event: Event) -> tuple[Position, Value]:
    ts, cause, value = _edge(event)
    return (ts, *cause), value


def operators(flow: Graph, parts: int = 1, fuse: bool = True) -> dict[str, FlowOperator]:
    """The operators of a flow by name, each grouping in ``parts`` parts; maps after a source are spread over as many.

    ``fuse``: run stateful transformations as one operation; False is for tests. Raises FlowError if the flow is not sound.
    """
    if not isinstance(parts, int) or parts < 1:
        raise FlowError(f"flow {flow.name!r}: {parts!r} partitions; give a number, at least 1")
    check(flow)
    made: dict[str, FlowOperator] = {}
    planned = stages(flow, fuse)
    edges = {
        outlet: edge_types(flow.name, outlet, parts)
        for stage in planned
        for outlet in stage.outlets
        if outlet.to.kind is FlowNodeKind.GROUP
    }
    inputs = {stage.entry: [types for outlet, types in edges.items() if outlet.to is stage.entry] for stage in planned}
    for stage in planned:
        name = f"{flow.name}.{stage.name}"
        if stage.entry.kind is FlowNodeKind.GROUP:
            reads = inputs[stage.entry]
            for part in range(parts):
                made[_part_name(name, part, parts)] = FlowOperator(
                    _part_name(name, part, parts),
                    stage,
                    part,
                    [types[part] for types in reads],
                    _outputs(stage, edges, parts, part),
                )
            continue
        event_type = stage.entry.event_type
        assert event_type is not None
        if parts == 1 or not stage.maps:
            made[name] = FlowOperator(name, stage, 0, [event_type], _outputs(stage, edges, parts, 0))
            continue
        spread = spread_types(flow.name, stage.name, event_type, parts)
        made[name] = FlowOperator(name, None, 0, [event_type], [SpreadOutput(spread)])
        for part in range(parts):
            whole = _part_name(f"{name}.maps", part, parts)
            made[whole] = FlowOperator(whole, stage, part, [spread[part]], _outputs(stage, edges, parts, part))
    return made


def _outputs(stage: Stage, edges: dict[Outlet, list[EventType]], parts: int, part: int) -> list[Output]:
    return [
        SinkOutput(outlet) if outlet.to.kind is FlowNodeKind.SINK else KeyedOutput(outlet, edges[outlet], parts, part)
        for outlet in stage.outlets
    ]


def _part_name(name: str, part: int, parts: int) -> str:
    return name if parts == 1 else f"{name}.{part}"
