"""Compiled expressions over columns: the very code that runs event by event (``code``), read again, and run on arrays.

What arrays cannot do as Python does it (texts but for equality, most functions, whole numbers that might leave 64 bits) they
do not do: then the caller takes the events one by one.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from detectors.operator_columns import numbers, plain_kinds

if TYPE_CHECKING:
    from middleware.model.columns.columns import EventColumns

_EXACT = 2**53
"""Whole numbers up to here are floats without loss."""


class UnsuitedError(Exception):
    """Arrays cannot do this, or not with these values."""


class Values(NamedTuple):
    """A value for each event: an array, or one for all. ``there``: which of them are not NULL, in the same two forms."""

    values: Any
    there: Any = True


Run = Callable[["Columns"], Values]
"""What becomes of a piece of code."""

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


class Vector:
    """An expression on columns of events. ``code`` reads the event ``e``; its other names are those of ``names``."""

    def __init__(self, code: str, names: Mapping[str, object]) -> None:
        self._names = names
        self.field = code.removeprefix("e.") if code.startswith("e.") and code.removeprefix("e.").isidentifier() else None
        """The field that it reads, if that is all."""
        self._run: Run | None = None
        with suppress(UnsuitedError, SyntaxError, RecursionError):
            self._run = self._compiled(ast.parse(code.strip(), mode="eval").body)

    def holds(self, columns: Columns) -> Any:
        """Which events it is true for, as an array of booleans; None if arrays cannot tell."""
        import numpy as np

        found = self.values(columns)
        if found is None or not _is(found.values, "b"):
            return None
        holds = found.values if found.there is True else found.values & found.there
        return holds if isinstance(holds, np.ndarray) else np.full(len(columns), holds)

    def values(self, columns: Columns) -> Values | None:
        """Its values for all events; None if arrays cannot give them."""
        if self._run is None:
            return None
        try:
            return self._run(columns)
        except (UnsuitedError, OverflowError):
            return None

    def _compiled(self, node: ast.expr) -> Run:  # noqa: PLR0912
        match node:
            case ast.Attribute(ast.Name("e"), field):
                return lambda columns: columns.field(field)
            case ast.Constant(None):
                return lambda columns: Values(0, False)
            case ast.Constant(value):
                return lambda columns: Values(value)
            case ast.Name(name):
                return self._named(name)
            case ast.NamedExpr(ast.Name(name), value):
                return _kept(name, self._compiled(value))
            case ast.BinOp(left, sign, right) if type(sign) in _ARITHMETIC:
                return _arithmetic(_ARITHMETIC[type(sign)], self._compiled(left), self._compiled(right))
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
                return lambda columns: Values(-value)
            case ast.UnaryOp(ast.USub(), operand):
                return _arithmetic(lambda _, value: -value, lambda columns: Values(0), self._compiled(operand))
            case ast.UnaryOp(ast.Not(), operand):
                run = self._compiled(operand)
                return lambda columns: Values(_not(_truth(run(columns))))
            case ast.BoolOp(junction, operands):
                both = operator.and_ if isinstance(junction, ast.And) else operator.or_
                return _junction(both, list(map(self._compiled, operands)))
            case ast.Compare(left, signs, others):
                return self._comparison(left, signs, others)
            case ast.IfExp(test, body, otherwise):
                return _choice(self._compiled(test), self._compiled(body), self._compiled(otherwise))
            case ast.Call(ast.Name(name), arguments) if name in _CALLS:
                return _called(_CALLS[name], list(map(self._compiled, arguments)))
        raise UnsuitedError

    def _named(self, name: str) -> Run:
        if name not in self._names:
            return lambda columns: columns.temporaries[name]
        value = self._names[name]
        if value.__class__ not in (int, float, str, bool, frozenset):
            raise UnsuitedError
        return lambda columns: Values(value)

    def _comparison(self, left: ast.expr, signs: list[ast.cmpop], others: list[ast.expr]) -> Run:
        match signs, others:
            case [ast.Is()], [ast.Constant(None)]:
                is_null = self._compiled(left)
                return lambda columns: Values(_not(is_null(columns).there))
            case [ast.IsNot()], [ast.Constant(None)]:
                is_there = self._compiled(left)
                return lambda columns: Values(is_there(columns).there)
        if not all(type(sign) in _COMPARISONS for sign in signs):
            raise UnsuitedError
        runs, tests = list(map(self._compiled, [left, *others])), [_COMPARISONS[type(sign)] for sign in signs]

        def run(columns: Columns) -> Values:
            given = [each(columns).values for each in runs]
            found: Any = True
            for test, one, other in zip(tests, given, given[1:], strict=False):
                found = found & _compared(test, one, other)
            return Values(found)

        return run


class Columns:
    """Columns that expressions read, each looked up once, and intermediate values.

    ``chosen``
        the places of the events that count, in order; None: all.
    """

    def __init__(self, columns: EventColumns, chosen: Any = None, all_of_them: Columns | None = None) -> None:
        self.given, self.chosen = columns, chosen
        self.temporaries: dict[str, Values] = {}
        self._kinds = plain_kinds(columns.event_type)
        self._fields: dict[str, Values] = {}
        self._all = all_of_them

    def __len__(self) -> int:
        return len(self.given) if self.chosen is None else len(self.chosen)

    def choose(self, chosen: Any) -> Columns:
        """Only the events at these places."""
        return Columns(self.given, chosen, self)

    def field(self, field: str) -> Values:
        """A field, or ts or id. Texts are an Arrow array. Raises UnsuitedError for a field of another type."""
        found = self._fields.get(field)
        if found is None:
            found = self._fields[field] = self._read(field) if self._all is None else self._some(self._all.field(field))
        return found

    def _some(self, found: Values) -> Values:
        import numpy as np

        values = found.values[self.chosen] if isinstance(found.values, np.ndarray) else found.values.take(self.chosen)
        return Values(values, True if found.there is True else found.there[self.chosen])

    def _read(self, field: str) -> Values:
        import numpy as np

        if field in ("ts", "id"):
            return Values(self.given.times if field == "ts" else self.given.ids)
        kind = self._kinds.get(field)
        if kind is None:
            raise UnsuitedError
        if kind in (int, float):
            values, there = numbers(self.given, field)
            return Values(values, True if there is None else there.view(np.bool_))
        column = self.given.column(field)
        there = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else True
        return Values(column if kind is str else column.fill_null(False).to_numpy(zero_copy_only=False), there)


def _kept(name: str, run: Run) -> Run:
    def kept(columns: Columns) -> Values:
        found = columns.temporaries[name] = run(columns)
        return found

    return kept


def _junction(both: Callable[[Any, Any], Any], runs: list[Run]) -> Run:
    """All operands are computed, so that they must be safe where Python would not look at them; arithmetic is."""

    def run(columns: Columns) -> Values:
        found = _truth(runs[0](columns))
        for each in runs[1:]:
            found = both(found, _truth(each(columns)))
        return Values(found)

    return run


def _truth(found: Values) -> Any:
    if not _is(found.values, "b") or found.there is not True:
        raise UnsuitedError
    return found.values


def _not(flags: Any) -> Any:
    return not flags if isinstance(flags, bool) else ~flags


_KINDS: dict[type, str] = {bool: "b", int: "i", float: "f", str: "-", frozenset: "-"}


def _is(values: Any, kinds: str) -> bool:
    """Whether values are numbers (or truth values) of some kinds, as numpy calls them."""
    kind: Any = _KINDS.get(values.__class__) or getattr(getattr(values, "dtype", None), "kind", "-")
    return kind in kinds


def _most(values: Any) -> int:
    """The largest magnitude among whole numbers."""
    if isinstance(values, int):
        return abs(values)
    return max(-int(values.min(initial=0)), int(values.max(initial=0)))


def _arithmetic(do: Callable[[Any, Any], Any], one: Run, other: Run) -> Run:
    def run(columns: Columns) -> Values:
        a, b = one(columns).values, other(columns).values
        if not _is(a, "if") or not _is(b, "if"):
            raise UnsuitedError
        if _is(a, "i") and _is(b, "i"):
            most = _most(a) * _most(b) if do is operator.mul else _most(a) + _most(b)
            if most >= 2**63:
                raise UnsuitedError
        return Values(do(a, b))

    return run


def _compared(test: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """Python compares whole numbers with floats without loss; numpy makes them floats."""
    import numpy as np

    if _is(one, "if") and _is(other, "if"):
        if _is(one, "i") != _is(other, "i") and _most(one if _is(one, "i") else other) > _EXACT:
            raise UnsuitedError
        return test(one, other)
    if _is(one, "b") and _is(other, "b"):
        return test(np.asarray(one), np.asarray(other))
    if test not in (operator.eq, operator.ne) or not (_is_text(one) and _is_text(other)):
        raise UnsuitedError
    if isinstance(one, str) and isinstance(other, str):
        return test(one, other)
    import pyarrow.compute as pc

    found = pc.equal(one, other).fill_null(False).to_numpy(zero_copy_only=False)
    return found if test is operator.eq else ~found


def _is_text(values: Any) -> bool:
    return isinstance(values, str) or (hasattr(values, "type") and values.type in ("string",))


def _choice(test: Run, body: Run, otherwise: Run) -> Run:
    def run(columns: Columns) -> Values:
        import numpy as np

        chosen = _truth(test(columns))
        one, other = body(columns), otherwise(columns)
        there = (chosen & one.there) | (_not(chosen) & other.there)
        if one.there is False:
            return Values(other.values, there)
        if other.there is False:
            return Values(one.values, there)
        for kind in "bif":
            if _is(one.values, kind) and _is(other.values, kind):
                return Values(np.where(chosen, one.values, other.values), there)
        raise UnsuitedError

    return run


def _called(function: Callable[..., Values], runs: list[Run]) -> Run:
    def run(columns: Columns) -> Values:
        given = [each(columns).values for each in runs]
        if not all(_is(values, "if") for values in given):
            raise UnsuitedError
        return function(*given)

    return run


def _quotient(one: Any, other: Any) -> Values:
    """``values.quotient``: NULL by zero, or if the result is no number."""
    import numpy as np

    if any(_is(values, "i") and _most(values) > _EXACT for values in (one, other)):
        raise UnsuitedError
    with np.errstate(all="ignore"):
        found = np.true_divide(one, other)
    return Values(found, np.isfinite(found))


def _float(value: Any) -> Values:
    return Values(float(value) if isinstance(value, int | float) else value.astype("float64"))


_CALLS: dict[str, Callable[..., Values]] = {"quotient": _quotient, "float": _float}
