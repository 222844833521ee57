"""Builds flows in Python: sources, maps, windowed groupings, unions, cycles and sinks.

``Flow.operators`` gives the operators that run a flow; each grouping is partitioned over workers by key.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable

from detectors.flow.graphs.flow_checks import check
from detectors.flow.graphs.flow_drawing import as_svg, as_text
from detectors.flow.graphs.flow_graph import Annotation, FlowError, FlowNode, FlowNodeKind, Fold, FusedFold, Graph
from detectors.flow.graphs.hints import accepted, element, fold_outputs, has_field, name_of
from detectors.flow.operations.broadcast import copied, placed_type, remember, shard_of, spread
from detectors.flow.operations.flow_operator import FlowOperator, operators
from detectors.flow.operations.stateful import OUTPUTS, combine, guarded, key_of, outputs_of, states_of
from middleware.model.event import Event, EventType, Key, Value, field_names, type_name


class Stream:
    """The output of an operation. One stream may feed several operations: each gets every item (replication)."""

    def __init__(self, flow: Flow, node: FlowNode) -> None:
        self._flow, self._node = flow, node

    def map(self, function: Callable[[Value], Value], *, gives: Annotation = None, name: str | None = None) -> Stream:
        """Turn each value into any number of others.

        ``function`` returns an iterator, a list or a plain tuple of outputs; None for none; or a single output itself. It must
        always give the same outputs for the same value: it is called again to learn its outputs when the value is withdrawn.
        ``gives`` is the type of an output, if the function's annotations do not say.
        """
        given_type = element(function) if gives is None else gives
        return self._then(
            FlowNode(FlowNodeKind.MAP, name or name_of(function, "map"), function, accepted(function), given_type)
        )

    def filter(self, predicate: Callable[[Value], bool], *, name: str | None = None) -> Stream:
        """Keep the values for which ``predicate`` holds."""
        given = self._node.gives
        keep = FlowNode(
            FlowNodeKind.MAP,
            name or name_of(predicate, "filter"),
            lambda value: [value] if predicate(value) else (),
            accepted(predicate),
            given,
        )
        return self._then(keep)

    def group(self, key: Callable[[Value], Key], *, window: int, gives: Annotation = None, name: str | None = None) -> Stream:
        """Each value together with those before it that have the same key: tuples of the last ``window``, this one last."""
        if not isinstance(window, int) or window < 1:
            raise FlowError(f"group of {self._node.name!r}: window={window!r}; it is a number of items, at least 1")
        if gives is None and self._node.gives is not None:
            gives = types.GenericAlias(tuple, (self._node.gives, ...))
        return self._then(FlowNode(FlowNodeKind.GROUP, name or f"by_{name_of(key, 'key')}", key, accepted(key), gives, window))

    def union(self, *others: Stream) -> Stream:
        """The items of several streams as one, in order."""
        types = [stream._node.gives for stream in (self, *others)]
        gives = types[0] if all(given == types[0] for given in types) else None
        return self._then(FlowNode(FlowNodeKind.UNION, "union", gives=gives), *others)

    def stateful(
        self,
        fold: Fold,
        *,
        key: Callable[[Value], Key],
        gives: Annotation = None,
        name: str | None = None,
    ) -> Stream:
        """Any stateful transformation, with one state per key, as grouping, combine map and cycle (V.C and Figure 6).

        ``fold(state, value)`` returns the new state and the outputs; the first state of a key is None, and a key whose state is
        None again takes no memory once that is final. Each state is kept, so that the fold can continue from it when an item
        comes late. A mutable state is therefore handed out as a copy, which costs O(its size) per value: tuples and frozen
        structs are faster.
        """
        called, safe = name or name_of(fold, "stateful"), guarded(fold)
        cycle = self._flow.cycle(name=f"{called}.state")
        joined = self._then(FlowNode(FlowNodeKind.UNION, f"{called}.union"), cycle)
        grouped = joined._then(FlowNode(FlowNodeKind.GROUP, called, key_of(key), accepted(fold, 1), window=2))
        combined = grouped._then(FlowNode(FlowNodeKind.MAP, f"{called}.combine", combine(safe, key)))
        cycle.close(combined._then(FlowNode(FlowNodeKind.MAP, f"{called}.states", states_of)))
        given_type = gives if gives is not None else fold_outputs(fold)
        results = combined._then(FlowNode(FlowNodeKind.MAP, f"{called}{OUTPUTS}", outputs_of, gives=given_type))
        grouped._node.fused = FusedFold(safe, key, results._node)
        return results

    def alongside(
        self,
        broadcast: Stream,
        *,
        key: Callable[[Value], Key],
        shards: int = 16,
        gives: Annotation = None,
        name: str = "alongside",
    ) -> Stream:
        """Each value beside the last one of ``broadcast`` before it: plain tuples (value, last), None if there was none yet.

        ``broadcast`` goes to all parts: rules, rates or tables that change seldom, and that every part needs. This
        stream is spread by ``key`` over ``shards`` shards, which lie on all parts; each value of ``broadcast`` is
        copied to all of them. More parts than shards are of no use.
        """
        if not isinstance(shards, int) or shards < 1:
            raise FlowError(f"{name!r} of {self._node.name!r}: shards={shards!r}; it is a number, at least 1")
        mine = self.map(spread(key, shards), gives=placed_type(self._node.gives), name=f"{name}.spread")
        copies = broadcast.map(copied(shards), gives=placed_type(broadcast._node.gives), name=f"{name}.broadcast")
        return mine.union(copies).stateful(remember, key=shard_of, gives=gives or tuple, name=name)

    def sink(self, event_type: EventType, fields: Callable[[Value], Iterable[Value]] | None = None) -> None:
        """Publish each value as an event, stamped with the time of the raw event that the value ends in.

        ``fields`` gives the event's own fields from a value; without it the value is a plain tuple of them, or an object
        (a named tuple, a struct) with attributes of their names. An event type with a field ``cause`` gets the place of the
        value among those of equal time.
        """
        if not (isinstance(event_type, type) and issubclass(event_type, Event)):
            raise FlowError(f"sink of {self._node.name!r}: {event_type!r} is no event type")
        names = tuple(name for name in field_names(event_type) if name != "cause")
        if fields is None and (lacking := [name for name in names if not has_field(self._node.gives, name)]):
            raise FlowError(
                f"{type_name(event_type)}: what {self._node!r} gives has no {', '.join(lacking)}; give sink(..., fields=...)"
            )
        self._then(FlowNode(FlowNodeKind.SINK, type_name(event_type), fields or _fields(names), event_type=event_type))

    def _then(self, node: FlowNode, *others: Stream) -> Stream:
        for stream in (self, *others):
            if stream._flow is not self._flow:
                raise FlowError(f"{node!r} joins two flows: streams can only be joined within one")
            self._flow.join(stream._node, node)
        return Stream(self._flow, self._flow.add(node))


class Cycle(Stream):
    """A stream to be fed back, which is known only later. ``close`` says which one it is."""

    def close(self, stream: Stream) -> None:
        """Feed ``stream`` back. It comes out where this cycle was joined in."""
        if self._node.inputs:
            raise FlowError(f"cycle {self._node.name!r} is closed already")
        self._flow.join(stream._node, self._node)


class Flow(Graph):
    """A graph of operations: build it, check it, draw it, run it.

    >>> from slackline import Event
    >>> class Order(Event):
    ...     item: str
    ...     count: int
    >>> class Sold(Event):
    ...     item: str
    ...     total: int
    >>> def add(total, order: Order):
    ...     total = (total or 0) + order.count
    ...     return total, [(order.item, total)]
    >>> flow = Flow("shop")
    >>> flow.source(Order).stateful(add, key=lambda order: order.item).sink(Sold)
    >>> sorted(flow.operators())
    ['shop.Order', 'shop.add']
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._sources: dict[EventType, Stream] = {}
        self._operators: dict[tuple[int, int], dict[str, FlowOperator]] = {}

    def source(self, event_type: EventType) -> Stream:
        """The events of a type, raw ones or what any detector publishes: each event is a value."""
        if not (isinstance(event_type, type) and issubclass(event_type, Event)):
            raise FlowError(f"source: {event_type!r} is no event type")
        if event_type not in self._sources:
            node = FlowNode(FlowNodeKind.SOURCE, event_type.__name__, None, None, event_type, event_type=event_type)
            self._sources[event_type] = Stream(self, self.add(node))
        return self._sources[event_type]

    def cycle(self, gives: Annotation = None, name: str = "cycle") -> Cycle:
        """A stream to be joined in now and closed later (``Cycle.close``)."""
        return Cycle(self, self.add(FlowNode(FlowNodeKind.CYCLE, name, gives=gives)))

    def operators(self, partitions: int = 1) -> dict[str, FlowOperator]:
        """The operators that run this flow, by name: each stage ``flow.stage``, or in parts ``flow.stage.0`` and so on.

        Raises FlowError if the graph is not sound.
        """
        made = (partitions, self.version)
        if made not in self._operators:
            self._operators[made] = operators(self, partitions)
        return self._operators[made]

    def check(self) -> None:
        """Raise FlowError if the graph is not sound: types, keys, cycles, loose ends."""
        check(self)

    def text(self) -> str:
        """The graph drawn as text."""
        return as_text(self)

    def svg(self, partitions: int | None = None) -> str:
        """The graph drawn as SVG; with ``partitions``, how its stages are partitioned over workers."""
        return as_svg(self, partitions)


def _fields(names: tuple[str, ...]) -> Callable[[Value], Iterable[Value]]:
    def fields(value: Value) -> Iterable[Value]:
        return value if value.__class__ is tuple else [getattr(value, name) for name in names]

    return fields
