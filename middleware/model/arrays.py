"""Columns of Arrow as arrays of numpy, and back, without a copy where there need be none.

Arrow's own way loads pandas with the first one, where that is installed: 200 ms in which events wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, Any]

    Places = list[int] | Array
    """A whole number for each event: where it stands in an order."""


def integers(data: bytes) -> Array:
    """Whole numbers of 64 bits as the native core gives them, as an array that cannot be written to."""
    import numpy as np

    return np.frombuffer(data, np.int64)


def to_array(column: pa.Array) -> Array:
    """A column of whole numbers, floats or booleans as an array, a view of it but for booleans. What is null is any value."""
    import numpy as np
    import pyarrow as pa

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
        wanted = pa.large_string() if pa.types.is_string_view(kind) else kind
        return pa.chunked_array([spelled(chunk) for chunk in column.chunks], wanted)
    if pa.types.is_string_view(column.type.value_type):
        column = pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.large_string()))
    return column.dictionary_decode()


def text_column(texts: list[str]) -> pa.Array:
    """Texts as a column."""
    import numpy as np
    import pyarrow as pa

    data = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, data)], dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(texts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(data))])
