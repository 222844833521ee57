"""What executors do: rows sorted by lane and total order go through the detectors, and their results come out as rows.

Rows on their way have the columns of ``ROUTED``: the detector's number and the lane they are for, the order key, the number of
their type, and the event itself as msgpack (``body``), or, for raw types, as a struct named ``raw`` and the type's number.
Results have the same form: one row for each reader further up, and one with the number ``RESULT``. Events at which a detector
raised come out once, as ``FAILURE``, with the traceback as body and the detector's name as lane.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from functools import partial
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
from middleware.spark.archive.plan import Plan
from middleware.spark.schemas import STAMP, schema_of
from middleware.spark.travel import unpacked

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

RESULT, FAILURE = -1, -2
"""In place of a detector's number: a result for whoever asked for the archive, and an event that was left out."""

ROUTED = "detector int, lane string, ts bigint, level bigint, source string, id bigint, type int, body binary"

ROWS = 8_192
"""Rows that are sent back at once."""

_KEPT = 4_096
"""Events of a lane that are kept, to go back to before one at which the detector raises."""


def raw_column(number: int) -> str:
    """The column that holds a raw type's own fields, as a struct."""
    return f"raw{number}"


class RunLanes:
    """Runs a stage on one partition: rows sorted by detector, lane and total order. Memory: one lane, and a batch of rows."""

    def __init__(self, plan: bytes) -> None:
        self._plan = plan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan: Plan = unpacked(self._plan)
        decode = Decoder(plan)
        sink = Sink(plan)
        started: dict[int, Any] = {}
        place: tuple[int, str] | None = None
        lane: _DetectorLane | _OperatorLane | None = None
        for batch in batches:
            for at, events in decode(batch):
                if at != place:
                    if lane is not None:
                        lane.end(sink)
                    place, lane = at, _lane(plan, at[0], events[0])
                    started.setdefault(at[0], constants(plan.detectors[plan.names[at[0]]]))
                assert lane is not None
                lane.take(events, sink)
                if sink.rows >= ROWS:
                    yield sink.batch()
        if lane is not None:
            lane.end(sink)
        for number, held in started.items():
            held.check(plan.names[number])
        if sink.rows:
            yield sink.batch()


class RouteRaw:
    """Routes the events of one raw type to detectors whose key only Python can tell. Raw columns in, routed rows out."""

    def __init__(self, plan: bytes, type_number: int, readers: Sequence[int]) -> None:
        self._plan, self._type, self._readers = plan, type_number, readers

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan: Plan = unpacked(self._plan)
        schema, sink = schema_of(plan.types[self._type]), Sink(plan)
        for batch in batches:
            for event in schema.events(dict(zip(batch.schema.names, batch.columns, strict=True))):
                sink.route(event, self._readers)
            if sink.rows:
                yield sink.batch()


class TypedResults:
    """Turns results of one type, as rows with a body, into its own columns."""

    def __init__(self, plan: bytes, type_number: int) -> None:
        self._plan, self._type = plan, type_number

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        event_type = unpacked(self._plan).types[self._type]
        schema, decode = schema_of(event_type), msgspec.msgpack.Decoder(event_type).decode
        for batch in batches:
            yield schema.batch([decode(body) for body in batch.column("body").to_pylist()])


