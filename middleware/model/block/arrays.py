"""Columns of Arrow as arrays of numpy, and back, without a copy where there need be none.

Arrow's own way loads pandas with the first one, where that is installed: 200 ms in which events wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, Any]

    ArrivalOrder = list[int] | Array
    """A whole number for each event, which rises with its arrival."""


def sound(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch itself, with every value checked. O(values).

    Raises ArrowException or ValueError if its bytes are damaged: texts, offsets, numbers of dictionaries, names. Arrow believes
    what a file says, so a damaged one ends the process, or raises far from its cause, where values are read.
    """
    sound_schema(batch.schema)
    batch.validate(full=True)
    return batch


def sound_schema(schema: pa.Schema) -> pa.Schema:
    """The schema itself. Raises ValueError if a name in it, or within a type of it, is no text: Arrow decodes it when asked."""
    fields = list(schema)
    while fields:
        field = fields.pop()
        _, kind = field.name, field.type
        fields += [kind.field(number) for number in range(kind.num_fields)]
    return schema


def integers(data: bytes) -> Array:
    """Whole numbers of 64 bits as the native core gives them, as an array that cannot be written to."""
    import numpy as np

    return np.frombuffer(data, np.int64)


def flags(data: bytes) -> Array:
    """Truth values as the native core gives them, a byte each, as an array that cannot be written to."""
    import numpy as np

    return np.frombuffer(data, np.bool_)


def to_array(column: pa.Array | pa.ChunkedArray) -> Array:
    """A column of whole numbers, floats or booleans as an array, a view of it but for booleans. A null may have any value."""
    import numpy as np
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    data, start, count = column.buffers()[1], column.offset, len(column)
    if pa.types.is_boolean(column.type):
        bits = np.frombuffer(data, np.uint8)[start // 8 : (start + count + 7) // 8] if count else np.empty(0, np.uint8)
        return np.unpackbits(bits, bitorder="little")[start % 8 : start % 8 + count].view(np.bool_)
    kind = np.dtype(column.type.to_pandas_dtype())
    return np.frombuffer(data, kind, count, start * kind.itemsize) if count and data is not None else np.zeros(count, kind)


def to_column(array: Array) -> pa.Array:
    """An array of int64, int32, float64 or bool as a column."""
    import numpy as np
    import pyarrow as pa

    if array.dtype == np.bool_:
        kind, data = pa.bool_(), np.packbits(array, bitorder="little")
    else:
        kind, data = pa.from_numpy_dtype(array.dtype), np.ascontiguousarray(array)
    return pa.Array.from_buffers(kind, len(array), [None, pa.py_buffer(data)])


def spelled(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A column with the values that it has by number spelled out; for views, Arrow has no way of its own."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        kind = column.type.value_type
        target = pa.large_string() if pa.types.is_string_view(kind) else kind
        return pa.chunked_array([spelled(chunk) for chunk in column.chunks], target)
    if pa.types.is_string_view(column.type.value_type):
        column = pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.large_string()))
    return column.dictionary_decode()


def text_column(texts: Sequence[str | None]) -> pa.Array:
    """Texts as a column: 2 GB of them at most."""
    import numpy as np
    import pyarrow as pa

    there = None
    if None in texts:
        there = pa.py_buffer(np.packbits([text is not None for text in texts], bitorder="little"))
    given = [text or "" for text in texts]
    whole = "".join(given)
    lengths = map(len, given if whole.isascii() else [text.encode() for text in given])
    ends = np.cumsum([0, *lengths], dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(given), [there, pa.py_buffer(ends), pa.py_buffer(whole.encode())])


def scalar(value: str | float) -> pa.Scalar:
    """A text, a whole number, a float or a truth value as Arrow's functions take it."""
    import numpy as np

    return (text_column([value]) if isinstance(value, str) else to_column(np.array([value])))[0]
