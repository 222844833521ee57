"""RETURN: the type of the results, and a function that makes their values from the events of a match."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from detectors.language.code import CodeFrame
from detectors.language.query_errors import QueryError
from detectors.language.tree import Call, Name, SyntaxNode, names
from detectors.language.value_types import PYTHON, Type, converts
from detectors.sequence.grammar.syntax import FieldReference, Index, QueryTree, ReturnClause, ReturnItem
from detectors.sequence.planning.field_kinds import columns, own_fields, resolved
from detectors.sequence.planning.sequence_expressions import CompiledExpression, Expressions
from middleware.model.event import Event, EventType, EventTypes, Value

Values = Callable[..., tuple[Value, ...]]


Valued = tuple[str, CompiledExpression, ReturnItem]
"""The name of a value of RETURN, the value, and its item."""


class CompiledReturn(NamedTuple):
    """The compiled RETURN.

    ``values``
        the function of a match's events (by positive component) that makes the values of its result.
    ``fields``
        the same as (place among the positive components, field), if all are plain fields; else None.
    """

    type: EventType
    values: Values
    fields: tuple[tuple[int, str], ...] | None


def result_of(
    query: QueryTree, name: str, kinds: Sequence[tuple[EventType, ...]], expressions: Expressions, types: EventTypes
) -> CompiledReturn:
    """The type of a query's results, and the function that makes their values."""
    result = query.result or ReturnClause(tuple(_everything(query, kinds)))
    values = [expressions.value(item.value) for item in result.items]  # errors in a value come before errors in its name
    compiled = [(_name(item), value, item) for item, value in zip(result.items, values, strict=True)]
    fields = [each[0] for each in compiled]
    for position, field in enumerate(fields):
        if field in fields[:position] or field in Event.__struct_fields__:
            reason = "is given twice" if field in fields[:position] else "is filled in by the middleware"
            span = compiled[position][2].value.span
            raise QueryError(f"{field} {reason}: call it something else: AS my_{field}", span)
    negated = {slot for slot, component in enumerate(query.components) if component.negated}
    for _, value, item in compiled:
        if negated & set(value.slots):
            raise QueryError(f"{item.value} is of a negated component: there is no such event", item.value.span)
    known = resolved(result.type, types) if result.type is not None else None
    if known is not None:
        compiled = _fitted(compiled, types[known], result)
        made = types[known]
    else:
        made = _made(
            result.type or name, [(field, _annotation(value, item.value, expressions)) for field, value, item in compiled]
        )
    return CompiledReturn(made, *_values([value for _, value, _ in compiled], query))


def _everything(query: QueryTree, kinds: Sequence[tuple[EventType, ...]]) -> list[ReturnItem]:
    """Without RETURN: all fields of every single event as variable_field, and counts of the Kleene components."""
    items = []
    for component, types in zip(query.components, kinds, strict=True):
        variable = component.variable
        if component.negated or variable is None:
            continue
        if component.kleene:
            items.append(ReturnItem(Call("count", (Name(variable),)), f"{variable}_count"))
            continue
        for field in own_fields(types[0]):
            if all(field in columns(other) for other in types):
                items.append(ReturnItem(FieldReference(field, variable), f"{variable}_{field}"))
    return items


def _name(item: ReturnItem) -> str:
    if item.name is not None:
        return item.name
    match item.value:
        case FieldReference(name, _, None | Index.FIRST):
            return name
        case Call("count", _):
            return "count"
        case Call(function, (FieldReference(field, _, Index.ALL),)):
            return f"{function}_{field}"
    raise QueryError("this value has no name: write value AS name", item.value.span)


def _fitted(compiled: list[Valued], declared: EventType, result: ReturnClause) -> list[Valued]:
    """The values in the order of the fields of a declared type. Raises QueryError if they do not fit."""
    by_name = {name: (name, value, item) for name, value, item in compiled}
    expected = {name: column.kind for name, column in columns(declared).items() if name in own_fields(declared)}
    if missing := [name for name in expected if name not in by_name]:
        raise QueryError(f"{result.type} needs {', '.join(missing)} (its fields are {', '.join(expected)})", result.span)
    for name, value, item in compiled:
        if name not in expected:
            raise QueryError(f"{result.type} has no field {name} (its fields are {', '.join(expected)})", item.value.span)
        code, own = value.code, expected[name]
        if own.type is not Type.ANY and not converts(code.type, own.type):
            hint = f"CAST({item.value} AS {own})"
            raise QueryError(f"{result.type}.{name} is a {own}, and this is a {code.type}: {hint}", item.value.span)
        if code.nullable and not own.nullable:
            hint = f"write coalesce({item.value}, ...), or declare the field as {name}: ... | None"
            raise QueryError(f"{item.value} may be NULL, but {result.type}.{name} may not: {hint}", item.value.span)
    return [by_name[name] for name in expected]


def _made(name: str, fields: list[tuple[str, Any]]) -> EventType:
    """A new event type with these fields and annotations; a dotted name has a namespace."""
    namespace, _, own = name.rpartition(".")
    if not re.fullmatch(r"[^\W\d]\w*", own):
        raise QueryError(f"{name!r} is no name for an event type: use letters, digits and _, such as Theft or shop.Theft")
    return msgspec.defstruct(  # type: ignore[return-value]
        own, fields, bases=(Event,), namespace={"namespace": namespace, "__doc__": None}, frozen=True, module=__name__
    )


def _annotation(value: CompiledExpression, node: SyntaxNode, expressions: Expressions) -> Any:
    """The annotation of a field with this value; if the language has no type for it, that of the field it comes from."""
    plain = PYTHON.get(value.code.type)
    if plain is None:
        read = [name for name in names(node) if isinstance(name, FieldReference) and name.name]
        plain = expressions.variables[read[0].variable].columns[read[0].name].annotation if read else Any
    return plain | None if value.code.nullable and plain is not Any else plain


def _plain_field(value: CompiledExpression) -> str | None:
    """The field of a single event that it is, unchanged; None if it is another value."""
    return value.code.field_of(f"e{value.slots[0]}") if len(value.slots) == 1 else None


def _values(compiled: list[CompiledExpression], query: QueryTree) -> tuple[Values, tuple[tuple[int, str], ...] | None]:
    """One function of all positive events of a match, in order, that gives the tuple of values; and which fields those are."""
    places = {slot: place for place, slot in enumerate(s for s, c in enumerate(query.components) if not c.negated)}
    names = ", ".join(f"e{slot}" for slot in places)
    calls = {f"f{number}": value.call for number, value in enumerate(compiled)}
    parts = []
    fields = []
    for number, value in enumerate(compiled):
        field = _plain_field(value)
        if field is not None:
            fields.append((places[value.slots[0]], field))
        events = ", ".join(f"e{slot}" for slot in value.slots)
        parts.append(value.code.value if field is not None else f"f{number}({events})")
    values = CodeFrame().define(f"def made({names}):\n return ({''.join(part + ', ' for part in parts)})\n", calls)
    return values, tuple(fields) if len(fields) == len(compiled) else None
