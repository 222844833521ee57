"""The fields of event types, and their columns in Arrow."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

from middleware.model.errors import EventError
from middleware.model.event import EventType, field_names, type_name

if TYPE_CHECKING:
    import pyarrow as pa


@cache
def hints_of(kind: EventType) -> Mapping[str, Any]:
    """The annotations of all fields of a class, inherited ones too, by name. Raises what Python does if that cannot be read.

    Looked up once: Python compiles and evaluates each annotation at every look, 0.1 ms a class.
    """
    return MappingProxyType(get_type_hints(kind, include_extras=True))


def fields_of(kind: EventType) -> dict[str, Any]:
    """The types of a class's own fields, by name, in order."""
    hints = hints_of(kind)
    return {name: hints[name] for name in field_names(kind)}


Form = int | str
"""Which fields a class has of its own, in which order: a digest of their names, or (text) this and a letter for each kind."""

_DIGITS = 8
_LETTERS = {int: "i", float: "f", str: "s", bool: "b", bytes: "y"}
_ANY = "*"
"""Stands for every other kind: what its values are on the wire is its own business."""


@cache
def form_of(kind: EventType) -> str:
    """The form of a class: what both ends of a wire must agree on. Whether None may be, and limits of values, are no part."""
    names = field_names(kind)
    try:
        hints = fields_of(kind)
    except Exception:  # one of them cannot be named here; what does not fit is found where it is read
        hints = dict.fromkeys(names)
    return f"{form_of_fields(names):0{_DIGITS}x}{''.join([_letter(hints[name]) for name in names])}"


def form_of_fields(names: Iterable[str]) -> int:
    """The form of fields of which only the names are known, as a trace gives it."""
    return zlib.crc32(",".join(names).encode())


def same_names(made: Form, read: str) -> bool:
    """Whether two forms have the same names of fields, in the same order."""
    return int(read[:_DIGITS], 16) == made if isinstance(made, int) else read[:_DIGITS] == made[:_DIGITS]


def can_read(made: Form, read: str) -> bool:
    """Whether a class of form ``read`` takes what one of form ``made`` has: whole numbers are floats, too. O(fields)."""
    if isinstance(made, int) or made == read:
        return same_names(made, read)
    pairs = zip(made[_DIGITS:], read[_DIGITS:], strict=False)
    return same_names(made, read) and all(a == b or _ANY in (a, b) or (a, b) == ("i", "f") for a, b in pairs)


def _letter(hint: Any) -> str:
    plain = plain_type(hint)
    return _LETTERS.get(plain, _ANY) if isinstance(plain, type) else _ANY


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


def time_type(is_wall_clock: bool) -> pa.DataType:
    """The column of event times in a table that people get: timestamps (UTC) where they are Unix time, else int64 (ns).

    Both hold the same 64 bits, so that no time changes on the way there and back (decision 146).
    """
    import pyarrow as pa

    return pa.timestamp("ns", "UTC") if is_wall_clock else pa.int64()


def plain_type(hint: Any) -> Any:
    """The type without None and without annotations."""
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
