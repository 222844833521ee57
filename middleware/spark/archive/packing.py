"""Events on their way to a stage of an archive: in blocks, each for one detector, of one type, and of one part of its lanes.

A block of raw events has the columns of their type, and ``LANE``. One of derived events has ``BODY``: the lane, the order key,
and the event itself as msgpack (``body``). Results are blocks of the detector ``RESULT``; events at which a detector raised
come once, in blocks of ``FAILURE``, with the traceback as body and the detector's name as lane.
"""

from __future__ import annotations

import traceback
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from middleware.model.errors import DetectorError
from middleware.model.event import Event, type_name
from middleware.spark.archive.plan import Plan, Route
from middleware.spark.archive.sorting import LANE
from middleware.spark.blocks import batch_of, columns_of, gathered, parted, sealed
from middleware.spark.schemas import schema_of
from middleware.spark.travel import unpacked

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

RESULT, FAILURE = -1, -2
"""In place of a detector's number: results for whoever asked for the archive, and events that were left out."""

UNTYPED = -1
"""In place of a type's number: an event of which only the identity is known."""

PACKED = "part int, detector int, type int, rows int, block binary"

BODY = (LANE, "ts", "level", "source", "id", "body")

_WORD = 2**32 - 1

ROWS = 65_536
"""Raw events that are packed at once: each part gets its share of them as one block."""


class PackRaw:
    """Packs the events of one raw type for detectors by plain columns. Raw columns in, blocks out."""

    def __init__(self, plan: bytes, type_number: int, readers: Sequence[int], parts: Sequence[int]) -> None:
        self._plan, self._type, self._readers, self._parts = plan, type_number, readers, parts

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import numpy as np
        import pyarrow as pa

        plan: Plan = unpacked(self._plan)
        for batch in gathered(batches, ROWS):
            for name in ("ts", "id", "source"):
                if batch.column(name).null_count:
                    raise DetectorError(
                        f"a row of {type_name(plan.types[self._type])} has no {name}: every event must have one"
                    )
            rows = []
            for reader in self._readers:
                lanes, codes = _lanes(plan.routes[reader], batch)
                numbers = np.array([part_of(reader, lane, len(self._parts)) for lane in lanes])[codes]
                whole = batch.append_column(LANE, pa.array(lanes, pa.string()).take(pa.array(codes)))
                rows += [(self._parts[part], reader, self._type, len(own), sealed(own)) for part, own in parted(whole, numbers)]
            yield _packed(rows)


def _lanes(route: Route, batch: pa.RecordBatch) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The lanes in a batch, each by its text, and the place among them of that of each row."""
    import numpy as np

    assert route.fields is not None
    codes = np.zeros(len(batch), np.int64)
    keys: list[tuple[Any, ...]] = [()]
    for name in route.fields:
        coded = batch.column(name).dictionary_encode(null_encoding="encode")
        joint = codes * len(coded.dictionary) + coded.indices.to_numpy()
        present, codes = np.unique(joint, return_inverse=True) if len(route.fields) > 1 else (None, joint)
        values = coded.dictionary.to_pylist()
        every = range(len(values)) if present is None else present.tolist()
        keys = [(*keys[at // len(values)], values[at % len(values)]) for at in every]
    return [route.lane_of(key) for key in keys], codes


@lru_cache(65_536)
def part_of(detector: int, lane: str, parts: int) -> int:
    """The part of a lane, of so many."""
    return zlib.crc32(f"{detector} {lane}".encode()) % parts


def parts_of(count: int) -> list[int]:
    """Parts, by numbers that Spark's ``hash`` puts into as many partitions, one into each."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < count:
        found.setdefault(_hash(number) % count, number)
        number += 1
    return [found[at] for at in range(count)]


def _hash(number: int) -> int:
    """Spark's ``hash`` of an int from 0: MurmurHash3 with seed 42."""
    mixed = _rotated(number * 0xCC9E2D51, 15) * 0x1B873593
    state = (_rotated(42 ^ (mixed & _WORD), 13) * 5 + 0xE6546B64) & _WORD ^ 4  # the length in bytes
    state = (state ^ state >> 16) * 0x85EBCA6B & _WORD
    state = (state ^ state >> 13) * 0xC2B2AE35 & _WORD
    state ^= state >> 16
    return state - 2**32 if state >= 2**31 else state


def _rotated(word: int, bits: int) -> int:
    word &= _WORD
    return (word << bits | word >> 32 - bits) & _WORD


def _packed(rows: list[tuple[int, int, int, int, bytes]]) -> pa.RecordBatch:
    import pyarrow as pa

    numbers = [(name, pa.int32()) for name in ("part", "detector", "type", "rows")]
    return batch_of(rows, pa.schema([*numbers, ("block", pa.binary())]))


class RouteRaw:
    """Routes the events of one raw type to detectors whose key only Python can tell. Raw columns in, blocks out."""

    def __init__(self, plan: bytes, type_number: int, readers: Sequence[int], parts: Sequence[int]) -> None:
        self._plan, self._type, self._readers, self._parts = plan, type_number, readers, parts

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan: Plan = unpacked(self._plan)
        schema, sink = schema_of(plan.types[self._type]), Sink(plan, self._parts)
        for batch in batches:
            for event in schema.events(columns_of(batch)):
                sink.route(event, self._readers)
            if sink.rows:
                yield sink.batch()


class Sink:
    """Collects events for the next stages, and results, as msgpack."""

    def __init__(self, plan: Plan, parts: Sequence[int]) -> None:
        self._numbers = {event_type: number for number, event_type in enumerate(plan.types)}
        self._readers = [plan.readers[event_type] for event_type in plan.types]
        self._plan, self._parts = plan, parts
        self._encode = msgspec.msgpack.Encoder().encode
        self._groups: dict[tuple[int, int, int], list[tuple[Any, ...]]] = {}
        self.rows = 0

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
        number = self._numbers.get(event.__class__, UNTYPED)  # flows know of their raw events who they are, and no more
        self._add(FAILURE, detector, event, number, why.encode(errors="replace"))

    def _add(self, detector: int, lane: str, event: Event, number: int, body: bytes) -> None:
        part = self._parts[part_of(detector, lane, len(self._parts))] if detector >= 0 else 0
        row = (lane, event.ts, event.level, event.source, event.id, body)
        self._groups.setdefault((part, detector, number), []).append(row)
        self.rows += 1

    def batch(self) -> pa.RecordBatch:
        """All so far, as blocks; none are left."""
        found = [(*place, len(rows), sealed(_bodies(rows))) for place, rows in self._groups.items()]
        self._groups, self.rows = {}, 0
        return _packed(found)


def _bodies(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    import pyarrow as pa

    text, whole = pa.string(), pa.int64()
    kinds = [text, whole, whole, text, whole, pa.binary()]
    return batch_of(rows, pa.schema(zip(BODY, kinds, strict=True)))
