"""The sequential run of a flow: one item at a time, with everything that follows from it, before the next.

Every other execution must give its results (Kuralenok et al. 2018, section V: the operations as defined, Algorithm 1, with
input in order). It shares nothing with the real execution: no positions, no changes, no stages; groups are the last items
appended to a bucket, and a cycle is a call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple, Protocol

import msgspec

from middleware.model.detector import Detector
from middleware.model.event import END, ORDER, Event, EventType, Key, Value, field_names, type_name
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from middleware.runtime.engine import run
from middleware.testing.oracle import first_arrivals


class GraphNode(Protocol):
    """An operation of a flow's graph, as far as the sequential run needs it."""

    @property
    def kind(self) -> str: ...
    @property
    def function(self) -> Callable[[Value], Value] | None: ...
    @property
    def window(self) -> int: ...
    @property
    def event_type(self) -> EventType | None: ...
    @property
    def outputs(self) -> Sequence[Value]: ...


class SinkResult(NamedTuple):
    """A result at a sink: the time of the raw event that led to it, its event type, and the event's own fields."""

    ts: int
    event_type: EventType
    fields: tuple[Value, ...]


class SequentialRun:
    """Runs the graph of these operations over events that come in order."""

    def __init__(self, nodes: Iterable[GraphNode]) -> None:
        self.results: list[SinkResult] = []
        self._sources = {node.event_type: node for node in nodes if node.kind == "source"}
        self._buckets: dict[tuple[int, Key], list[Value]] = {}
        self._ts = 0

    def take(self, event: Event) -> None:
        """Take the next event."""
        source = self._sources.get(event.__class__)
        if source is not None:
            self._ts = event.ts
            self._pass_on(source, event, {})

    def _pass_on(self, node: GraphNode, value: Value, groups: dict[int, Key]) -> None:
        for after in node.outputs:
            self._deliver(after, value, groups)

    def _deliver(self, node: GraphNode, value: Value, groups: dict[int, Key]) -> None:
        """``groups``: the key by grouping on the way here; items that are fed back must keep it."""
        if node.kind in ("union", "cycle"):
            self._pass_on(node, value, groups)
            return
        try:
            assert node.function is not None
            if node.kind == "group":
                key = node.function(value)
                if groups.get(id(node), key) != key:
                    return
                bucket = self._buckets.setdefault((id(node), key), [])
                bucket.append(value)
                given, groups = [tuple(bucket[-node.window :])], groups | {id(node): key}
            elif node.kind == "map":
                given = list(_outputs(node.function(value)))
            else:
                assert node.event_type is not None
                self.results.append(SinkResult(self._ts, node.event_type, tuple(node.function(value))))
                return
        except Exception as error:
            given = list(getattr(error, "outputs", ()))
        for each in given:
            self._pass_on(node, each, groups)


def _outputs(result: Value) -> Iterable[Value]:
    """The outputs in a result: iterators, lists and tuples without names are many, None is none, anything else is one."""
    if result is None:
        return ()
    return result if type(result) in (list, tuple) or isinstance(result, Iterator) else (result,)


def sequential(nodes: Iterable[GraphNode], events: Iterable[Event]) -> list[SinkResult]:
    """The results of a flow over ``events``, whatever their order of arrival and however often they came, in order."""
    run = SequentialRun(nodes)
    for event in sorted(first_arrivals(events), key=ORDER):
        run.take(event)
    return run.results


class FlowGraph(Protocol):
    """A flow, as far as the check needs it."""

    @property
    def nodes(self) -> Sequence[Value]: ...

    def operators(self, partitions: int = 1) -> Mapping[str, Detector]: ...


def check_flow(flow: FlowGraph, events: Iterable[Event], runs: int = 20, seed: int = 0) -> None:
    """Run a flow over ``events`` in random orders of arrival, batches and parts; compare each run with the sequential one.

    Raises AssertionError with the first result that differs, if a function of the flow breaks the rules: it gives different
    outputs for the same value, or changes a value in place. O(runs * events).
    """
    given = first_arrivals(events)
    expected = Counter(map(_shown, (_event(result) for result in sequential(flow.nodes, given))))
    policies = Policies(alpha=0.0, lateness=Lateness(floor=END))
    for number in range(runs):
        generator = Random(f"{seed}/{number}")
        arrived = generator.sample(given, len(given)) if number else sorted(given, key=ORDER)
        operators = flow.operators(1 + number % 3)
        made = run(arrived, operators, policies=policies, batch=generator.choice((1, 4, 64)), failing="skip")
        sinks = {node.event_type for node in flow.nodes if node.kind == "sink"}
        got = Counter(_shown(event) for finals in made.finals.values() for event in finals if event.__class__ in sinks)
        if got != expected:
            raise AssertionError(
                f"run {number} of seed {seed} gives {next(iter(got - expected), 'nothing')} instead of "
                f"{next(iter(expected - got), 'nothing')}: a function of the flow gives different outputs for the same value, "
                "or changes a value in place"
            )


def _event(result: SinkResult) -> Event:
    """A result of the sequential run as the event that a sink makes of it."""
    names = field_names(result.event_type)
    fields = list(result.fields)
    if "cause" in names:
        fields.insert(names.index("cause"), ())
    event: Event = msgspec.convert([*fields, result.ts, 0, "", 0], result.event_type)
    return event


def _shown(event: Event) -> str:
    """The parts of a result that count: type, time and its own fields."""
    fields = ", ".join(f"{name}={getattr(event, name)!r}" for name in field_names(event.__class__) if name != "cause")
    return f"{type_name(event.__class__)}({fields}, ts={event.ts})"
