"""Blocks: many events of one type in one cell of a DataFrame, as an Arrow record batch, so that Spark moves and sorts few rows."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from middleware.model.columns import values
from middleware.spark.schemas import EventSchema

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_PLAIN = ("bigint", "string", "boolean", "double")
"""Types of columns whose values are those of the field."""


def sealed(batch: pa.RecordBatch) -> bytes:
    """A record batch as bytes, in Arrow's stream format."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def opened(data: bytes) -> pa.RecordBatch:
    """The record batch of which ``sealed`` made these bytes; its columns lie in them."""
    import pyarrow as pa

    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def columns_of(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns by name."""
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def parted(batch: pa.RecordBatch, numbers: npt.NDArray[Any]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each number (from 0, one a row), in their order. O(n log n)."""
    import numpy as np
    import pyarrow as pa

    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers)) if len(numbers) else []
    whole, start = batch.take(pa.array(order)), 0
    for number, end in enumerate(ends):
        if end > start:
            yield number, whole.slice(start, int(end) - start)
        start = int(end)


def is_plain(schema: EventSchema, names: tuple[str, ...]) -> bool:
    """Whether these columns hold the values of the fields as they are, and values that can be told apart by Arrow."""
    kinds = {column.name: column.kind for column in schema.columns}
    return all(kinds[name].ddl in _PLAIN and kinds[name].out is None and kinds[name].back is None for name in names)
