"""Sequence queries built in Python: they give the same syntax tree as the text.

Event types become components, components have fields, fields make conditions:

>>> from middleware.model.event import Event
>>> class Shelf(Event):
...     tag: int
>>> class Checkout(Event):
...     tag: int
>>> class Exit(Event):
...     tag: int
...     gate: int
>>> s, c, e = one(Shelf, "s"), one(Checkout, "c"), one(Exit, "e")
>>> query = seq(s, ~c, e).where(s.tag == c.tag, c.tag == e.tag, e.gate.isin(1, 2)).within("1 hour").returns("Theft", tag=s.tag)
>>> print(query.tree)
EVENT SEQ(Shelf s, !(Checkout c), Exit e) WHERE (s.tag = c.tag AND c.tag = e.tag AND e.gate IN (1, 2)) WITHIN 3600s
RETURN Theft(s.tag AS tag)
>>> query.start().name
'Theft'
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace

from detectors.language.query_errors import NOWHERE, QueryError, nearest
from detectors.language.tree import Between, Binary, Call, In, IsNull, SyntaxNode, TextMatch, Unary, literal
from detectors.sequence.grammar.sequence_parser import FUNCTIONS, check_duration
from detectors.sequence.grammar.syntax import (
    Component,
    FieldReference,
    Index,
    QueryTree,
    ReturnClause,
    ReturnItem,
    SameFields,
    Strategy,
    joined,
)
from detectors.sequence.sequence_operator import SequenceQuery
from middleware.model.errors import QuantityError
from middleware.model.event import EventType, type_name
from middleware.model.quantities import Duration, duration_of


def _binary(operator: str) -> Callable[[Term, object], Term]:
    return lambda one, other: Term(Binary(operator, one.node, _node(other)))


def _reflected(operator: str) -> Callable[[Term, object], Term]:
    return lambda one, other: Term(Binary(operator, _node(other), one.node))


class Term:
    """An expression: compare it (``==``, ``<``), compute with it, combine conditions with ``&``, ``|``, ``~``."""

    __slots__ = ("node",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, node: SyntaxNode) -> None:
        self.node = node

    # Type checkers take these two for those of object, whose result is a bool, unless they are methods.
    def __eq__(self, other: object) -> Term:  # type: ignore[override]
        return Term(Binary("=", self.node, _node(other)))

    def __ne__(self, other: object) -> Term:  # type: ignore[override]
        return Term(Binary("<>", self.node, _node(other)))

    __lt__, __le__, __gt__, __ge__ = map(_binary, ("<", "<=", ">", ">="))
    __add__, __sub__, __mul__, __truediv__, __mod__ = map(_binary, ("+", "-", "*", "/", "%"))
    __radd__, __rsub__, __rmul__, __rtruediv__ = map(_reflected, ("+", "-", "*", "/"))

    def __and__(self, other: Term) -> Term:
        return Term(joined("AND", self.node, _node(other)))

    def __or__(self, other: Term) -> Term:
        return Term(joined("OR", self.node, _node(other)))

    def __invert__(self) -> Term:
        return Term(Unary("NOT", self.node))

    def __bool__(self) -> bool:
        hint = "combine conditions with & | ~ (not and, or, not); use isin, between"
        raise QueryError(f"{self.node} has no truth value here: {hint}")

    def isin(self, *options: object) -> Term:
        return Term(In(self.node, tuple(map(_node, options))))

    def between(self, low: object, high: object) -> Term:
        return Term(Between(self.node, _node(low), _node(high)))

    def like(self, pattern: str) -> Term:
        return Term(TextMatch("LIKE", self.node, literal(pattern)))

    def is_null(self) -> Term:
        return Term(IsNull(self.node))


class _Named(ABC):
    """The base of components. Fields are attributes; ``of(name)`` gives fields whose names Python cannot spell."""

    __slots__ = ("component", "event_types", "variable")

    def __init__(self, component: Component, event_types: tuple[EventType, ...]) -> None:
        self.component = component
        self.event_types = event_types
        self.variable = component.variable or ""

    @abstractmethod
    def of(self, name: str) -> Term:
        """The term for a field of the events."""

    def __getattr__(self, name: str) -> Term:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.of(name)


class One(_Named):
    """A single event; ``~component`` is its negation."""

    __slots__ = ()

    def of(self, name: str) -> Term:
        return Term(FieldReference(name, self.variable))

    def __invert__(self) -> One:
        return One(replace(self.component, negated=True), self.event_types)


class Some(_Named):
    """A Kleene component: one or more events. ``each.x``, ``previous.x``, ``first.x`` are fields of its events.

    ``of("x")`` is the field of all its events, for aggregates: ``call("sum", a.of("x"))``; ``call("count", a)`` counts them.
    """

    __slots__ = ("each", "first", "previous")

    def __init__(self, component: Component, event_types: tuple[EventType, ...]) -> None:
        super().__init__(component, event_types)
        self.each = _Indexed(component, Index.EACH)
        self.previous = _Indexed(component, Index.PREVIOUS)
        self.first = _Indexed(component, Index.FIRST)

    def of(self, name: str) -> Term:
        return Term(FieldReference(name, self.variable, Index.ALL))


class _Indexed(_Named):
    __slots__ = ("index",)

    def __init__(self, component: Component, index: Index) -> None:
        super().__init__(component, ())
        self.index = index

    def of(self, name: str) -> Term:
        return Term(FieldReference(name, self.variable, self.index))


def one(types: EventType | str | Iterable[EventType | str], variable: str | None = None) -> One:
    """A component: an event of a type, or of any of several."""
    names, classes = _named(types)
    return One(Component(names, variable), classes)


def some(types: EventType | str | Iterable[EventType | str], variable: str) -> Some:
    """A Kleene component: one or more events of a type, or of any of several."""
    names, classes = _named(types)
    return Some(Component(names, variable, kleene=True), classes)


def same(*fields: str) -> Term:
    """``[tag]``: these fields are equal in all events of a match."""
    return Term(SameFields(fields))


def call(function: str, *arguments: object) -> Term:
    """A function (``abs``, ``least``, ...), or an aggregate of a Kleene component (``count``, ``sum``, ...)."""
    if function.lower() not in FUNCTIONS:
        raise QueryError(f"unknown function {function!r}{nearest(function, sorted(FUNCTIONS))}")
    arguments_ = tuple(
        FieldReference("", each.variable, Index.ALL) if isinstance(each, Some) else _node(each) for each in arguments
    )
    return Term(Call(function.lower(), arguments_))


class Sequence:
    """A query under construction: each method returns a new one. ``tree`` is its syntax tree."""

    def __init__(self, tree: QueryTree, types: tuple[EventType, ...] = ()) -> None:
        self.tree = tree
        self.types = types

    def where(self, *conditions: Term) -> Sequence:
        """All of these must hold, in addition to those given before."""
        terms = ([self.tree.where] if self.tree.where is not None else []) + [condition.node for condition in conditions]
        return Sequence(replace(self.tree, where=terms[0] if len(terms) == 1 else joined("AND", *terms)), self.types)

    def within(self, window: Duration) -> Sequence:
        """The window, such as ``"1 hour"``, a timedelta, or nanoseconds."""
        try:
            length = duration_of(window, "within")
        except QuantityError as error:
            raise QueryError(str(error)) from None
        check_duration(length, NOWHERE)
        return Sequence(replace(self.tree, within=length), self.types)

    def using(self, strategy: Strategy | str) -> Sequence:
        """The selection strategy."""
        return Sequence(replace(self.tree, strategy=Strategy(strategy)), self.types)

    def returns(self, result: EventType | str | None = None, /, **values: object) -> Sequence:
        """The result of a match: a type (or the name of a new one), and its values by name."""
        items = tuple(ReturnItem(_node(value), name) for name, value in values.items())
        declared = (result,) if isinstance(result, type) else ()
        name = type_name(result) if isinstance(result, type) else result
        return Sequence(replace(self.tree, result=ReturnClause(items, name)), (*self.types, *declared))

    def start(self, *types: EventType, name: str = "") -> SequenceQuery:
        """The operator. ``types``: event types that components name by text only."""
        return SequenceQuery(self.tree, (*self.types, *types), name)


def seq(*components: One | Some) -> Sequence:
    """The sequence of these components, in this order."""
    types = tuple(each for component in components for each in component.event_types)
    return Sequence(QueryTree(tuple(component.component for component in components)), tuple(dict.fromkeys(types)))


def _named(types: EventType | str | Iterable[EventType | str]) -> tuple[tuple[str, ...], tuple[EventType, ...]]:
    many = (types,) if isinstance(types, str | type) else tuple(types)
    names = tuple(each if isinstance(each, str) else type_name(each) for each in many)
    return names, tuple(each for each in many if not isinstance(each, str))


def _node(value: object) -> SyntaxNode:
    if isinstance(value, Term):
        return value.node
    if value is None or isinstance(value, bool | int | float | str):
        return literal(value)
    if isinstance(value, _Named):
        raise QueryError(f"{value.variable} is an event, not a value: name a field of it, such as {value.variable}.ts")
    raise QueryError(f"{value!r} cannot stand in a query: use fields, numbers, texts, True, False, None")
