"""The same windows over Arrow tables and Parquet files: columns in, columns out, no Python object per event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from detectors.window.stepped import SteppedWindows, can_run
from detectors.window.steps import Row
from detectors.window.windows import Windows
from middleware.model.errors import WindowError
from middleware.model.event import END, MIN_TS, Key, Value


class TableWindows:
    """Runs hopping or tumbling ``Windows`` over record batches with rows at most ``lateness`` (ns) out of order.

    ``late``
        how many rows came later than that; no window has them.
    ``overflows``
        how many results were left out, because they have a whole number beyond 64 bits.

    All tables have the same columns, of the same types; keys have the types of the batches.

    Raises WindowError for windows that the native core cannot run, or with ``emit="change"``.
    """

    def __init__(self, plan: Windows, *, lateness: int, ts: str = "ts") -> None:
        if not can_run(plan) or plan.emit == "change":
            raise WindowError(
                "over tables only hopping and tumbling windows run, over plain fields, with the native core built"
            )
        self.late = 0
        self._plan, self._ts, self._lateness = plan, ts, lateness
        self._operation = SteppedWindows(plan, plan.name, 1, self._shown)
        self._types = {"start": pa.int64(), "end": pa.int64(), "ts": pa.int64()}
        for field, aggregate in plan.aggregates.items():
            monoid = aggregate.monoid
            is_float = monoid.name == "mean" or monoid.native is None or monoid.native[1] == "float"
            self._types[field] = pa.float64() if is_float else pa.int64()
        self._clock = self._final = MIN_TS

    def push(self, batch: pa.RecordBatch) -> pa.Table:
        """Take rows; returns the results of the windows that are complete now."""
        for field in self._plan.key_fields:
            self._types.setdefault(field, _plain_type(batch.schema.field(field).type))
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

    @property
    def overflows(self) -> int:
        return self._operation.overflows

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """The results of one batch after another, then of the remaining windows."""
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

    def _shown(self, given: Key, known: Key) -> Row:
        """A key's fields as in the batches; zero without a sign, since zeros are one key."""
        fields = given if isinstance(given, tuple) else (given,)
        kinds = [self._types[field] for field in self._plan.key_fields]
        return tuple([_of_kind(field, kind) for field, kind in zip(fields, kinds, strict=True)])

    def _table(self, rows: list[Row]) -> pa.Table:
        """Results as a table: the fields of the result type, and ts."""
        names = self._plan.result.__struct_fields__[:-3]  # without id, source and level
        columns: Iterable[Any] = zip(*rows, strict=True) if rows else [()] * len(names)
        types = [self._types.get(name) for name in names]
        return pa.table({name: pa.array(column, kind) for name, column, kind in zip(names, columns, types, strict=False)})


def _of_kind(value: Value, kind: pa.DataType) -> Value:
    if pa.types.is_boolean(kind) and value is not None:
        return bool(value)
    return 0.0 if isinstance(value, float) and value == 0 else value


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _nanoseconds(column: Any) -> Any:
    """A column of times as int64."""
    times = np.asarray(column)
    return times.astype("datetime64[ns]").view(np.int64) if times.dtype.kind == "M" else times.astype(np.int64, casting="safe")
