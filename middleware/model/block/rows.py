"""Columns as rows: values of Arrow as Python has them, and events, which the core makes where it can."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, cast, get_origin

import msgspec

from middleware import native
from middleware.model.block.arrays import to_array
from middleware.model.block.recipe import recipe
from middleware.model.errors import EventError
from middleware.model.event import Event, EventType, converted, type_name
from middleware.model.schema import fields_of, without_none

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_recipe = cache(recipe)


@cache
def reader_of(event_type: EventType) -> native.BlockReader | None:
    """The reader and writer of blocks of this type in the core; None if the core has none."""
    making = _recipe(event_type)
    return native.BlockReader.of(making) if making is not None else None


class Rows(Protocol):
    """Makes the events of a batch, some at a time."""

    def events(self, start: int, stop: int) -> list[Event]:
        """Those from place ``start`` to before ``stop``, in a list of their own. O(values)."""


def rows_of(event_type: EventType, batch: pa.RecordBatch) -> Rows:
    """The events of a batch as ``Block`` has them. In the core it takes a fourth of the time."""
    if (reader := reader_of(event_type)) is not None:
        block = native.block_of(reader, native.EventBatch(batch, len(event_type.__struct_fields__) - 4))
        if block is not None:
            return block
    return PlainRows(event_type, batch)


class PlainRows:
    """Events of types that the core cannot make: all at the first call. Raises EventError if a row does not fit its type."""

    def __init__(self, event_type: EventType, batch: pa.RecordBatch) -> None:
        self._type, self._batch = event_type, batch
        self._made: list[Event] | None = None

    def events(self, start: int, stop: int) -> list[Event]:
        """See ``Rows``."""
        if self._made is None:
            lists = list(map(values, self._batch.columns))
            if needs_conversion(self._type):
                self._made = _converted(self._type, lists, self._batch.num_rows)
            else:
                self._made = _maker(self._type, len(lists))(*lists)
        return self._made[start:stop]


def values(column: pa.Array) -> list[Any]:
    """A column of Arrow as Python values, None for nulls, at C speed."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        return values(column.dictionary_decode()) if column.null_count else _decoded(column)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        found: list[Any] = to_array(column).tolist()
        for at in to_array(column.is_null()).nonzero()[0].tolist() if column.null_count else ():
            found[at] = None
        return found
    if pa.types.is_boolean(kind) and not column.null_count:
        return cast("list[Any]", to_array(column).tolist())
    if pa.types.is_string(kind) or pa.types.is_boolean(kind):
        return cast("list[Any]", column.to_numpy(zero_copy_only=False).tolist())
    return cast("list[Any]", column.to_pylist())


def source_codes(batch: pa.RecordBatch) -> tuple[list[str], np.ndarray[Any, Any]]:
    """The names of the sources of a batch of events, each once, and for each event the place of its own. O(events)."""
    import pyarrow as pa

    sources = batch.column("source")
    coded = sources if isinstance(sources, pa.DictionaryArray) else sources.dictionary_encode()
    return coded.dictionary.to_pylist(), to_array(coded.indices)


@cache
def needs_conversion(event_type: EventType) -> bool:
    """Whether a field's type says more than its column does: bounds, what is in a list, or that it is another collection."""
    return any(get_origin(without_none(hint)) is not None for hint in fields_of(event_type).values())


def _decoded(column: pa.DictionaryArray) -> list[Any]:
    """Texts encoded in a dictionary: those of one value are one object."""
    return list(map(column.dictionary.to_pylist().__getitem__, to_array(column.indices).tolist()))


def _converted(event_type: EventType, lists: list[list[Any]], length: int) -> list[Event]:
    if len(lists) == len(event_type.__struct_fields__) - 1:
        lists = [*lists, [0] * length]
    try:
        return cast("list[Event]", converted(list(zip(*lists, strict=True)), list[event_type]))  # type: ignore[valid-type]
    except msgspec.ValidationError as error:
        raise EventError(f"a row does not fit {type_name(event_type)}: {error}") from None


@cache
def _maker(event_type: EventType, columns: int) -> Callable[..., list[Event]]:
    """A function from lists of values to events. Compiled, as dataclasses do: one call an event, of its class alone."""
    own = [f"v{number}" for number in range(len(event_type.__struct_fields__) - 4)]
    stamp = ["ts", "id", "source", "level"][: columns - len(own)]
    names, given = ", ".join([*own, *stamp]), ", ".join([*own, *(f"{name}={name}" for name in stamp)])
    every = ", ".join(f"all_{name}" for name in [*own, *stamp])
    code = f"lambda {every}: [make({given}) for {names} in zip({every}, strict=True)]"
    return cast("Callable[..., list[Event]]", eval(code, {"make": event_type}))
