"""Rows of a trace as encoded events: what an executor reads, and the bytes that go on the wire."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from middleware.spark.traces import Trace, columns, values, wire_columns

MAX_ROWS = 8_192
"""Rows encoded at once: enough to make the work per call vanish, few enough to stay in the cache."""


READ_ROWS = 16_384
"""Rows read at once: a paced feed must not stop for long to read."""

Run = tuple[str, int, int]
"""Identities of a source: all ids from the first to the last."""


class Encoded(NamedTuple):
    """Events of one type as a msgpack array of arrays.

    ``clock``, ``last``
        the largest ts among them; the last arrival.
    ``runs``
        their identities, if these are few runs of ids without a repeat: a broker then need not read the events.
    """

    type_name: str
    records: bytes
    events: int
    clock: int
    last: int
    runs: list[Run] | None


class _Rows(NamedTuple):
    """Rows at hand: arrivals, the columns of the wire (arrays of numbers, lists of others), and sources by code."""

    arrivals: Any
    wire: list[Any]
    codes: Any
    names: list[str]


def assign(sources: dict[str, int], partitions: int) -> list[list[str]]:
    """Sources by partition, so that all have about as many events: the biggest first, each to the lightest so far.

    A source stays in one partition, so its events keep their order. O(sources * partitions).
    """
    shares: list[list[str]] = [[] for _ in range(partitions)]
    loads = [0] * partitions
    for source, events in sorted(sources.items(), key=lambda item: (-item[1], item[0])):
        lightest = loads.index(min(loads))
        shares[lightest].append(source)
        loads[lightest] += events
    return shares


class RowStream:
    """The events of one type and some sources, in arrival order."""

    def __init__(self, path: Path, trace: Trace, type_name: str, sources: Collection[str] | None = None) -> None:
        self.type_name = type_name
        self._batches = _batches(path, trace, type_name, sources)
        self._encode = msgspec.msgpack.Encoder().encode
        self._rows: _Rows | None = next(self._batches, None)
        self._position = 0

    @property
    def following(self) -> int | None:
        """Arrival of the next event; None at the end."""
        return int(self._rows.arrivals[self._position]) if self._rows else None

    def take(self, bound: int) -> Encoded | None:
        """The next events that arrive up to ``bound``, at most ``MAX_ROWS``; None if there is none."""
        rows, start = self._rows, self._position
        if rows is None or rows.arrivals[start] > bound:
            return None
        end = min(start + MAX_ROWS, int(rows.arrivals.searchsorted(bound, "right")))
        records = self._encode(list(zip(*(_python(column[start:end]) for column in rows.wire), strict=True)))
        clock, last = int(rows.wire[-3][start:end].max()), int(rows.arrivals[end - 1])
        runs = identity_runs(rows.codes[start:end], rows.wire[-2][start:end], rows.names)
        self._position = end
        if end == len(rows.arrivals):
            self._rows, self._position = next(self._batches, None), 0
        return Encoded(self.type_name, records, end - start, clock, last, runs)


def identity_runs(codes: Any, ids: Any, names: list[str]) -> list[Run] | None:
    """The identities as runs; None if one occurs twice, or if there would be more than one run for four events."""
    import numpy as np

    order = np.lexsort((ids, codes))
    codes, ids = codes[order], ids[order]
    steps, same = np.diff(ids), np.diff(codes) == 0
    ends = np.flatnonzero(~same | (steps != 1))
    if len(ends) > len(ids) // 4 or (same & (steps == 0)).any():
        return None
    starts, stops = [0, *(ends + 1).tolist()], [*ends.tolist(), len(ids) - 1]
    return [(names[codes[a]], int(ids[a]), int(ids[b])) for a, b in zip(starts, stops, strict=True)]


def _batches(path: Path, trace: Trace, type_name: str, sources: Collection[str] | None) -> Iterator[_Rows]:
    """The rows of some sources, in arrival order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = None if sources is None else pa.array(sorted(sources), pa.string())
    for batch in columns(path, trace, type_name, ["arrival", *wire_columns(trace, type_name)], READ_ROWS):
        if wanted is not None:
            encoded = batch.column("source")
            mine = pc.is_in(encoded.dictionary.cast(pa.string()), wanted)
            batch = batch.filter(mine.take(encoded.indices))
        if batch.num_rows:
            arrivals, *wire = map(_array, batch.columns)
            encoded = batch.column("source")
            yield _Rows(arrivals, wire, encoded.indices.to_numpy(), encoded.dictionary.to_pylist())


def _array(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return column.to_numpy(zero_copy_only=False)
    return values(column)


def _python(column: Any) -> Sequence[Any]:
    listed: Sequence[Any] = column if isinstance(column, list) else column.tolist()
    return listed
