"""From blocks back to events: those of a task in their order, lane by lane, and results as rows of a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from middleware.link.codec import encode_alike
from middleware.model.errors import EventError
from middleware.model.event import Event, EventType, type_name
from middleware.model.values.state import same_event
from middleware.spark.archive.archive_plan import ArchivePlan
from middleware.spark.archive.packing import BODY, FAILURE, UNTYPED
from middleware.spark.archive.sorting import LANE, Piece, SortOrder, by_type, in_order
from middleware.spark.by_value import load_by_value
from middleware.spark.schemas import schema_of
from middleware.spark.spark_blocks import columns_of, opened

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

AT_ONCE = 8_192
"""Events that are made, and run, at once."""


def blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int, bytes]]:
    """Detector, type and block of each row."""
    for batch in batches:
        yield from zip(*(batch.column(name).to_pylist() for name in ("detector", "type", "block")), strict=True)


def events_of(event_type: EventType, block: pa.RecordBatch) -> list[Event]:
    """The events of a block. O(values)."""
    if BODY in block.schema.names:
        return list(map(_decoder(event_type).decode, block.column(BODY).to_pylist()))
    return schema_of(event_type).events(columns_of(block))


@cache
def _decoder(event_type: EventType) -> msgspec.msgpack.Decoder[Event]:
    return msgspec.msgpack.Decoder(event_type)


class TypedResults:
    """Turns blocks of results of one type into its columns."""

    def __init__(self, event_type: bytes) -> None:
        self._type = event_type

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        event_type = load_by_value(self._type)
        for _, _, block in blocks(batches):
            batch = opened(block)
            yield schema_of(event_type).batch(events_of(event_type, batch)) if BODY in batch.schema.names else batch


class TypedBodies:
    """Turns events of one type, as msgpack in a column ``body``, into its columns."""

    def __init__(self, event_type: bytes) -> None:
        self._type = event_type

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        event_type = load_by_value(self._type)
        for batch in batches:
            yield schema_of(event_type).batch(list(map(_decoder(event_type).decode, batch.column("body").to_pylist())))


class FailureRows:
    """Turns blocks of ``FAILURE`` into rows of ``FAILED``."""

    FAILED = "detector string, type string, ts bigint, id bigint, source string, why string"

    def __init__(self, plan: bytes) -> None:
        self._plan = plan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        types = load_by_value(self._plan).types
        for detector, number, block in blocks(batches):
            assert detector == FAILURE
            rows = columns_of(opened(block))
            event_type = Event if number == UNTYPED else types[number]
            names = pa.array([type_name(event_type)] * len(rows["ts"]), pa.string())
            columns = [rows[LANE], names, rows["ts"], rows["id"], rows["source"], rows[BODY].cast(pa.string())]
            yield pa.RecordBatch.from_arrays(columns, ["detector", "type", "ts", "id", "source", "why"])


class Decoder:
    """Pieces of blocks as events, lane by lane; a row that repeats the event before it is skipped.

    Raises EventError if the two differ: nobody can say which of them came first.
    """

    def __init__(self, plan: ArchivePlan, at_once: int = AT_ONCE) -> None:
        self._types, self._at_once = plan.types, at_once
        self._last: tuple[str, Event] | None = None

    def __call__(self, piece: Piece) -> Iterator[tuple[list[Event], list[int]]]:
        """The events in a piece, at most ``at_once`` of them, with the positions at which other lanes begin."""
        import numpy as np

        piece = by_type(piece)
        order = in_order([batch for _, batch in piece])
        bounds = np.cumsum([0, *(len(batch) for _, batch in piece)])
        lanes = [batch.column(LANE) for _, batch in piece]
        piece = [(number, batch.drop_columns([LANE])) for number, batch in piece]
        for start in range(0, len(order.positions), self._at_once):
            end = start + self._at_once
            some = SortOrder(order.positions[start:end], order.new_lane[start:end], order.new_key[start:end])
            which = np.searchsorted(bounds, some.positions, "right") - 1
            rows = some.positions - bounds[which]
            first, last = (lanes[which[at]][int(rows[at])].as_py() for at in (0, -1))
            events, starts = self._distinct(self._events(piece, which, rows), some, first)
            if events:
                self._last = last, events[-1]
                yield events, starts

    def _distinct(self, events: list[Event], some: SortOrder, lane: str) -> tuple[list[Event], list[int]]:
        """The events without repeats, and the positions at which lanes begin. ``lane``: of the first."""
        import numpy as np

        starts, is_new = some.new_lane.copy(), some.new_key
        starts[0] = self._last is None or self._last[0] != lane
        repeats = np.flatnonzero(~is_new).tolist()
        if self._last is not None and not starts[0] and _stamp(self._last[1]) == _stamp(events[0]):
            repeats = [0, *(at for at in repeats if at)]
        else:
            repeats = [at for at in repeats if at]
        if not repeats:
            return events, np.flatnonzero(starts).tolist()
        for at in repeats:
            _check_repeat(events[at - 1] if at else self._last[1], events[at])  # type: ignore[index]
        kept = np.ones(len(events), bool)
        kept[repeats] = False
        return [events[at] for at in np.flatnonzero(kept).tolist()], np.flatnonzero(starts[kept]).tolist()

    def _events(self, piece: Piece, which: npt.NDArray[Any], rows: npt.NDArray[Any]) -> list[Event]:
        """The events of some rows: of the batch with this number, the row with that one."""
        import numpy as np
        import pyarrow as pa

        present = np.unique(which).tolist()
        if len(present) == 1:
            number, batch = piece[present[0]]
            return events_of(self._types[number], batch.take(pa.array(rows)))
        made = {}
        for at in present:
            number, batch = piece[at]
            made[at] = iter(events_of(self._types[number], batch.take(pa.array(rows[which == at]))))
        return [next(made[at]) for at in which.tolist()]


def _stamp(event: Event) -> tuple[int, str, int]:
    return event.ts, event.source, event.id


def _check_repeat(was: Event, now: Event) -> None:
    """Raise EventError unless these events, which have one identity and one time, are equal."""
    if type(was) is not type(now) or not (same_event(was, now) or encode_alike(was) == encode_alike(now)):
        raise EventError(
            f"two different events have source {now.source!r}, id {now.id} and ts {now.ts}: {was} and {now}; leave one of them "
            "out, or give a column arrival, so that the first to arrive counts"
        )
