"""What RETURN gives: the type of the results, and a function that makes their values of the events of a match."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from detectors.sequence.errors import QueryError
from detectors.sequence.expressions import Code, Compiled, Expressions
from detectors.sequence.functions import Kind
from detectors.sequence.schema import columns, own_fields, resolved
from detectors.sequence.syntax import Call, Field, Group, Index, Item, Query, Result
from middleware.event import Event, EventType, EventTypes

Values = Callable[..., tuple[Any, ...]]

_TYPES: dict[Kind, Any] = {Kind.INT: int, Kind.FLOAT: float, Kind.BOOL: bool, Kind.TEXT: str}


class Returned(NamedTuple):
    """What RETURN came to.

    ``values``
        the function of a match's events (by positive component) that makes the values of its result.
    ``fields``
        the same as (place among the positive components, field), if all are plain fields; else None.
    ``may_overflow``
        names of values that are calculated, and may come to whole numbers beyond 64 bits.
    """

    type: EventType
    values: Values
    fields: tuple[tuple[int, str], ...] | None
    may_overflow: tuple[str, ...]


def result_of(
    query: Query, name: str, kinds: Sequence[tuple[EventType, ...]], expressions: Expressions, types: EventTypes
) -> Returned:
    """The type of a query's results, and what makes their values."""
    result = query.result or Result(tuple(_everything(query, kinds)))
    values = [expressions.value(item.value) for item in result.items]  # what is wrong with a value shows before its name
    compiled = [(_name(item, expressions), value, item) for item, value in zip(result.items, values, strict=True)]
    names = [each[0] for each in compiled]
    for position, field in enumerate(names):
        if field in names[:position] or field in Event.__struct_fields__:
            reason = "is given twice" if field in names[:position] else "is filled in by the middleware"
            raise expressions.wrong(
                f"{field} {reason}", f"call it something else: AS my_{field}", compiled[position][2].value.at
            )
    negated = {slot for slot, component in enumerate(query.components) if component.negated}
    for _, value, item in compiled:
        if negated & set(value.slots):
            raise expressions.wrong(f"{item.value} is of a negated component: there is no such event", "", item.value)
    may_overflow = tuple([name for name, value, _ in compiled if _may_overflow(value)])
    known = resolved(result.type, types) if result.type is not None else None
    if known is not None:
        declared = types[known]
        compiled = _fitted(compiled, declared, result, expressions)
        return Returned(declared, *_values([value for _, value, _ in compiled], query), may_overflow)
    made = _made(result.type or name, [(field, value.code) for field, value, _ in compiled])
    return Returned(made, *_values([value for _, value, _ in compiled], query), may_overflow)


def _everything(query: Query, kinds: Sequence[tuple[EventType, ...]]) -> list[Item]:
    """Without RETURN: all fields of every single event as variable_field, and how many there are of the others."""
    items = []
    for component, types in zip(query.components, kinds, strict=True):
        variable = component.variable
        if component.negated or variable is None:
            continue
        if component.kleene:
            items.append(Item(Call("count", (Group(variable),)), f"{variable}_count"))
            continue
        for field in own_fields(types[0]):
            if all(field in columns(other) for other in types):
                items.append(Item(Field(variable, field), f"{variable}_{field}"))
    return items


def _name(item: Item, expressions: Expressions) -> str:
    if item.name is not None:
        return item.name
    match item.value:
        case Field(_, name, None | Index.FIRST):
            return name
        case Call("count", _):
            return "count"
        case Call(function, (Group(_, str(field)),)):
            return f"{function}_{field}"
    raise expressions.wrong("this value has no name", "write: value AS name", item.value)


def _fitted(compiled: list[Any], declared: EventType, result: Result, expressions: Expressions) -> list[Any]:
    """The values in the order of the fields of a declared type. Raises QueryError where they do not fit."""
    by_name = {name: (name, value, item) for name, value, item in compiled}
    wanted = {name: column for name, column in columns(declared).items() if name in own_fields(declared)}
    if missing := [name for name in wanted if name not in by_name]:
        raise expressions.wrong(f"{result.type} needs {', '.join(missing)}", f"its fields are {', '.join(wanted)}", result.at)
    for name, value, item in compiled:
        if name not in wanted:
            raise expressions.wrong(f"{result.type} has no field {name}", f"its fields are {', '.join(wanted)}", item.value)
        code, column = value.code, wanted[name]
        fits = code.kind == column.kind or column.kind is Kind.OTHER or (code.kind, column.kind) == (Kind.INT, Kind.FLOAT)
        if not fits:
            raise expressions.wrong(f"{result.type}.{name} is {column.kind}, but {item.value} is {code.kind}", "", item.value)
        if code.nullable and not column.nullable:
            hint = f"write coalesce({item.value}, ...), or declare the field as {name}: ... | None"
            raise expressions.wrong(f"{item.value} may be NULL, but {result.type}.{name} may not", hint, item.value)
    return [by_name[name] for name in wanted]


def _made(name: str, fields: list[tuple[str, Code]]) -> EventType:
    """A new event type with these fields; a dotted name has a namespace."""
    namespace, _, own = name.rpartition(".")
    if not re.fullmatch(r"[A-Za-z_]\w*", own):
        raise QueryError(
            f"{name!r} is no name for an event type", hint="use letters, digits and _, such as Theft or shop.Theft"
        )
    annotated: list[Any] = [(field, _annotation(code)) for field, code in fields]
    return msgspec.defstruct(  # type: ignore[return-value]
        own, annotated, bases=(Event,), namespace={"namespace": namespace, "__doc__": None}, frozen=True, module=__name__
    )


def _annotation(code: Code) -> Any:
    plain = _TYPES.get(code.kind, code.type if code.kind is Kind.OTHER and code.type is not None else Any)
    return plain | None if code.nullable and plain is not Any else plain


def _may_overflow(value: Compiled) -> bool:
    return not _is_plain(value) and value.code.kind in (Kind.INT, Kind.OTHER)


def _is_plain(value: Compiled) -> bool:
    """Whether it is a field of a single event, as it is."""
    return re.fullmatch(r"e\d+\.\w+", value.code.source) is not None


def _values(compiled: list[Compiled], query: Query) -> tuple[Values, tuple[tuple[int, str], ...] | None]:
    """One function of all positive events of a match, in order, that gives the tuple of values; and which fields those are."""
    places = {slot: place for place, slot in enumerate(s for s, c in enumerate(query.components) if not c.negated)}
    names = ", ".join(f"e{slot}" for slot in places)
    constants: dict[str, Any] = {f"f{number}": value.call for number, value in enumerate(compiled)}
    parts = []
    fields = []
    for number, value in enumerate(compiled):
        source = value.code.source
        is_plain = _is_plain(value)
        if is_plain:
            fields.append((places[value.slots[0]], source.partition(".")[2]))
        parts.append(source if is_plain else f"f{number}({', '.join(f'e{slot}' for slot in value.slots)})")
    exec(f"def values({names}):\n return ({''.join(part + ', ' for part in parts)})", constants)
    return constants["values"], tuple(fields) if len(fields) == len(compiled) else None
