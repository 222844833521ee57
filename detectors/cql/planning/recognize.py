"""Plans MATCH_RECOGNIZE: the meaning of names in DEFINE and MEASURES.

Code reads rows ``r`` in total order, the place ``s`` of the first row of the match, the place ``i`` of the current one (in
MEASURES: the last), and ``l``, the numbers of the variables of the rows from ``s`` to ``i``.
"""

from __future__ import annotations

from collections.abc import Sequence

from detectors.cql.catalog import TS
from detectors.cql.grammar import statements as s
from detectors.cql.grammar.pattern import is_endless, variables
from detectors.cql.planning.scopes import NESTED, RangeVariable, StreamScope
from detectors.language.aggregate_functions import NAMES, aggregate, values_code
from detectors.language.code import Code, CodeFrame
from detectors.language.compiler import Analysis
from detectors.language.expression import (
    NULL,
    Assignment,
    Comparison,
    Conditional,
    ConstantValue,
    Expression,
    FunctionCall,
    Parenthesis,
    Variable,
)
from detectors.language.query_errors import QueryError, nearest
from detectors.language.tree import Call, Literal, Name, SyntaxNode, calls, names
from detectors.language.value_types import Type, ValueKind
from middleware.model.event import Event
from middleware.model.words import listed

_MOVES = ("prev", "next", "first", "last")


def last_place(first: int, labels: Sequence[int], variable: int, back: int) -> int:
    """The place of the last row of a variable (-1: of any), or of the one ``back`` such rows before; -1 if there is none."""
    for at in range(len(labels) - 1, -1, -1):
        if variable in (-1, labels[at]):
            if not back:
                return first + at
            back -= 1
    return -1


def first_place(first: int, labels: Sequence[int], variable: int, ahead: int) -> int:
    """The place of the first row of a variable (-1: of any), or of the one ``ahead`` such rows after; -1 if there is none."""
    for at, label in enumerate(labels):
        if variable in (-1, label):
            if not ahead:
                return first + at
            ahead -= 1
    return -1


def rows_of(rows: Sequence[Event], first: int, labels: Sequence[int], variable: int) -> list[Event]:
    """The rows of a variable (-1: all)."""
    return [rows[first + at] for at, label in enumerate(labels) if variable in (-1, label)]


_MATCH = Variable("s"), Variable("l")
"""The names in code of a match: the place of its first row, and the variables that its rows are of."""


def _number(value: int) -> ConstantValue:
    return ConstantValue(str(value), value)


def _place(move: str, variable: int, count: int) -> FunctionCall:
    """The place of the first or last row of a variable, or one that is so many rows further."""
    return FunctionCall(f"{move}_place", [*_MATCH, _number(variable), _number(count)])


