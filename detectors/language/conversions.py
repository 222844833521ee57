"""CAST: converts values of one type to another; NULL where there is no sensible value."""

from __future__ import annotations

from collections.abc import Callable

from detectors.language import values
from detectors.language.code import number_of
from detectors.language.value_types import INTEGERS, LIMITS, NUMBERS, Type
from middleware.model.event import Value


def caster(source: Type, target: Type) -> Callable[[Value], Value] | None:
    """The function for an explicit conversion, which gives NULL for values it cannot convert; None if there is none."""
    if target in LIMITS:
        limit = LIMITS[target]
        to_integer: dict[Type, Callable[[Value], int | None]] = {
            Type.STRING: values.text_integer,
            Type.CHAR: number_of,
            Type.BOOLEAN: int,
            Type.DATETIME: int,
            Type.NULL: int,
        }
        convert = to_integer.get(source, values.whole)
        return lambda value: None if (made := convert(value)) is None else values.within(made, limit)
    if target is Type.FLOAT:
        wide = caster(source, Type.DOUBLE) if source is not Type.DOUBLE else float
        return None if wide is None else lambda value: None if (made := wide(value)) is None else values.single(made)
    table: dict[tuple[Type | None, Type], Callable[[Value], Value]] = {
        (Type.STRING, Type.DOUBLE): values.text_number,
        (Type.STRING, Type.BOOLEAN): values.text_boolean,
        (Type.STRING, Type.DATETIME): values.to_datetime,
        (Type.STRING, Type.CHAR): lambda text: text if len(text) == 1 else None,
        (Type.DATETIME, Type.STRING): values.datetime_text,
        (Type.BOOLEAN, Type.STRING): lambda value: "true" if value else "false",
        (Type.CHAR, Type.STRING): str,
        (Type.CHAR, Type.DOUBLE): lambda value: None if (number := number_of(value)) is None else float(number),
        (Type.LONG, Type.DATETIME): values.in_calendar,
        (Type.INT, Type.DATETIME): values.in_calendar,
        **{(kind, Type.CHAR): values.character for kind in INTEGERS},
        **{(kind, Type.STRING): str if kind in INTEGERS else values.number_text for kind in NUMBERS},
        **{(kind, Type.DOUBLE): float for kind in NUMBERS},
        **{(kind, Type.BOOLEAN): bool for kind in NUMBERS},
        **{(Type.NULL, kind): str for kind in Type},
    }
    return table.get((source, target))
