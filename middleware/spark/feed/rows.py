"""Rows of a trace as encoded events: the executor's reads, and the bytes on the wire."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from middleware.link.codec import LARGEST_BLOCK, MOST_PLACES, BlockHead, Run
from middleware.model.event import END, NEVER
from middleware.spark.feed.groups import RowGroup, read_group, row_groups
from middleware.spark.traces import Trace, values, wire_columns

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Numbers = npt.NDArray[np.int64]
    Column = Any
    """An array of numbers, or a list of others."""

FRAME_ROWS = 4_096
"""Rows encoded at once: enough to make the cost per call negligible, few enough to stay in the cache."""


class Frame(NamedTuple):
    """All events that arrived within some time, by type; a node takes them in at once. ``last``: the last arrival."""

    blocks: list[tuple[BlockHead, bytes]]
    events: int
    last: int

    @property
    def size(self) -> int:
        """Bytes of all blocks."""
        return sum(len(block) for _, block in self.blocks)


class _Rows(NamedTuple):
    """Loaded rows: arrivals, the wire columns (numbers as arrays, others as lists), and sources by code."""

    arrivals: Numbers
    wire: list[Column]
    codes: Numbers
    names: list[str]


class TypeRows:
    """The events of one type, read by row group; the last one read stays loaded."""

    def __init__(self, path: Path, trace: Trace, name: str) -> None:
        self.name = name
        self._groups = row_groups(path, trace, name)
        self._lasts = [group.last for group in self._groups]
        self._firsts = [group.first for group in self._groups]
        self._wanted = ["arrival", *wire_columns(trace, name)]
        self._read: tuple[RowGroup, _Rows] | None = None

    def groups(self, low: int, high: int) -> list[RowGroup]:
        """The row groups that may hold arrivals from ``low`` to before ``high``."""
        return self._groups[bisect_left(self._lasts, low) : bisect_left(self._firsts, high)]

    def rows(self, group: RowGroup) -> _Rows:
        """The rows of a row group. O(rows), or O(1) for the group read last."""
        if self._read is None or self._read[0] is not group:
            arrivals, *wire = (column := read_group(group, self._wanted)).columns
            encoded = column.column("source")
            codes, names = encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
            self._read = group, _Rows(_array(arrivals), [_array(each) for each in wire], codes, names)
        return self._read[1]


class RowStream:
    """The events of one type that arrived from ``low`` to before ``high``, in arrival order."""

    def __init__(self, rows: TypeRows, low: int = NEVER, high: int = END) -> None:
        self._type, self._low, self._high = rows, low, high
        self._groups = rows.groups(low, high)
        self._rows: _Rows | None = None
        self._position = self._end = 0
        self._encode = msgspec.msgpack.Encoder().encode
        self._load()

    def _load(self) -> None:
        """Load rows, unless this is the end."""
        while self._position == self._end and self._groups:
            self._rows = self._type.rows(self._groups.pop(0))
            arrivals = self._rows.arrivals
            self._position, self._end = (int(arrivals.searchsorted(bound)) for bound in (self._low, self._high))
        if self._position == self._end:
            self._rows = None

    @property
    def following(self) -> int | None:
        """Arrival of the next event; None at the end."""
        return int(self._rows.arrivals[self._position]) if self._rows else None

    def ahead(self, rows: int) -> Column:
        """The arrivals of up to ``rows`` next events, as far as they are loaded."""
        return self._rows.arrivals[self._position : min(self._end, self._position + rows)] if self._rows else []

    @property
    def known_until(self) -> int:
        """The last loaded arrival, if more follow; END if these are all."""
        return int(self._rows.arrivals[self._end - 1]) if self._rows and self._groups else END

    def count(self, bound: int, most: int) -> int:
        """How many of the loaded events arrived up to ``bound``, at most ``most``."""
        if self._rows is None:
            return 0
        end = bisect_right(self._rows.arrivals, bound, self._position, self._end)
        return min(most, end - self._position)

    def encoded(self, count: int) -> tuple[BlockHead, bytes]:
        """The next events as a block. Its head names their identities if these are few runs: then no broker need decode it."""
        rows, start, end = self._rows, self._position, self._position + count
        assert rows is not None, "there is something to encode"
        block = self._encode(list(zip(*(_python(column[start:end]) for column in rows.wire), strict=True)))
        times = rows.wire[-3][start:end]
        runs = identity_runs(rows.codes[start:end], rows.wire[-2][start:end], rows.names)
        head = BlockHead(self._type.name, count, raw=True, runs=runs, oldest=int(times.min()), newest=int(times.max()))
        return head, block

    def skip(self, count: int) -> int:
        """Skip the next ``count`` events; returns the arrival of the last of them."""
        assert self._rows is not None, "there is something to skip"
        self._position += count
        last = int(self._rows.arrivals[self._position - 1])
        self._load()
        return last


def frames(
    types: Sequence[TypeRows], window: int | None = None, low: int = NEVER, high: int = END, most: int = FRAME_ROWS
) -> Iterator[Frame]:
    """The events that arrived from ``low`` to before ``high``, in arrival order, all types together: events after a frame
    arrived no earlier than any in it. A frame spans at most ``window`` (ns of arrival), and about ``most`` events.
    """
    import numpy as np

    streams = [RowStream(rows, low, high) for rows in types]
    while streams := [stream for stream in streams if stream.following is not None]:
        rows = most
        widest = END if window is None else min(stream.following or 0 for stream in streams) + window
        widest = min(widest, *(stream.known_until for stream in streams), END)
        while True:
            arrivals = np.concatenate([stream.ahead(rows) for stream in streams])
            bound = min(widest, int(np.partition(arrivals, rows - 1)[rows - 1])) if len(arrivals) > rows else widest
            counts = [stream.count(bound, rows) for stream in streams]
            parts = [(stream, count) for stream, count in zip(streams, counts, strict=True) if count]
            blocks = [stream.encoded(count) for stream, count in parts]
            if len(parts) > 1 and sum(counts) <= MOST_PLACES:
                _place([head for head, _ in blocks], [stream.ahead(count) for stream, count in parts])
            if rows == 1 or sum(len(block) for _, block in blocks) <= LARGEST_BLOCK:
                break
            rows //= 2
        last = max(stream.skip(count) for stream, count in parts)
        yield Frame(blocks, sum(counts), last)


def _place(heads: list[BlockHead], arrivals: list[Column]) -> None:
    """Name the places of the events of each type in the order of arrival of all."""
    import numpy as np

    order = np.argsort(np.concatenate(arrivals), kind="stable")
    places = np.empty(len(order), "<u2")
    places[order] = np.arange(len(order))
    start = 0
    for head in heads:
        head.places = places[start : start + head.inserts].tobytes()
        start += head.inserts


def identity_runs(codes: Numbers, ids: Numbers, names: list[str]) -> list[Run] | None:
    """The identities as runs; None if one occurs twice, or if there would be more than one run per four events."""
    import numpy as np

    order = np.lexsort((ids, codes))
    codes, ids = codes[order], ids[order]
    steps, same = np.diff(ids), np.diff(codes) == 0
    ends = np.flatnonzero(~same | (steps != 1))
    if len(ends) > len(ids) // 4 or (same & (steps == 0)).any():
        return None
    starts, stops = [0, *(ends + 1).tolist()], [*ends.tolist(), len(ids) - 1]
    return [(names[codes[a]], int(ids[a]), int(ids[b])) for a, b in zip(starts, stops, strict=True)]


def _array(column: pa.Array) -> Column:
    import pyarrow as pa

    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return column.to_numpy(zero_copy_only=False)
    return values(column)


def _python(column: Column) -> list[object]:
    return column if isinstance(column, list) else list(column.tolist())
