"""Blocks: many events of one type in one cell of a DataFrame, as an Arrow record batch, so Spark moves and sorts few rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from middleware.spark.schemas import EventSchema

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

_KEY_TYPES = ("bigint", "string", "boolean")
"""Types of columns whose values are those of the field, and can be keys, whatever they are."""


def sealed(batch: pa.RecordBatch) -> bytes:
    """A record batch as bytes, in Arrow's stream format."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def opened(data: bytes) -> pa.RecordBatch:
    """The record batch of which ``sealed`` made these bytes; its columns lie in them."""
    import pyarrow as pa

    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def batch_of(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows, of which each has a value for each column, as a record batch. O(values)."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)], schema=schema
    )


def columns_of(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns by name."""
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def split_rows(batch: pa.RecordBatch, numbers: npt.NDArray[Any]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each number (from 0, one a row), in their order. O(n log n)."""
    import numpy as np
    import pyarrow as pa

    if not len(numbers):
        return
    if (numbers == numbers[0]).all():
        yield int(numbers[0]), batch
        return
    small = numbers.astype(np.uint16) if numbers.max() < 2**16 else numbers  # numpy sorts these by radix
    whole, start = batch.take(pa.array(np.argsort(small, kind="stable"))), 0
    for number, end in enumerate(np.cumsum(np.bincount(numbers)).tolist()):
        if end > start:
            yield number, whole.slice(start, end - start)
        start = end


def gathered(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Return the rows in batches of at least so many, but for the last one; none is empty."""
    import pyarrow as pa

    some: list[pa.RecordBatch] = []
    for batch in batches:
        some += [batch] if len(batch) else []
        if sum(map(len, some)) >= rows:
            yield pa.concat_batches(some) if len(some) > 1 else some[0]
            some = []
    if some:
        yield pa.concat_batches(some)


def are_key_columns(schema: EventSchema, names: Iterable[str]) -> bool:
    """Whether these columns hold the values of the fields as they are, each of which can be a key."""
    kinds = {column.name: column.kind for column in schema.columns}
    return all(kinds[name].ddl in _KEY_TYPES and kinds[name].out is None and kinds[name].back is None for name in names)
