"""Blocks in columns: an Arrow record batch as bytes (an IPC stream of one batch), and what is checked before they are believed.

Bytes from outside are checked in three steps: the messages, before Arrow sees them (no compression, which could claim any size;
one batch, and at most one dictionary, that of the sources); then the schema; then every value (``validate(full=True)``), and
that nothing is null where nothing may be. So decoding takes memory in proportion to the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from struct import error as StructError
from struct import unpack_from
from typing import TYPE_CHECKING, Any

from middleware.model.block.rows import values
from middleware.model.errors import WireError

if TYPE_CHECKING:
    import pyarrow as pa

STAMP = ["ts", "id", "source"]
"""The columns behind the fields; ``level`` may follow."""

MOST_ROWS = 2**16
"""Most events in a block in columns."""

_MOST_SCHEMA = 2**16
"""Most bytes of a schema: Arrow takes several times as much for one with many columns."""

_MOST_NAMES = 8 * 2**20
"""Most bytes that the sources of a block's events may take, each spelled out."""

SCHEMA, DICTIONARY, BATCH = 1, 2, 3
"""Kinds of messages in Arrow's format."""


@cache
def takes_columns() -> bool:
    """Whether this process can read and write columns: it is of the extra ``tables``."""
    return find_spec("pyarrow") is not None and find_spec("numpy") is not None


def load_arrow() -> None:
    """Load Arrow, if it is there, and what it loads with its first array (pandas, where installed), so that no event waits.

    It takes a third of a second: a node does it in a thread as it starts.
    """
    if takes_columns():
        import pyarrow as pa

        pa.array([0]).to_numpy()


def pack_columns(batch: pa.RecordBatch) -> bytes:
    """The bytes of a record batch. O(bytes)."""
    import pyarrow as pa

    out, batch = pa.BufferOutputStream(), _compact(batch.replace_schema_metadata())
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(out.getvalue())


def unpack_columns(block: bytes, rows: int | None = None) -> pa.RecordBatch:
    """The record batch in a block, which must have ``rows`` rows. Raises WireError for all that is none. O(bytes)."""
    if not takes_columns():
        raise WireError("malformed columns: this process cannot read any: install slackline[tables]")
    import pyarrow as pa

    try:
        _check_messages(block, rows)
        reader = pa.ipc.open_stream(pa.py_buffer(block))
        _check_schema(reader.schema)
        batch = reader.read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, StructError, StopIteration, ValueError, OSError, IndexError) as error:
        raise WireError(f"malformed columns: {error}") from None
    _check_stamp(batch)
    return batch


def records_of(batch: pa.RecordBatch) -> list[list[Any]]:
    """The rows as they stand in blocks of rows: fields, ts, id, source, level. O(values)."""
    columns = list(map(values, batch.columns))
    if batch.num_columns < 4 or batch.schema.names[-1] != "level":
        columns.append([0] * batch.num_rows)
    return list(map(list, zip(*columns, strict=True)))


def in_wire_types(batch: pa.RecordBatch) -> pa.RecordBatch | None:
    """Return a batch with the types that columns have in blocks; None if one has none, or a value too large for it.
    O(values)."""
    import pyarrow as pa

    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        kind = column.type
        if pa.types.is_dictionary(kind) and name != "source":
            column = column.dictionary_decode()
        elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
            try:
                column = column.cast(pa.int64() if pa.types.is_integer(kind) else pa.float64())
            except pa.ArrowInvalid:
                return None
        elif name != "source" and not _is_known(kind):
            return None
        columns.append(column)
    return pa.record_batch(columns, names=batch.schema.names)


