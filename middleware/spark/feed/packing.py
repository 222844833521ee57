"""Columns as encoded rows: a msgpack array of arrays, written column by column in numpy.

All rows of a block have one layout: a whole number takes the narrowest form that holds all of its column, which need not be
the narrowest for each. Decoders take any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from middleware.link.codec import array_header

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

LONGEST_TEXT = 256
"""Bytes up to which texts are written column by column: a row has room for the longest of its column."""

_INTEGERS = (
    (0xCC, "u1"),
    (0xD0, "i1"),
    (0xCD, ">u2"),
    (0xD1, ">i2"),
    (0xCE, ">u4"),
    (0xD2, ">i4"),
    (0xD3, ">i8"),
    (0xCF, ">u8"),
)
"""Forms of whole numbers in msgpack, the narrowest first: the byte before the number, and its numpy type."""

_encode = msgspec.msgpack.Encoder().encode

Column = Any
"""The values of a column: an array of numbers or truth values, ``Words``, or a list of anything else."""


class Words(NamedTuple):
    """A column of texts: ``names[code]`` for each of ``codes``; the names also encoded, with their lengths in bytes."""

    codes: npt.NDArray[np.integer[Any]]
    names: list[str]
    encoded: npt.NDArray[np.bytes_]
    lengths: npt.NDArray[np.int64]

    def part(self, start: int, end: int) -> Words:
        """Some of the rows. O(1)."""
        return self._replace(codes=self.codes[start:end])


def column_of(array: pa.Array) -> Column:
    """An Arrow array as a column to be packed. O(values)."""
    import pyarrow as pa

    kind = array.type
    if array.null_count:
        return array.to_pylist()
    if pa.types.is_dictionary(kind):
        words = words_of(array)
        return words if words.encoded.itemsize <= LONGEST_TEXT else array.to_pylist()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return array.to_numpy(zero_copy_only=False)
    return array.to_pylist()


def words_of(array: pa.DictionaryArray) -> Words:
    """A column of texts, none of them null. O(values)."""
    import numpy as np

    names = array.dictionary.to_pylist()
    texts = [_encode(name) for name in names]
    return Words(array.indices.to_numpy(), names, np.array(texts), np.array(list(map(len, texts))))


def part_of(column: Column, start: int, end: int) -> Column:
    """Rows of a column, from ``start`` to before ``end``."""
    return column.part(start, end) if isinstance(column, Words) else column[start:end]


def packed(columns: Sequence[Column], rows: int) -> bytes:
    """A msgpack array of ``rows`` arrays, each with one value of each column. O(values), in Python only where one is a list."""
    if any(isinstance(column, list) for column in columns):
        return _encode(list(zip(*map(_python, columns), strict=True)))
    layout = _Layout()
    header = array_header(len(columns))
    layout.add(f"S{len(header)}", header)
    for column in columns:
        layout.add_column(column)
    return array_header(rows) + layout.packed(rows)


def _python(column: Column) -> list[Any]:
    if isinstance(column, Words):
        return list(map(column.names.__getitem__, column.codes.tolist()))
    return column if isinstance(column, list) else list(column.tolist())


class _Layout:
    """The fields of a row of bytes, and what goes into them in each row."""

    def __init__(self) -> None:
        self._kinds: list[str] = []
        self._values: list[Any] = []
        self._texts: dict[int, npt.NDArray[np.int64]] = {}
        """The fields that hold texts, with the number of bytes used in each row."""

    def add(self, kind: str, value: Any) -> None:
        """Add a field of a numpy type: an array, or one value for all rows."""
        self._kinds.append(kind)
        self._values.append(value)

    def add_column(self, column: Column) -> None:
        """Add the fields of a column."""
        if isinstance(column, Words):
            self._texts[len(self._kinds)] = column.lengths[column.codes]
            self.add(column.encoded.dtype.str, column.encoded[column.codes])
        elif column.dtype.kind == "b":
            self.add("u1", column + 0xC2)
        elif column.dtype.kind == "f":
            self.add("u1", 0xCB)
            self.add(">f8", column)
        else:
            low, high = int(column.min()), int(column.max())
            if not 0 <= low <= high < 128:
                code, kind = next(form for form in _INTEGERS if _holds(form[1], low, high))
                self.add("u1", code)
                self.add(kind, column)
            else:
                self.add("u1", column)

    def packed(self, rows: int) -> bytes:
        """All rows as bytes, without what texts do not use of their fields."""
        import numpy as np

        names = [f"f{number}" for number in range(len(self._kinds))]
        table = np.empty(rows, np.dtype(list(zip(names, self._kinds, strict=True))))
        for name, value in zip(names, self._values, strict=True):
            table[name] = value
        data = table.view(np.uint8).reshape(rows, table.itemsize)
        fields = table.dtype.fields
        assert fields is not None, "it is a table"
        keep = None
        for number, lengths in self._texts.items():
            kind, at = fields[names[number]][:2]
            if lengths.min() < kind.itemsize:
                keep = np.ones(data.shape, np.bool_) if keep is None else keep
                keep[:, at : at + kind.itemsize] = np.arange(kind.itemsize) < lengths[:, None]
        return (data if keep is None else data[keep]).tobytes()


def _holds(kind: str, low: int, high: int) -> bool:
    import numpy as np

    return bool(np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