class Decoder:
    """Routed rows as events, lane by lane; a row that repeats the event before it is left out.

    Raises EventError if the two differ: nobody can say which of them came first.
    """

    def __init__(self, plan: Plan) -> None:
        self._types = plan.types
        self._decoders = [msgspec.msgpack.Decoder(event_type).decode for event_type in plan.types]
        self._last: tuple[tuple[Any, ...], Event] | None = None

    def __call__(self, batch: pa.RecordBatch) -> Iterator[tuple[tuple[int, str], list[Event]]]:
        """The lanes in a batch, each by the detector's number and its text, with its events."""
        import numpy as np
        import pyarrow as pa

        if not batch.num_rows:
            return
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name in ("ts", "id", "source"):
            if columns[name].null_count:
                raise DetectorError(f"a row of {self._name_of(columns, name)} has no {name}: every event must have one")
        lanes = columns["lane"].dictionary_encode()
        sources = columns["source"].dictionary_encode()
        parts = [columns["detector"], lanes.indices, columns["ts"], columns["id"], sources.indices, columns["type"]]
        detector, lane, ts, number, source, kind = (part.to_numpy() for part in parts)
        place_changes = (np.diff(detector) != 0) | (np.diff(lane) != 0)
        new = np.ones(batch.num_rows, bool)
        new[1:] = place_changes | (np.diff(ts) != 0) | (np.diff(number) != 0) | (np.diff(source) != 0)
        first, last = (
            tuple(columns[name][at].as_py() for name in ("detector", "lane", "ts", "id", "source")) for at in (0, -1)
        )
        events = self._events(columns, kind)
        before = self._last
        new[0], self._last = before is None or first != before[0], (last, events[-1])
        if not new.all():
            for at in np.flatnonzero(~new).tolist():
                _check_repeat(events[at - 1] if at or before is None else before[1], events[at])
            events = [event for event, is_new in zip(events, new.tolist(), strict=True) if is_new]
        counts = np.concatenate([[0], np.cumsum(new)])
        starts = np.concatenate([[0], np.flatnonzero(place_changes) + 1, [batch.num_rows]])
        texts = lanes.dictionary.to_pylist()
        assert isinstance(lanes, pa.DictionaryArray)
        for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            if some := events[counts[start] : counts[stop]]:
                yield (int(detector[start]), texts[lane[start]]), some

    def _name_of(self, columns: dict[str, Any], missing: str) -> str:
        at = columns[missing].is_null().to_pylist().index(True)
        return type_name(self._types[columns["type"][at].as_py()])

    def _events(self, columns: dict[str, pa.Array], kind: npt.NDArray[np.int32]) -> list[Event]:
        """The events of all rows, in their order."""
        import numpy as np
        import pyarrow as pa

        present = np.unique(kind).tolist()
        if len(present) == 1:
            return self._of_type(present[0], columns)
        events: list[Any] = [None] * len(kind)
        for number in present:
            rows = np.flatnonzero(kind == number)
            picked = {name: column.take(pa.array(rows)) for name, column in columns.items() if name != "lane"}
            for row, event in zip(rows.tolist(), self._of_type(number, picked), strict=True):
                events[row] = event
        return events

    def _of_type(self, number: int, columns: dict[str, Any]) -> list[Event]:
        raw = columns.get(raw_column(number))
        if raw is None:
            return list(map(self._decoders[number], columns["body"].to_pylist()))
        own = dict(zip([part.name for part in raw.type], raw.flatten(), strict=True))
        return schema_of(self._types[number]).events(own | {name: columns[name] for name in STAMP})


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


class Sink:
    """Collects rows for the next stages."""

    def __init__(self, plan: Plan) -> None:
        self._numbers = {event_type: number for number, event_type in enumerate(plan.types)}
        self._readers = [plan.readers[event_type] for event_type in plan.types]
        self._plan = plan
        self._encode = partial(msgspec.msgpack.Encoder().encode)
        self._columns: list[list[Any]] = [[] for _ in range(8)]

    @property
    def rows(self) -> int:
        return len(self._columns[0])

    def publish(self, events: list[Event]) -> None:
        """Take results: one row for each reader, and one for the archive itself."""
        for event in events:
            number = self._numbers[event.__class__]
            body = self._body(event)
            if body is None:
                continue
            self._add(RESULT, "", event, number, body)
            if readers := self._readers[number]:
                self._route(event, readers, number, body)

    def route(self, event: Event, readers: Sequence[int]) -> None:
        """Take a raw event: one row for each of these readers."""
        body = self._body(event)
        if body is not None:
            self._route(event, readers, self._numbers[event.__class__], body)

    def _body(self, event: Event) -> bytes | None:
        try:
            return self._encode(event)
        except (OverflowError, ValueError, TypeError) as error:  # as between nodes, it is left out, and that is told
            self.fail(event, event.source, f"{type_name(event.__class__)} cannot be encoded: {error}")
            return None

    def _route(self, event: Event, readers: Sequence[int], number: int, body: bytes) -> None:
        for reader in readers:
            try:
                lane = self._plan.routes[reader].lane(event)
            except Exception:
                if not self._plan.routes[reader].is_sharded:
                    self.fail(event, self._plan.names[reader], traceback.format_exc(limit=-8))
                    continue
                lane = "0"  # the operator itself says what is wrong with it
            self._add(reader, lane, event, number, body)

    def fail(self, event: Event, detector: str, why: str) -> None:
        """Take an event that a detector left out."""
        self._add(FAILURE, detector, event, self._numbers[event.__class__], why.encode(errors="replace"))

    def _add(self, detector: int, lane: str, event: Event, number: int, body: bytes) -> None:
        row = (detector, lane, event.ts, event.level, event.source, event.id, number, body)
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)

    def batch(self) -> pa.RecordBatch:
        """All rows so far, as a record batch; none are left."""
        import pyarrow as pa

        text, whole, small = pa.string(), pa.int64(), pa.int32()
        types = [small, text, whole, whole, text, whole, small, pa.binary()]
        names = ["detector", "lane", "ts", "level", "source", "id", "type", "body"]
        arrays = [pa.array(column, kind) for column, kind in zip(self._columns, types, strict=True)]
        self._columns = [[] for _ in range(8)]
        return pa.RecordBatch.from_arrays(arrays, names)
