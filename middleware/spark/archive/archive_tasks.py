"""The tasks of executors: blocks of events, sorted by lane and total order, go through the detectors; results come out as
blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from middleware.model.change import Delta
from middleware.model.detector import constants, fresh, key_function, takes_batches
from middleware.model.errors import DetectorError
from middleware.model.event import END, Event, Key
from middleware.model.identity import Derivation
from middleware.model.operator import Operator
from middleware.ordering.lanes.batch_lane import BatchLane
from middleware.ordering.lanes.lane import Counts, Lane, LaneState, Settings
from middleware.ordering.lanes.lanes import keyed_lanes
from middleware.ordering.lanes.operation_lane import OperatorLane
from middleware.ordering.lanes.ready_events import ReadyEvents
from middleware.spark.archive.archive_plan import ArchivePlan
from middleware.spark.archive.decoding import AT_ONCE, Decoder, blocks
from middleware.spark.archive.sorting import BUFFER_BYTES, pieces
from middleware.spark.archive.task_results import TaskResults
from middleware.spark.by_value import load_by_value
from middleware.spark.spark_blocks import opened

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 16_384
"""Results that are sent back at once."""

_KEPT = 4_096
"""Events of a lane that are kept, once its detector has raised, to go back to before one at which it raises again."""


class RunLanes:
    """Runs a stage on some parts: blocks in order of detectors. Memory: one lane, ``at_once`` events, and ``buffer_bytes``."""

    def __init__(self, plan: bytes, parts: Sequence[int], buffer_bytes: int = BUFFER_BYTES, at_once: int = AT_ONCE) -> None:
        self._plan, self._parts, self._buffer_bytes, self._at_once = plan, parts, buffer_bytes, at_once

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan: ArchivePlan = load_by_value(self._plan)
        sink = TaskResults(plan, self._parts)
        for number, rows in groupby(blocks(batches), itemgetter(0)):
            name = plan.names[number]
            classes, lanes, decode = constants(plan.detectors[name]), _lanes(plan, number), Decoder(plan, self._at_once)
            for piece in pieces(((kind, opened(block)) for _, kind, block in rows), self._buffer_bytes):
                for events, starts in decode(piece):
                    lanes.take(events, starts, sink)
                    if sink.rows >= ROWS:
                        yield sink.batch()
            lanes.end(sink)
            classes.check(name)
        if sink.rows:
            yield sink.batch()


def _lanes(plan: ArchivePlan, number: int) -> _LanesInOrder | _OneByOne:
    detector = plan.detectors[plan.names[number]]
    by_itself = isinstance(detector, Operator) or takes_batches(type(detector))
    return _OneByOne(plan, number) if by_itself else _LanesInOrder(plan, number)


def _key(plan: ArchivePlan, number: int) -> Callable[[Event], Key] | None:
    """The key that distinguishes a detector's results; None if it has none."""
    return None if plan.routes[number].is_single else key_function(plan.detectors[plan.names[number]])


class _LanesInOrder:
    """The lanes of a detector, one after another. No more is kept of each than its state before the events at hand.

    Where the detector raises, its lane goes back to that, and is run with its history from there on.
    """

    def __init__(self, plan: ArchivePlan, number: int) -> None:
        self._plan, self._number = plan, number
        name = plan.names[number]
        self._lanes = keyed_lanes(name, plan.detectors[name], plan.level[name], Settings(), _key(plan, number))
        self._state: tuple[Any, ...] | None = None
        self._failed: _DetectorLane | None = None

    def take(self, events: list[Event], starts: list[int], sink: TaskResults) -> None:
        """Events in order; ``starts``: the positions at which other lanes begin than that of the events before."""
        at, ends = 0, [*starts, len(events)]
        if self._failed is not None and ends[0]:
            at = ends[0]
            self._failed.take(events[:at], sink)
        while at < len(events):
            if self._failed is not None:
                self._failed.end(sink)
                self._failed = None
            results: list[Event] = []
            done, state = self._lanes.run_lanes(events[at:], [start - at for start in starts if start >= at], results)
            sink.publish(results)
            before = self._state if at + done not in starts else None
            self._state = state
            at += done
            if state is None:
                end = next(end for end in ends if end > at)
                self._failed = _DetectorLane(self._plan, self._number, events[at], before)
                self._failed.take(events[at:end], sink)
                at = end

    def end(self, sink: TaskResults) -> None:
        if self._failed is not None:
            self._failed.end(sink)


