"""What executors do: blocks of events, sorted by lane and total order, go through the detectors; results come out as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

from middleware.model.change import Delta
from middleware.model.detector import Detector, constants, fresh, key_function, takes_batches
from middleware.model.errors import DetectorError, EventError
from middleware.model.event import END, Event, type_name
from middleware.model.identity import Derivation
from middleware.model.operator import Operator
from middleware.model.state import same_event
from middleware.ordering.batches import BatchLane
from middleware.ordering.lane import Counts, Lane, Settings
from middleware.ordering.operation import OperatorLane, Ready
from middleware.spark.archive.packing import BODY, FAILURE, UNTYPED, Sink
from middleware.spark.archive.plan import Plan
from middleware.spark.archive.sorting import HELD, LANE, Piece, by_type, in_order, pieces
from middleware.spark.blocks import columns_of, opened
from middleware.spark.schemas import schema_of
from middleware.spark.travel import unpacked

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 16_384
"""Events that are made at once, and results that are sent back at once."""

_KEPT = 4_096
"""Events of a lane that are kept, to go back to before one at which the detector raises."""


class RunLanes:
    """Runs a stage on some parts: blocks in order of detectors. Memory: one lane, a batch of events, and ``held`` bytes."""

    def __init__(self, plan: bytes, parts: Sequence[int], held: int = HELD) -> None:
        self._plan, self._parts, self._held = plan, parts, held

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan: Plan = unpacked(self._plan)
        sink = Sink(plan, self._parts)
        for number, rows in groupby(_blocks(batches), itemgetter(0)):
            name = plan.names[number]
            held = constants(plan.detectors[name])
            decode = Decoder(plan)
            place: str | None = None
            lane: _DetectorLane | _OperatorLane | None = None
            for piece in pieces(((kind, opened(block)) for _, kind, block in rows), self._held):
                for at, events in decode(piece):
                    if at != place or lane is None:
                        if lane is not None:
                            lane.end(sink)
                        place, lane = at, _lane(plan, number, events[0])
                    lane.take(events, sink)
                    if sink.rows >= ROWS:
                        yield sink.batch()
            if lane is not None:
                lane.end(sink)
            held.check(name)
        if sink.rows:
            yield sink.batch()


def _blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int, bytes]]:
    """Detector, type and block of each row."""
    for batch in batches:
        yield from zip(*(batch.column(name).to_pylist() for name in ("detector", "type", "block")), strict=True)


class Failures:
    """Turns blocks of ``FAILURE`` into rows of ``FAILED``."""

    FAILED = "detector string, type string, ts bigint, id bigint, source string, why string"

    def __init__(self, plan: bytes) -> None:
        self._plan = plan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        types = unpacked(self._plan).types
        for detector, number, block in _blocks(batches):
            assert detector == FAILURE
            rows = columns_of(opened(block))
            event_type = Event if number == UNTYPED else types[number]
            names = pa.array([type_name(event_type)] * len(rows["ts"]), pa.string())
            why = rows["body"].cast(pa.string())
            columns = [rows[LANE], names, rows["ts"], rows["id"], rows["source"], why]
            yield pa.RecordBatch.from_arrays(columns, ["detector", "type", "ts", "id", "source", "why"])


class TypedResults:
    """Turns results of one type, as msgpack in a column ``body``, into its own columns."""

    def __init__(self, event_type: bytes) -> None:
        self._type = event_type

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        event_type = unpacked(self._type)
        schema, decode = schema_of(event_type), msgspec.msgpack.Decoder(event_type).decode
        for batch in batches:
            yield schema.batch([decode(body) for body in batch.column("body").to_pylist()])


class Bodies:
    """Turns blocks of results into rows with a ``body``."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, _, block in _blocks(batches):
            yield opened(block).select(["body"])