class RowScope:
    """The scope of DEFINE and MEASURES. ``back``: how many rows before the first PREV may look at."""

    def __init__(self, source: RangeVariable, known: Sequence[str], frame: CodeFrame) -> None:
        self._known = {name.lower(): number for number, name in enumerate(known)}
        self._names = tuple(known)
        self._rows = StreamScope([source], NESTED)
        self._frame = frame
        self.back = 0
        frame.globals.update(last_place=last_place, first_place=first_place, rows_of=rows_of)

    def variable(self, name: Name) -> int:
        """The number of the variable that a name is qualified by; -1 if it is not. Raises QueryError if there is none."""
        if name.qualifier is None:
            return -1
        number = self._known.get(name.qualifier.lower())
        if number is None:
            hint = f"{nearest(name.qualifier, self._names)} (the pattern has {listed(self._names)})"
            raise QueryError(f"unknown variable {name.qualifier!r}{hint}", name.span)
        return number

    def attribute(self, name: Name) -> Code:
        if self.variable(name) < 0:
            return self._field(name, "r[i]")
        return self._at(name, _place("last", self.variable(name), 0))

    def call(self, call: Call) -> Code | None:
        if call.name == "classifier" and not call.arguments:
            return Code(Expression(f"{self._frame.constant(self._names)}[l[-1]]"), ValueKind(Type.STRING))
        if call.name in ("match_number", "classifier"):
            raise QueryError(f"{call.name} is not supported: CLASSIFIER() names the variable of the last row", call.span)
        if call.name in _MOVES:
            return self._moved(call)
        return self._aggregated(call) if call.name in NAMES else None

    def _field(self, name: Name, event: str) -> Code:
        _, attribute = self._rows.resolve(Name(name.name, span=name.span))
        return attribute.code(event)

    def _at(self, node: SyntaxNode, place: Expression, back: int = 0) -> Code:
        """The value of an expression at a row, which is ``back`` rows before a place; NULL if there is no such row."""
        row, at = self._frame.temporary(), self._frame.temporary()
        inner = _OneRow(self, row)
        code = self._frame.sealed(Analysis(inner, self._frame).visit(node))
        value = Expression(f"({row} := r[{at} - {back}], {code.value})[1]")
        is_there = Comparison(">=", Assignment(at, place), _number(back))
        return Code(Parenthesis(Conditional(is_there, value, NULL)), ValueKind(code.type, True))

    def _moved(self, call: Call) -> Code:
        """FIRST, LAST: a row of the variable; PREV: rows before that."""
        if not 1 <= len(call.arguments) <= 2:
            raise QueryError(f"{call.name} takes an expression, and how many rows further", call.span)
        node, *rest = call.arguments
        count = (
            rest[0].value if rest and isinstance(rest[0], Literal) and rest[0].type is Type.INT else (1 if not rest else None)
        )
        if not isinstance(count, int):
            raise QueryError(f"{call.name} takes a whole number of rows", call.span)
        if call.name == "next":
            raise QueryError("NEXT would have to wait for rows that have not come: use PREV in a later variable", call.span)
        if call.name != "prev":
            return self._at(node, _place(call.name, self._of(node), count if rest else 0))
        self.back = max(self.back, count)
        base = "last"
        if isinstance(node, Call) and node.name in ("first", "last") and len(node.arguments) == 1:
            base, node = node.name, node.arguments[0]
        variable = self._of(node)
        return self._at(node, Variable("i") if base == "last" and variable < 0 else _place(base, variable, 0), count)

    def _of(self, node: SyntaxNode) -> int:
        """The one variable that an expression reads. Raises QueryError if there are several."""
        found = {self.variable(name) for name in names(node)}
        if len(found) > 1:
            raise QueryError("this reads rows of several variables: take each by itself", node.span)
        return found.pop() if found else -1

    def _aggregated(self, call: Call) -> Code:
        made_of = call.arguments[0] if call.arguments else call
        variable = self._of(call)
        inner = _OneRow(self, "g")
        arguments = [self._frame.sealed(Analysis(inner, self._frame).visit(each)) for each in call.arguments]
        made = aggregate(call.name, arguments, call.is_star, call.span, call.is_distinct)
        if any(each.name in NAMES for each in calls(made_of) if each is not call):
            raise QueryError(NESTED.format(name=call.name), call.span)
        fold, rows = self._frame.constant(made.fold), FunctionCall("rows_of", [Variable("r"), *_MATCH, _number(variable)])
        if not arguments:
            return Code(FunctionCall(fold, [rows]), made.kind)
        known = self._frame.temporary()
        values = Assignment(known, values_code(self._frame, arguments, "g", rows))
        if made.kind.nullable is False:
            return Code(FunctionCall(fold, [values]), made.kind)
        return Code(Parenthesis(Conditional(values, FunctionCall(fold, [known]), NULL)), made.kind)


class _OneRow:
    """Attributes of one row, whatever variable they are qualified by."""

    def __init__(self, scope: RowScope, row: str) -> None:
        self._scope, self._row = scope, row

    def attribute(self, name: Name) -> Code:
        return self._scope._field(name, self._row)

    def call(self, call: Call) -> Code | None:
        if call.name in NAMES or call.name in _MOVES:
            raise QueryError(f"{call.name} cannot stand inside another of its kind", call.span)
        return None


def check_recognize(recognize: s.Recognize, source: RangeVariable) -> None:
    """Refuse what has no meaning. Raises QueryError."""
    known = [name.lower() for name in variables(recognize.pattern)]
    defined: set[str] = set()
    for each in recognize.definitions:
        name = (each.alias or "").lower()
        if name not in known:
            raise QueryError(f"{each.alias} is defined, but not in the pattern{nearest(name, known)}", each.span)
        if name in defined:
            raise QueryError(f"{each.alias} is defined twice", each.span)
        defined.add(name)
    if recognize.order is None:
        raise QueryError("MATCH_RECOGNIZE needs an order: write ORDER BY ts", recognize.span)
    own = source.attribute(recognize.order.name)
    if own is None or (own.name != TS and own != source.stream.timestamp):
        raise QueryError(
            f"MATCH_RECOGNIZE goes by time, and {recognize.order.name} is not that of {source.alias}: write ORDER BY ts",
            recognize.order.span,
        )
    if recognize.within is None and is_endless(recognize.pattern):
        raise QueryError(
            "a pattern with * or + may go on for ever: write WITHIN INTERVAL '10' MINUTES behind it", recognize.span
        )
    if recognize.skip_to is not None and recognize.skip_to.name.lower() not in known:
        raise QueryError(f"{recognize.skip_to.name} is not in the pattern", recognize.skip_to.span)