class _OneByOne:
    """The lanes of an operator, or of a detector on columns, one after another."""

    def __init__(self, plan: ArchivePlan, number: int) -> None:
        self._plan, self._number = plan, number
        self._lane: _DetectorLane | _OperatorLane | None = None

    def take(self, events: list[Event], starts: list[int], sink: TaskResults) -> None:
        """Events in order; ``starts``: the positions at which other lanes begin than that of the events before."""
        bounds = [*([] if starts[:1] == [0] else [0]), *starts, len(events)]
        for start, end in pairwise(bounds):
            if self._lane is None or start in starts:
                self.end(sink)
                self._lane = self._made(events[start])
            self._lane.take(events[start:end], sink)

    def end(self, sink: TaskResults) -> None:
        if self._lane is not None:
            self._lane.end(sink)

    def _made(self, first: Event) -> _DetectorLane | _OperatorLane:
        name = self._plan.names[self._number]
        detector = self._plan.detectors[name]
        if isinstance(detector, Operator):
            return _OperatorLane(name, detector, self._plan.level[name])
        return _DetectorLane(self._plan, self._number, first, None)


class _DetectorLane:
    """One lane of a detector, with the events to go back to where it raises. ``state``: to begin with, if it has run before."""

    def __init__(self, plan: ArchivePlan, number: int, first: Event, state: tuple[Any, ...] | None) -> None:
        self._name = plan.names[number]
        self._counts = Counts()
        detector, key = plan.detectors[self._name], _key(plan, number)
        derive = Derivation(self._name, detector, plan.level[self._name], key(first) if key is not None else None)
        settings = Settings(spacing=_KEPT, stop_on_error=self._name in plan.stops)
        kind = BatchLane if takes_batches(type(detector)) else Lane
        self._lane = kind(fresh(detector), derive, settings, self._counts, detector.snapshot())
        if state is not None:
            self._lane.restore(LaneState([], [], [(0, state)], state, None))

    def take(self, events: list[Event], sink: TaskResults) -> None:
        for delta in self._lane.extend(events, END, 0):
            sink.publish(delta.inserts)
        if len(self._lane.history) >= _KEPT:
            self._purge(sink)

    def end(self, sink: TaskResults) -> None:
        if self._counts.failures:
            self._purge(sink)

    def _purge(self, sink: TaskResults) -> None:
        for failed in self._lane.purge(END):
            sink.fail(failed.cause, self._name, failed.failure or "")


class _OperatorLane:
    """An operator, whose input is final as it comes; the latest moment is kept back until it is complete."""

    def __init__(self, name: str, operator: Operator, level: int) -> None:
        self._name = name
        self._lane = OperatorLane(name, operator, level)
        self._waiting: list[Event] = []
        self._open: dict[int, Event] = {}  # results that time may still change

    def take(self, events: list[Event], sink: TaskResults) -> None:
        self._waiting += events
        last = self._waiting[-1].ts
        ready = [event for event in self._waiting if event.ts < last]
        if ready:
            self._waiting = self._waiting[len(ready) :]
            self._pass(ready, last - 1, sink)

    def end(self, sink: TaskResults) -> None:
        ready, self._waiting = self._waiting, []
        self._pass(ready, END, sink)

    def _pass(self, ready: list[Event], until: int, sink: TaskResults) -> None:
        self._lane.advance(until, until)
        deltas = self._lane.emit(ReadyEvents(ready, []), [], until, 0)
        if self._lane.stopped is not None:
            raise DetectorError(f"{self._name} raised, and nothing more comes of it\n\n{self._lane.stopped}")
        for delta in deltas:
            self._apply(delta)
        for failed in self._lane.purge(until):
            sink.fail(failed.cause, self._name, failed.failure or "")
        final = [event for event in self._open.values() if event.ts <= until]
        for event in final:
            del self._open[event.id]
        sink.publish(final)

    def _apply(self, delta: Delta) -> None:
        for event in delta.retracts:
            self._open.pop(event.id, None)
        self._open |= {event.id: event for event in (*(new for _, new in delta.revises), *delta.inserts)}
