"""The same windows over Arrow tables and Parquet files: columns in, columns out, no Python object an event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from detectors.window.stepped import SteppedOperation, can_run
from detectors.window.windows import Windows
from middleware.errors import WindowError
from middleware.event import END, MIN_TS


class TableWindows:
    """Runs hopping or tumbling ``Windows`` over record batches with rows at most ``lateness`` (ns) out of order.

    ``late``
        how many rows came later than that; they are in no window.

    Raises WindowError for windows that the native core cannot run, or that publish more than finals.
    """

    def __init__(self, plan: Windows, *, lateness: int, ts: str = "ts") -> None:
        if not can_run(plan) or plan.emit == "change":
            raise WindowError(
                "over tables only hopping and tumbling windows run, over plain fields, with the native core built"
            )
        self.late = 0
        self._plan, self._ts, self._lateness = plan, ts, lateness
        self._operation = SteppedOperation(plan, plan.name, 1)
        self._clock = self._final = MIN_TS

    def push(self, batch: pa.RecordBatch) -> pa.Table:
        """Take rows; the results of the windows that are complete now."""
        times = _nanoseconds(batch[self._ts])
        if not len(times):
            return self._table([])
        if late := int(np.count_nonzero(times <= self._final)):
            self.late += late
            batch = batch.filter(pa.array(times > self._final))
            times = times[times > self._final]
        self._clock = max(self._clock, int(times.max(initial=self._clock)))
        self._final = max(self._final, self._clock - self._lateness)
        columns = [batch[field] for field, _ in self._operation.columns]
        return self._table(self._operation.feed(times, self._keys(batch), columns, self._final, self._final))

    def finish(self) -> pa.Table:
        """The results of all windows that are left."""
        empty = np.empty(0, dtype=np.int64)
        columns = [empty for _ in self._operation.columns]
        return self._table(self._operation.feed(empty, empty, columns, END, END))

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """The results of one batch after another, and of the rest."""
        for batch in batches:
            yield self.push(batch)
        yield self.finish()

    def _keys(self, batch: pa.RecordBatch) -> Any:
        fields = self._plan.key_fields
        if not fields:
            return ()
        if len(fields) == 1:
            column = batch[fields[0]]
            return column if pa.types.is_integer(column.type) else column.to_pylist()
        return list(zip(*(batch[field].to_pylist() for field in fields), strict=True))

    def _table(self, rows: list[tuple[Any, ...]]) -> pa.Table:
        """Results as a table: the fields of the result type, and ts."""
        names = self._plan.result.__struct_fields__[:-3]  # without id, source and level
        columns: Iterable[Any] = zip(*rows, strict=True) if rows else [()] * len(names)
        return pa.table({name: pa.array(column) for name, column in zip(names, columns, strict=False)})


def _nanoseconds(column: Any) -> Any:
    """A column of times as int64."""
    times = np.asarray(column)
    return times.astype("datetime64[ns]").view(np.int64) if times.dtype.kind == "M" else times.astype(np.int64, casting="safe")