class Decoder:
    """Pieces of blocks as events, lane by lane; a row that repeats the event before it is left out.

    Raises EventError if the two differ: nobody can say which of them came first.
    """

    def __init__(self, plan: Plan) -> None:
        self._types = plan.types
        self._decoders = [msgspec.msgpack.Decoder(event_type).decode for event_type in plan.types]
        self._last: tuple[tuple[Any, ...], Event] | None = None

    def __call__(self, piece: Piece) -> Iterator[tuple[str, list[Event]]]:
        """The lanes in a piece, each by its text, with some of its events, of which at most ``ROWS`` are made at once."""
        import numpy as np

        piece = by_type(piece)
        batches = [batch for _, batch in piece]
        order = in_order(batches)
        starts = np.cumsum([0, *map(len, batches)])
        lanes = [batch.column(LANE) for batch in batches]
        for start in range(0, len(order.places), ROWS):
            stop = min(start + ROWS, len(order.places))
            places = order.places[start:stop]
            which = np.searchsorted(starts, places, "right") - 1
            events = self._events(piece, which, places - starts[which])
            new, changed = order.new_key[start:stop].copy(), order.new_lane[start:stop].copy()
            changed[0] = True
            texts = [lanes[which[at]][int(places[at] - starts[which[at]])].as_py() for at in np.flatnonzero(changed)]
            firsts = np.flatnonzero(changed).tolist()
            new[0] = self._last is None or self._last[0] != (texts[0], *_stamp(events[0]))
            for at in np.flatnonzero(~new).tolist():
                assert at or self._last is not None
                _check_repeat(events[at - 1] if at else self._last[1], events[at])  # type: ignore[index]
            self._last = (texts[-1], *_stamp(events[-1])), events[-1]
            for text, first, end in zip(texts, firsts, [*firsts[1:], len(events)], strict=True):
                own = events[first:end]
                if not new[first:end].all():
                    own = [event for event, is_new in zip(own, new[first:end].tolist(), strict=True) if is_new]
                if own:
                    yield text, own

    def _events(self, piece: Piece, which: Any, rows: Any) -> list[Event]:
        """The events of some rows: of the batch with this number, the row with that one."""
        import numpy as np
        import pyarrow as pa

        present = np.unique(which).tolist()
        if len(present) == 1:
            number, batch = piece[present[0]]
            return self._of_type(number, batch.take(pa.array(rows)))
        events: list[Any] = [None] * len(rows)
        for at in present:
            mine = np.flatnonzero(which == at)
            number, batch = piece[at]
            for row, event in zip(mine.tolist(), self._of_type(number, batch.take(pa.array(rows[mine]))), strict=True):
                events[row] = event
        return events

    def _of_type(self, number: int, batch: pa.RecordBatch) -> list[Event]:
        if batch.schema.names == list(BODY):
            return list(map(self._decoders[number], batch.column("body").to_pylist()))
        return schema_of(self._types[number]).events(columns_of(batch))


def _stamp(event: Event) -> tuple[int, str, int]:
    return event.ts, event.source, event.id


def _check_repeat(was: Event, now: Event) -> None:
    """Raise EventError unless these events, which have one identity and one time, are equal."""
    if type(was) is not type(now) or not same_event(was, now):
        raise EventError(
            f"two different events have source {now.source!r}, id {now.id} and ts {now.ts}: {was} and {now}; leave one of them "
            "out, or give a column arrival, so that the first to arrive counts"
        )


def _lane(plan: Plan, number: int, first: Event) -> _DetectorLane | _OperatorLane:
    name = plan.names[number]
    detector, level = plan.detectors[name], plan.level[name]
    if isinstance(detector, Operator):
        return _OperatorLane(name, detector, level)
    key = key_function(detector)
    value = key(first) if key is not None and not plan.routes[number].is_single else None
    return _DetectorLane(name, detector, level, value, name in plan.stops)


class _DetectorLane:
    """One key of a detector, in order."""

    def __init__(self, name: str, detector: Detector, level: int, key: Any, stops: bool) -> None:
        self._name = name
        self._counts = Counts()
        derive = Derivation(name, detector, level, key)
        settings = Settings(spacing=_KEPT, stop_on_error=stops)
        kind = BatchLane if takes_batches(type(detector)) else Lane
        self._lane = kind(fresh(detector), derive, settings, self._counts, detector.snapshot())

    def take(self, events: list[Event], sink: Sink) -> None:
        for start in range(0, len(events), ROWS):
            for delta in self._lane.extend(events[start : start + ROWS], END, 0):
                sink.publish(delta.inserts)
            if len(self._lane.history) >= _KEPT:
                self._purge(sink)

    def end(self, sink: Sink) -> None:
        if self._counts.failures:
            self._purge(sink)

    def _purge(self, sink: Sink) -> None:
        for failed in self._lane.purge(END):
            sink.fail(failed.cause, self._name, failed.failure or "")


class _OperatorLane:
    """An operator, whose input is final as it comes; the latest moment is kept back until it is complete."""

    def __init__(self, name: str, operator: Operator, level: int) -> None:
        self._name = name
        self._lane = OperatorLane(name, operator, level)
        self._waiting: list[Event] = []
        self._open: dict[int, Event] = {}  # results that time may still change

    def take(self, events: list[Event], sink: Sink) -> None:
        self._waiting += events
        last = self._waiting[-1].ts
        ready = [event for event in self._waiting if event.ts < last]
        if ready:
            self._waiting = self._waiting[len(ready) :]
            self._pass(ready, last - 1, sink)

    def end(self, sink: Sink) -> None:
        ready, self._waiting = self._waiting, []
        self._pass(ready, END, sink)

    def _pass(self, ready: list[Event], until: int, sink: Sink) -> None:
        self._lane.advance(until, until)
        deltas = self._lane.emit(Ready(ready, []), [], until, 0, until)
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