def _compact(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with few more names of sources than it needs: a slice shares the dictionary of the whole."""
    import pyarrow as pa

    at = batch.schema.get_field_index("source")
    sources = batch.column(at)
    if pa.types.is_dictionary(sources.type):
        if len(sources.dictionary) == 1 or _is_short(sources.dictionary, batch.num_rows):
            return batch
        sources = sources.cast(pa.string())
    names = sources.dictionary_encode()
    column = names if _is_short(names.dictionary, batch.num_rows, 1) else sources
    return batch.set_column(at, batch.schema.field(at).with_type(column.type), column)


def _is_short(names: pa.Array, rows: int, most: int = 4) -> bool:
    """Whether there is at most one name for each ``most`` rows, and all rows' names may be spelled out (4 bytes a letter)."""
    return most * len(names) <= rows and 4 * max(map(len, names.to_pylist()), default=0) * rows <= _MOST_NAMES


# -- before Arrow sees them ------------------------------------------------------------------------------------------------


def messages(block: bytes) -> Iterator[tuple[int, Table, int]]:
    """The messages of a block: the kind of each, what it says, and where its body begins. Raises WireError, struct.error."""
    at = 0
    while at < len(block):
        marker, size = unpack_from("<II", block, at)
        if marker != 0xFFFFFFFF or size > len(block) - at - 8:
            raise WireError("malformed columns: no message of Arrow where one should begin")
        if not size:
            break
        message = Table.root(block[at + 8 : at + 8 + size])
        kind, body, start = message.number(1, "<B"), message.number(3, "<q"), at + 8 + size
        at = start + body
        if body < 0 or at > len(block) or (kind == SCHEMA and size > _MOST_SCHEMA):
            raise WireError("malformed columns: a message that claims to be larger than it may be")
        yield kind, message.table(2), start


def _check_messages(block: bytes, rows: int | None) -> None:
    """Raise WireError unless these are a schema, at most one dictionary, and a batch of so many rows."""
    kinds, length = [], -1
    for kind, content, _ in messages(block):
        kinds.append(kind)
        if kind == SCHEMA:
            continue
        batch = content.table(1) if kind == DICTIONARY else content
        if batch.has(3) or (kind == DICTIONARY and content.number(2, "<B")):
            raise WireError("malformed columns: compressed, or in pieces; neither is taken")
        length = batch.number(0, "<q")
    if kinds not in ([SCHEMA, BATCH], [SCHEMA, DICTIONARY, BATCH]):
        raise WireError("malformed columns: a block is one schema, one batch, and at most the names of sources")
    if not 0 <= length <= MOST_ROWS or (rows is not None and rows != length):
        raise WireError(f"malformed columns: {length:,} rows where {rows if rows is not None else MOST_ROWS:,} are announced")


class Table:
    """A table of a FlatBuffer, read with all bounds checked: struct.error for what lies outside."""

    def __init__(self, data: bytes, at: int) -> None:
        if not 0 <= at <= len(data) - 4:
            raise StructError("a table that lies outside its message")
        self._data, self._at = data, at
        self._fields = at - int(unpack_from("<i", data, at)[0])
        if not 0 <= self._fields <= len(data) - 4:
            raise StructError("fields that lie outside their message")

    @classmethod
    def root(cls, data: bytes) -> Table:
        return cls(data, unpack_from("<I", data, 0)[0])

    def _place(self, field: int) -> int:
        """Where a field lies; 0 if it is not there."""
        slot = 4 + 2 * field
        if slot + 2 > unpack_from("<H", self._data, self._fields)[0]:
            return 0
        offset = int(unpack_from("<H", self._data, self._fields + slot)[0])
        return self._at + offset if offset else 0

    def has(self, field: int) -> bool:
        return self._place(field) != 0

    def number(self, field: int, form: str) -> int:
        place = self._place(field)
        return int(unpack_from(form, self._data, place)[0]) if place else 0

    def table(self, field: int) -> Table:
        place = self._place(field)
        if not place:
            raise StructError("a message without what it is to hold")
        return self._at_offset(place)

    def tables(self, field: int) -> list[Table]:
        """The tables in a vector, from the last one on, as far as there are four."""
        start, count = self._vector(field)
        return [self._at_offset(start + 4 * each) for each in range(count - 1, max(count - 5, -1), -1)]

    def pairs(self, field: int, last: int) -> list[tuple[int, int]]:
        """The last pairs of numbers in a vector of such, the last one first."""
        start, count = self._vector(field)
        if count < last:
            raise StructError("a message with less than what it is to hold")
        return [unpack_from("<qq", self._data, start + 16 * (count - each)) for each in range(1, last + 1)]

    def text(self, field: int) -> bytes:
        start, count = self._vector(field)
        return self._data[start : start + count]

    def _vector(self, field: int) -> tuple[int, int]:
        """Where the elements of a vector begin, and how many there are."""
        place = self._place(field)
        if not place:
            return 0, 0
        place += unpack_from("<I", self._data, place)[0]
        return place + 4, unpack_from("<I", self._data, place)[0]

    def _at_offset(self, place: int) -> Table:
        return Table(self._data, place + unpack_from("<I", self._data, place)[0])


# -- once it is decoded ----------------------------------------------------------------------------------------------------


def _check_schema(schema: pa.Schema) -> None:
    """Raise WireError unless the columns can be fields of events, then ts, id, source (and level)."""
    import pyarrow as pa

    names = schema.names
    stamp = [*STAMP, "level"] if names[-1:] == ["level"] else STAMP
    if names[-len(stamp) :] != stamp or len(set(names)) < len(names):
        raise WireError(f"malformed columns: the last must be {', '.join(STAMP)}, each name once")
    source = schema.field("source").type
    if pa.types.is_dictionary(source):
        source = source.value_type
    if source != pa.string() or any(schema.field(name).type != pa.int64() for name in stamp if name != "source"):
        raise WireError("malformed columns: ts, id and level are int64, source is a string")
    if strange := [field.name for field in schema if field.name != "source" and not _is_known(field.type)]:
        raise WireError(f"malformed columns: no field of an event is of {schema.field(strange[0]).type}")


def _is_known(kind: pa.DataType) -> bool:
    import pyarrow as pa

    while pa.types.is_list(kind):
        kind = kind.value_type
    return kind in (pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.binary())


def _check_stamp(batch: pa.RecordBatch) -> None:
    import pyarrow as pa

    source = batch.column("source")
    is_short = pa.types.is_dictionary(source.type)
    if any(batch.column(name).null_count for name in [*STAMP, *batch.schema.names[-1:]]) or (
        is_short and source.dictionary.null_count
    ):
        raise WireError("malformed columns: a null in ts, id, source or level")
    if is_short:
        longest = max(map(len, source.dictionary.to_pylist()), default=0)
        if longest * batch.num_rows > _MOST_NAMES:
            raise WireError("malformed columns: the names of sources would take more than a frame")
