"""Events on their way to a stage of an archive: in blocks, each for one detector, of one type, and of one part of its lanes.

A block has the columns of its type, and ``LANE``. Events whose values no columns hold as they are have ``BODY`` instead, the
event itself as msgpack, beside the columns of the order key. Results are blocks of the detector ``RESULT``, without lanes.
Events at which a detector raised come once, in blocks of ``FAILURE``, with the traceback as body and the detector's name as
lane.
"""

from __future__ import annotations

import traceback
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from middleware.model.errors import ENDING, DetectorError
from middleware.model.event import Event, type_name
from middleware.spark.archive.archive_plan import ArchivePlan
from middleware.spark.archive.sorting import LANE
from middleware.spark.by_value import load_by_value
from middleware.spark.schemas import EventSchema, schema_of
from middleware.spark.spark_blocks import are_key_columns, batch_of, columns_of, gathered, sealed, split_rows
from middleware.spark.spark_hash import number_with_hash

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

RESULT, FAILURE = -1, -2
"""In place of a detector's number: results for whoever asked for the archive, and events that were skipped."""

UNTYPED = -1
"""In place of a type's number: an event of which only the identity is known."""

PACKED = "part int, detector int, type int, rows int, block binary"

BODY = "*body"
"""The column of a block that holds events as msgpack: no field is named so."""

ROWS = 65_536
"""Raw events that are packed at once: each part gets its share of them as one block."""

_LANES = 65_536
"""Lanes of a detector that a task remembers."""

Row = tuple[int, int, int, int, bytes]
"""The columns of ``PACKED``."""


class PackRaw:
    """Packs the events of one raw type for detectors. Raw columns in, blocks out."""

    def __init__(self, plan: bytes, type_number: int, readers: Sequence[int], parts: Sequence[int]) -> None:
        self._plan, self._type, self._readers, self._parts = plan, type_number, readers, parts

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan: ArchivePlan = load_by_value(self._plan)
        lanes = Lanes(plan, self._parts)
        for batch in gathered(batches, ROWS):
            for name in ("ts", "id", "source"):
                if batch.column(name).null_count:
                    raise DetectorError(
                        f"a row of {type_name(plan.types[self._type])} has no {name}: every event must have one"
                    )
            yield packed_rows(list(lanes.blocks(self._readers, self._type, batch)))


