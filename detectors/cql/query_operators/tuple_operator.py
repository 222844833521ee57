"""The operator of queries that look at one tuple at a time: projection, selection, copies, merges. It keeps no state.

A tuple gives the same result whenever it comes, so a withdrawn tuple withdraws its result, which is computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush

from detectors.cql.changes import SourceHashes, packed, unpacker
from detectors.cql.planning.query_plan import TuplePlan
from detectors.cql.query_operators.native_rows import in_core_else_compiled, projection
from detectors.cql.query_operators.query_operator import QueryOperator
from detectors.cql.query_operators.tuple_columns import MappedColumns
from detectors.outcomes import difference
from middleware.model.change import Delta
from middleware.model.event import Event, EventType
from middleware.model.later import Later
from middleware.model.operator import Operation, Origin, Snapshot
from middleware.model.values.carried import holds_numbers

_Mapped = Callable[[list[Event]], list[Event]]


class MappingOperator(QueryOperator[TuplePlan]):
    """The operator of a ``TuplePlan``."""

    def start(self, name: str, level: int) -> MappingOperation:
        return (MappingOperation if self.plan.time is None else ArrivalOperation)(self.plan, name, level)


class MappingOperation(Operation):
    """Runs a batch through one list comprehension. O(changes)."""

    def __init__(self, plan: TuplePlan, name: str, level: int) -> None:
        super().__init__()
        self._hashes = SourceHashes(Origin(name, level))
        self._known: dict[str, int] = {}  # the same content as a plain dict, which compiled code reads faster
        self._columns = MappedColumns(plan, self._hashes, name, level)
        self._of: dict[EventType, _Mapped] = {}
        self.is_carried = holds_numbers(plan.target.event_type)
        for stream, columns in zip(plan.sources, (plan.columns, *plan.others), strict=True):
            one = TuplePlan(plan.name, plan.target, columns, plan.frame, (stream,), plan.where)
            test = f" if {plan.where.holds}" if plan.where is not None else ""
            ts = "e.ts" if plan.time is None else f"max(e.ts, {plan.time.value} or e.ts)"
            result = one.constructor(ts, "known_[e.source] ^ e.id", repr(name), str(level))
            more = {"known_": self._known, "max": max}
            compiled = plan.frame.define(f"def made(events):\n    return [{result} for e in events{test}]\n", more)
            in_core = projection(one, ("e",), name, level) if plan.time is None else None
            if in_core is not None:
                compiled = in_core_else_compiled(self, partial(in_core.of_tuples, hashes=self._known), compiled)
            self._of[stream.event_type] = compiled
            self.is_carried &= in_core is not None

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        if delta.columns is not None and not delta.retracts and (results := self._columns.of(delta.columns)) is not None:
            return Delta(results)
        inserts = self._mapped(delta.inserts)
        return Delta(inserts) if not delta.retracts else difference(self._mapped(delta.retracts), inserts)

    def _mapped(self, events: list[Event]) -> list[Event]:
        if len(self._of) == 1 or not events:
            return self._run(next(iter(self._of.values())), events)
        mapped = []
        for event_type, of_type in self._of.items():
            mapped += self._run(of_type, [event for event in events if event.__class__ is event_type])
        return mapped

    def _run(self, compiled: _Mapped, events: list[Event]) -> list[Event]:
        try:
            return compiled(events)
        except KeyError:  # a source not seen before
            self._known.update((source, self._hashes[source]) for source in {event.source for event in events})
            return compiled(events)

    def snapshot(self) -> Snapshot:
        return None

    def restore(self, state: Snapshot) -> None:
        """There is no state."""


class ArrivalOperation(MappingOperation):
    """Results have the time at which their tuples arrived, and wait until it has come. O(log n) each."""

    def __init__(self, plan: TuplePlan, name: str, level: int) -> None:
        super().__init__(plan, name, level)
        self._unpack = unpacker(plan.target.event_type)
        self._waiting: dict[int, Event] = {}
        self._heap: list[tuple[int, int]] = []

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        before = [event for event in self._mapped(delta.retracts) if self._waiting.pop(event.id, None) is None]
        for event in self._mapped(delta.inserts):
            self._waiting[event.id] = event
            heappush(self._heap, (event.ts, event.id))
        after: list[Event] = []
        while self._heap and self._heap[0][0] <= emitted:
            ts, number = heappop(self._heap)
            due = self._waiting.get(number)
            if due is not None and due.ts == ts:  # else it was withdrawn, or came again with another time
                after.append(self._waiting.pop(number))
        return difference(before, after)

    @property
    def held(self) -> int:
        return len(self._waiting)

    def snapshot(self) -> Snapshot:
        return Later(packed, list(self._waiting.values()))

    def restore(self, state: Snapshot) -> None:
        self._waiting = {event.id: event for event in self._unpack(state)}
        self._heap = sorted((event.ts, event.id) for event in self._waiting.values())
