"""Sorts blocks by lane and total order within a bound of memory: larger inputs go to disk in sorted runs, to be merged."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from middleware.spark.spark_blocks import opened, sealed

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

LANE = "*lane"
"""The column of a block that holds the lanes' texts: no field is named so."""

KEY = (LANE, "ts", "level", "source", "id")
"""The columns by which rows are sorted."""

BUFFER_BYTES = 64 * 2**20
"""Bytes of columns that are buffered in memory, and sorted, at once."""

_CHUNK = 4_096
"""Rows of a run that are read at once."""

Piece = list[tuple[int, "pa.RecordBatch"]]
"""Record batches, each of one type, by its number. Their rows are in no order."""


class SortOrder(NamedTuple):
    """The order of a piece's rows: their positions, and whether each has another lane, or another key, than the one before."""

    positions: npt.NDArray[np.int64]
    new_lane: npt.NDArray[np.bool_]
    new_key: npt.NDArray[np.bool_]


def pieces(blocks: Iterable[tuple[int, pa.RecordBatch]], buffer_bytes: int = BUFFER_BYTES) -> Iterator[Piece]:
    """All rows, by type, in pieces: no row of a piece comes before one of an earlier piece."""
    piece: Piece = []
    size = 0
    where = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    with TemporaryDirectory(prefix="slackline-runs-", dir=where or None) as folder:
        runs: list[_Run] = []
        for number, batch in blocks:
            piece.append((number, batch))
            size += batch.nbytes
            if size >= buffer_bytes:
                runs += _spilled(piece, Path(folder, str(len(runs))))
                piece, size = [], 0
        if not runs:
            if piece:
                yield piece
            return
        runs += _spilled(piece, Path(folder, str(len(runs))))
        while runs:
            bound = min((run.last for run in runs if run.has_more), default=None)
            yield [(run.number, run.until(bound)) for run in runs]
            runs = [run for run in runs if len(run.rows)]


def in_order(batches: Sequence[pa.RecordBatch]) -> SortOrder:
    """The order of the rows of all batches, one after another. O(n log n), O(n) where times are in order."""
    import numpy as np

    lane, ts = _column(batches, LANE), _column(batches, "ts")
    positions = np.argsort(ts, kind="stable")
    small = lane.astype(np.uint16) if len(lane) and lane.max() < 2**16 else lane  # numpy sorts these by radix
    positions = positions[np.argsort(small[positions], kind="stable")]
    new_lane = _changes(lane[positions])
    new_key = new_lane | _changes(ts[positions])
    ties = ~new_key
    if ties.any():
        ties[:-1] |= ties[1:]
        rows, others = positions[ties], [_column(batches, name) for name in KEY[2:]]
        positions[ties] = rows[np.lexsort([each[rows] for each in (*reversed(others), ts, lane)])]
        for column in others:
            new_key |= _changes(column[positions])
    return SortOrder(positions, new_lane, new_key)


def _changes(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    import numpy as np

    return np.concatenate([np.ones(min(len(values), 1), bool), values[1:] != values[:-1]])


def _column(batches: Sequence[pa.RecordBatch], name: str) -> npt.NDArray[np.int64]:
    """A column of the key as numbers: for texts, their positions among all of them in order."""
    import numpy as np
    import pyarrow as pa

    if name == "level" and not any(_has_level(batch) for batch in batches):
        return np.zeros(sum(map(len, batches)), np.int64)
    given = [batch.column(name) if name != "level" or _has_level(batch) else pa.array([0] * len(batch)) for batch in batches]
    if any(column.type != given[0].type for column in given):  # what was on disk has its texts as they are
        given = [_without_dictionary(column) for column in given]
    column = pa.concat_arrays(given)
    if pa.types.is_integer(column.type):
        return column.to_numpy()  # type: ignore[no-any-return]
    coded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
    texts = coded.dictionary.to_pylist()
    ranks = np.empty(len(texts), np.int64)
    ranks[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    return ranks[coded.indices.to_numpy()]  # type: ignore[no-any-return]


def _has_level(batch: pa.RecordBatch) -> bool:
    """Whether its events have levels of their own; else all are raw."""
    return "level" in batch.schema.names


def by_type(piece: Piece) -> Piece:
    """Return the rows in one batch for each type and set of columns."""
    import pyarrow as pa

    kinds: dict[tuple[int, tuple[str, ...]], list[pa.RecordBatch]] = {}
    for number, batch in piece:
        kinds.setdefault((number, tuple(batch.schema.names)), []).append(batch)
    return [(number, pa.concat_batches(batches)) for (number, _), batches in kinds.items()]


def _without_dictionary(column: pa.Array) -> pa.Array:
    """A column without a dictionary."""
    import pyarrow as pa

    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def _spilled(piece: Piece, file: Path) -> list[_Run]:
    """A piece as sorted runs, one for each type."""
    import pyarrow as pa

    runs = []
    for at, (number, batch) in enumerate(by_type(piece)):
        rows = batch.take(pa.array(in_order([batch]).positions))
        columns = list(map(_without_dictionary, rows.columns))  # slices would repeat dictionaries
        decoded = pa.record_batch(columns, names=rows.schema.names)
        runs.append(_Run(file.with_suffix(f".{at}"), number, decoded))
    return runs


class _Run:
    """Sorted rows of one type in a file; ``rows``: those that come next, in memory; empty after the last."""

    def __init__(self, file: Path, number: int, rows: pa.RecordBatch) -> None:
        self.number = number
        self._file, self._offset, self._size = file, 0, 0
        with file.open("wb") as out:
            for start in range(0, len(rows), _CHUNK):
                data = sealed(rows.slice(start, _CHUNK))
                self._size += out.write(len(data).to_bytes(8, "little") + data)
        self.rows = self._next()

    @property
    def has_more(self) -> bool:
        return self._offset < self._size

    @property
    def last(self) -> tuple[Any, ...]:
        return self._key(len(self.rows) - 1)

    def _key(self, row: int) -> tuple[Any, ...]:
        return tuple(self.rows.column(name)[row].as_py() if name in self.rows.schema.names else 0 for name in KEY)

    def _next(self) -> pa.RecordBatch:
        with self._file.open("rb") as file:
            file.seek(self._offset)
            length = int.from_bytes(file.read(8), "little")
            self._offset += 8 + length
            return opened(file.read(length))

    def until(self, bound: tuple[Any, ...] | None) -> pa.RecordBatch:
        """Take the next rows up to a key, of those in memory; None: all of them."""
        end = len(self.rows) if bound is None else bisect_right(range(len(self.rows)), bound, key=self._key)
        taken, self.rows = self.rows.slice(0, end), self.rows.slice(end)
        if not len(self.rows) and self.has_more:
            self.rows = self._next()
        return taken