class Lanes:
    """Puts events into the lanes of those who read them, as blocks."""

    def __init__(self, plan: ArchivePlan, parts: Sequence[int]) -> None:
        self._plan, self._parts = plan, parts
        self._known: dict[int, dict[tuple[Any, ...], str]] = {}

    def blocks(
        self, readers: Sequence[int], number: int, batch: pa.RecordBatch, events: list[Event] | None = None
    ) -> Iterator[Row]:
        """Blocks of events of one type for those who read them. ``batch``: their columns, or ``BODY``; ``events``: the same.

        Keys that columns hold are read once a batch; others are asked for event by event, and where they raise, the
        reader's event is skipped.
        """
        schema = schema_of(self._plan.types[number])
        for reader in readers:
            if BODY not in batch.schema.names and parts_by_columns(self._plan, schema, reader):
                yield from self._split(reader, number, batch, *self._of_columns(reader, batch))
                continue
            if events is None:
                events = schema.events(columns_of(batch))
            yield from self._of_events(reader, number, batch, events)

    def _of_events(self, reader: int, number: int, batch: pa.RecordBatch, events: list[Event]) -> Iterator[Row]:
        import numpy as np
        import pyarrow as pa

        route, name = self._plan.routes[reader], self._plan.names[reader]
        numbers: dict[str, int] = {}
        failed, codes = [], []
        for event in events:
            try:
                lane = route.lane(event)
            except ENDING:
                raise
            except BaseException:
                if not route.is_sharded:
                    failed.append((name, event, traceback.format_exc(limit=-8)))
                    codes.append(-1)
                    continue
                lane = "0"  # the operator itself says what is wrong with it
            codes.append(numbers.setdefault(lane, len(numbers)))
        if failed:
            yield failures(number, failed)
        found = np.array(codes, np.int64)
        yield from self._split(reader, number, batch.filter(pa.array(found >= 0)), list(numbers), found[found >= 0])

    def _of_columns(self, reader: int, batch: pa.RecordBatch) -> tuple[list[str], npt.NDArray[Any]]:
        """The lanes in a batch, each by its text, and for each row the index of its lane."""
        import numpy as np

        route = self._plan.routes[reader]
        assert route.fields is not None
        codes = np.zeros(len(batch), np.int64)
        keys: list[tuple[Any, ...]] = [()]
        for name in route.fields:
            coded = batch.column(name).dictionary_encode(null_encoding="encode")
            values = coded.dictionary.to_pylist()
            if keys == [()]:
                keys, codes = [(value,) for value in values], coded.indices.to_numpy()
                continue
            joint = codes.astype(np.int64) * len(values) + coded.indices.to_numpy()
            present, codes = np.unique(joint, return_inverse=True)
            keys = [(*keys[at // len(values)], values[at % len(values)]) for at in present.tolist()]
        known = self._known.setdefault(reader, {})
        if len(known) > _LANES:
            known.clear()
        for key in keys:
            if key not in known:
                known[key] = route.lane_of(key)
        return [known[key] for key in keys], codes

    def _split(
        self, reader: int, number: int, batch: pa.RecordBatch, lanes: list[str], codes: npt.NDArray[Any]
    ) -> Iterator[Row]:
        """A block for each part that has some of these lanes; ``codes``: for each row the index of its lane."""
        import numpy as np
        import pyarrow as pa

        if not len(batch):
            return
        parts = np.array([part_of(reader, lane, len(self._parts)) for lane in lanes])
        names, index = np.array(lanes, object), np.empty(len(lanes), np.int32)
        whole = batch.append_column(LANE, pa.array(codes))
        for part, rows in split_rows(whole, parts[codes]):
            mine = np.flatnonzero(parts == part)
            index[mine] = np.arange(len(mine))
            lane = pa.DictionaryArray.from_arrays(index[rows.column(LANE).to_numpy()], pa.array(names[mine], pa.string()))
            columns = columns_of(rows) | {LANE: lane, "source": rows.column("source").dictionary_encode()}
            block = sealed(pa.record_batch(list(columns.values()), names=list(columns)))
            yield self._parts[part], reader, number, len(rows), block


def parts_by_columns(plan: ArchivePlan, schema: EventSchema, reader: int) -> bool:
    """Whether columns alone give the lanes of events for a reader, so that nothing can fail."""
    fields = plan.routes[reader].fields
    return fields is not None and are_key_columns(schema, fields)


@lru_cache(_LANES)
def part_of(detector: int, lane: str, parts: int) -> int:
    """The part of a lane, of so many."""
    return zlib.crc32(f"{detector} {lane}".encode()) % parts


def parts_of(count: int) -> list[int]:
    """Parts, by numbers that Spark's ``hash`` puts into as many partitions, one into each."""
    return list(map(number_with_hash, range(count)))


def packed_rows(rows: list[Row]) -> pa.RecordBatch:
    """Blocks as a batch of ``PACKED``."""
    import pyarrow as pa

    numbers = [(name, pa.int32()) for name in ("part", "detector", "type", "rows")]
    return batch_of(rows, pa.schema([*numbers, ("block", pa.binary())]))


def failures(number: int, failed: Sequence[tuple[str, Event, str]]) -> Row:
    """Events of one type that were skipped: by which detector, and why."""
    import pyarrow as pa

    rows = [(event.ts, event.source, event.id, why.encode(errors="replace"), name) for name, event, why in failed]
    kinds = [pa.int64(), pa.string(), pa.int64(), pa.binary(), pa.string()]
    schema = pa.schema(zip(("ts", "source", "id", BODY, LANE), kinds, strict=True))
    return 0, FAILURE, number, len(rows), sealed(batch_of(rows, schema))
