"""The fields of event types, and their columns in Arrow."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

from middleware.model.errors import EventError
from middleware.model.event import EventType, field_names, type_name

if TYPE_CHECKING:
    import pyarrow as pa


def fields_of(kind: EventType) -> dict[str, Any]:
    """The types of a class's own fields, by name, in order."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in field_names(kind)}


@cache
def form_of(kind: EventType) -> int:
    """A digest of which fields a class has of its own, in which order: what both ends of a wire must agree on."""
    return form_of_fields(field_names(kind))


def form_of_fields(names: Iterable[str]) -> int:
    """The same of the names of fields."""
    return zlib.crc32(",".join(names).encode())


def arrow_schema(kind: EventType) -> pa.Schema:
    """The columns of events of a type: its fields, then ts (int64, ns), id, source. Raises EventError."""
    import pyarrow as pa

    plain = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_(), bytes: pa.binary()}

    def column(hint: Any) -> pa.DataType:
        item = item_type(hint)
        return pa.list_(column(item)) if item is not None else plain[hint]

    fields = []
    for name, hint in fields_of(kind).items():
        try:
            fields.append(pa.field(name, column(plain_type(hint)), is_optional(hint)))
        except (KeyError, TypeError):
            raise EventError(f"{type_name(kind)}.{name} is of {hint}, for which this schema has no type") from None
    return pa.schema([*fields, ("ts", pa.int64()), ("id", pa.int64()), ("source", pa.string())])


def plain_type(hint: Any) -> Any:
    """The type without None, and without what is said of it besides."""
    if get_origin(hint) is Annotated:
        return plain_type(get_args(hint)[0])
    rest = without_none(hint)
    return hint if rest is hint else plain_type(rest)


def without_none(hint: Any) -> Any:
    """The type that is left without None; a union of several others stays as it is."""
    rest = [each for each in get_args(hint) if each is not NoneType] if is_optional(hint) else []
    return rest[0] if len(rest) == 1 else hint


def is_optional(hint: Any) -> bool:
    """Whether the type allows None."""
    return get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint)


def item_type(hint: Any) -> Any:
    """The type of the items, if it is one of lists, sets or tuples of one kind."""
    if get_origin(hint) in (list, set, frozenset) or (get_origin(hint) is tuple and get_args(hint)[1:] == (...,)):
        return plain_type(get_args(hint)[0])
    return None
