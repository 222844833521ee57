"""From text to statements, by one grammar: ``cql.lark`` with the expressions behind it."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import TypeVar

from lark import Lark, Token, v_args

from detectors.cql.grammar import pattern
from detectors.cql.grammar import statements as s
from detectors.cql.grammar.foreign import check_foreign
from detectors.cql.grammar.rewriting import length, window_function
from detectors.language import grammar
from detectors.language.aggregate_functions import NAMES as AGGREGATES
from detectors.language.expression_builder import (
    ExpressionBuilder,
    parse_text,
    plain,
    span_of,
    text_of,
    type_named,
    whole_number,
)
from detectors.language.parsers import parser_of
from detectors.language.query_errors import QueryError, TextSpan, nearest
from detectors.language.tree import Call, Case, Literal, Name, SyntaxNode
from detectors.language.value_types import Type
from middleware.model.quantities import NANOSECONDS, UNITS, nanoseconds_of

T = TypeVar("T")

DEEPEST = 20
"""How deep sub-selects may be nested."""


def parse_statements(text: str) -> list[s.Statement]:
    """The statements of a text. Raises QueryError with line, column and what was expected."""
    check_foreign(text)
    found: list[s.Statement] = parse_text(_parser(), StatementBuilder(), text, _SHOWN)
    try:
        for statement in found:
            _check_nesting(statement)
    except QueryError as error:
        raise error.located(text) from None
    return found


_SHOWN = {
    "EACH": "ONE ROW",
    "ENDS": "FIRST",
    "UNIT": "ROWS",
    "DIRECTION": "DESC",
    "QUANTIFIER": "a quantifier",
    "OUTER": "LEFT",
    "_SYSTEM": "SYSTEM TIME",
    "VBAR": "|",
}
"""How errors describe terminals that stand for several words."""

_Schema = Token | s.AnonymousSchema
"""A schema, by name or written out."""


_GRAMMAR = grammar() + files("detectors.cql.grammar").joinpath("cql.lark").read_text(encoding="utf-8")

WORDS = sorted(
    word.upper() for words in re.findall(r"^_?[A-Z_]+\.5: /\(?([a-z_|]+)", _GRAMMAR, re.MULTILINE) for word in words.split("|")
)
"""The words of the language."""


@cache
def _parser() -> Lark:
    return parser_of(_GRAMMAR, __file__)


def _check_nesting(statement: object) -> None:
    pending = [(statement, 1)]
    while pending:
        here, depth = pending.pop()
        if depth > 2 * DEEPEST:  # each sub-select is a reference and a query
            span = here.span if isinstance(here, s.StatementPart) else TextSpan(0, 0)
            raise QueryError(f"sub-selects are nested more than {DEEPEST} deep: give some of them a name", span)
        below: tuple[object, ...] = ()
        match here:
            case s.Select(_, source, join):
                below = (source,) if join is None else (source, join.other)
            case s.Reference(s.Select() as base):
                below = (base,)
            case s.CreateStream(source=source) | s.InsertStatement(source=source):
                below = (source,)
            case s.Explain(inner):
                below = (inner,)
        pending += [(each, depth + 1) for each in below]


def _span(*parts: Token | SyntaxNode | s.StatementPart | None) -> TextSpan:
    """The span from the first to the last of tokens, expressions and parts of statements."""
    spans = [
        each.span if isinstance(each, s.StatementPart | SyntaxNode) else span_of(each) for each in parts if each is not None
    ]
    return TextSpan(spans[0].start, spans[-1].end) if spans else TextSpan(0, 0)


@v_args(inline=True)
class StatementBuilder(ExpressionBuilder):
    """One method per rule of ``cql.lark``."""

    def start(self, *statements: s.Statement | None) -> list[s.Statement]:
        return [each for each in statements if each is not None]

    def explain(self, statement: s.Statement) -> s.Explain:
        return s.Explain(statement, span=_span(statement))

    def stream(self, *names: Token) -> s.Ident:
        return s.Ident(".".join(map(plain, names)), span=_span(*names))

    def attribute(self, first: Token, second: Token | None) -> Name:
        if second is None:
            return Name(plain(first), span=_span(first))
        return Name(plain(second), plain(first), span=_span(first, second))

    def attributes(self, *attributes: Name) -> tuple[Name, ...]:
        return attributes

    # data definition

    def typed_attribute(self, name: Token, kind: Token, negated: Token | None, null: Token | None) -> s.TypedAttribute:
        return s.TypedAttribute(plain(name), type_named(kind), negated is None, span=_span(name, kind))

    def anonymous_schema(self, *attributes: s.TypedAttribute) -> s.AnonymousSchema:
        return s.AnonymousSchema(attributes, span=_span(*attributes))

    def create_schema(self, name: Token, schema: _Schema, parent: Token | None) -> s.CreateSchema:
        extended = _ident(parent) if parent is not None else None
        return s.CreateSchema(_ident(name), _schema(schema), extended, span=_span(name))

    def create_stream(
        self,
        name: s.Ident,
        schema: _Schema | None,
        timestamp: s.Timestamp | None,
        system_time: Token | None,
        source: s.Source | None,
    ) -> s.CreateStream:
        known = _schema(schema) if schema is not None else None
        return s.CreateStream(name, known, timestamp, source, system_time and plain(system_time), span=_span(name))

    def timestamp(self, name: Token, form: Token | None) -> s.Timestamp:
        return s.Timestamp(plain(name), form and text_of(form), span=_span(name, form or name))

    def create_table(self, name: s.Ident, schema: _Schema, path: Token, delimiter: Token) -> s.CreateTable:
        return s.CreateTable(name, _schema(schema), self.file(path, delimiter), span=_span(name))

    def disorder(self, part: SyntaxNode | s.Spec) -> int:
        return length(part).amount

    def host(self, host: Token, port: Token, disorder: int | None) -> s.Host:
        if not 0 < whole_number(port) < 65536:
            raise QueryError("a port is a number from 1 to 65535", span_of(port))
        return s.Host(text_of(host), int(port), disorder, span=_span(host, port))

    def file(self, path: Token, delimiter: Token, disorder: int | None = None) -> s.File:
        if not text_of(delimiter):
            raise QueryError('the delimiter must not be empty: write ","', span_of(delimiter))
        return s.File(text_of(path), text_of(delimiter).replace("\\t", "\t"), disorder, span=_span(path, delimiter))

    # data manipulation

    def insert(self, target: s.Ident, source: s.Derived) -> s.InsertStatement:
        return s.InsertStatement(target, source, span=_span(target, source))

    def merge(self, *parts: s.Ident | None) -> s.Merge:
        streams = tuple(each for each in parts[:-1] if each is not None)
        return s.Merge(streams, parts[-1], span=_span(*streams))

    def insert_clause(self, target: s.Ident, targets: tuple[s.SelectItem, ...], where: SyntaxNode | None) -> s.InsertClause:
        return s.InsertClause(target, targets, where, span=_span(target))

    def split(self, source: s.Ident, *clauses: s.InsertClause | None) -> s.SplitStatement:
        return s.SplitStatement(source, tuple(each for each in clauses if each is not None), span=_span(source))

    def select(
        self,
        distinct: Token | None,
        targets: tuple[s.SelectItem, ...],
        source: s.Reference,
        join: s.Join | None,
        where: SyntaxNode | None,
        group_by: tuple[SyntaxNode, ...] | None,
        having: SyntaxNode | None,
        order_by: tuple[s.Ordering, ...] | None,
        limit: s.Limit | None,
        into: s.Ident | None,
        execution: s.Execution | None,
    ) -> s.Select:
        span = _span(distinct or targets[0], source)
        is_distinct = distinct is not None
        shape = (is_distinct, order_by or (), limit)
        return s.Select(targets, source, join, where, group_by or (), having, into, execution, *shape, span=span)

    def where(self, part: T) -> T:
        return part

    having = into = partitioned = where

    def group_by(self, *keys: SyntaxNode) -> tuple[SyntaxNode, ...]:
        return keys

    def order_by(self, *keys: s.Ordering) -> tuple[s.Ordering, ...]:
        return keys

    def order(self, key: SyntaxNode, direction: Token | None, end: Token | None) -> s.Ordering:
        is_descending = direction is not None and direction.lower() == "desc"
        return s.Ordering(key, is_descending, None if end is None else end.lower() == "first", span=_span(key, direction, end))

    def limit(self, count: Token, offset: Token | None) -> s.Limit:
        if not whole_number(count):
            raise QueryError("LIMIT 0 would never give a result", span_of(count))
        return s.Limit(int(count), 0 if offset is None else whole_number(offset), span=_span(count, offset))

    def execute(self, model: Token, by: Token | None) -> s.Execution:
        return s.Execution(s.ExecutionModel(model.lower()), by and plain(by), span=_span(model, by))

    def targets(self, *targets: s.SelectItem) -> tuple[s.SelectItem, ...]:
        return targets

    def target(self, expression: SyntaxNode, alias: Token | None) -> s.SelectItem:
        return s.SelectItem(expression, alias and plain(alias), span=_span(expression, alias))

    def all_attributes(self, star: Token) -> s.SelectItem:
        return s.SelectItem(None, span=_span(star))

    def all_of(self, stream: Token, star: Token) -> s.SelectItem:
        return s.SelectItem(None, None, plain(stream), span=_span(stream, star))

    def reference(self, base: s.Ident | s.Select, alias: Token | None, window: s.WindowClause | None) -> s.Reference:
        return s.Reference(base, alias and plain(alias), window, span=_span(base))

    def reference_after(self, base: s.Ident | s.Select, window: s.WindowClause, alias: Token) -> s.Reference:
        return s.Reference(base, plain(alias), window, span=_span(base))

    def reference_function(self, function: tuple[s.Ident | s.Select, s.WindowClause], alias: Token | None) -> s.Reference:
        base, window = function
        return s.Reference(base, alias and plain(alias), window, span=_span(base))

    def reference_matched(self, base: s.Ident | s.Select, matched: s.Recognize, alias: Token | None) -> s.Reference:
        return s.Reference(base, alias and plain(alias), None, matched, span=_span(base))

    # patterns

    def recognize(
        self,
        partition: tuple[Name, ...] | None,
        order: Name | None,
        measures: tuple[s.SelectItem, ...] | None,
        each: Token | None,
        skip: tuple[s.Skip, s.Ident | None] | None,
        early: int | None,
        choice: pattern.Part,
        within: int | None,
        *definitions: s.SelectItem | None,
    ) -> s.Recognize:
        if each is not None and each.lower().startswith("all"):
            raise QueryError(
                "ALL ROWS PER MATCH is not supported: MEASURES of ONE ROW PER MATCH may aggregate them", span_of(each)
            )
        span = _span(*(partition or ()), order, *(measures or ()), *definitions)
        how, to = skip or (s.Skip.PAST, None)
        known = tuple(each for each in definitions if each is not None)
        return s.Recognize(choice, partition or (), order, measures or (), how, to, within or early, known, span=span)

    def skip_past(self) -> tuple[s.Skip, s.Ident | None]:
        return s.Skip.PAST, None

    def skip_next(self) -> tuple[s.Skip, s.Ident | None]:
        return s.Skip.NEXT, None

    def skip_to(self, end: Token | None, name: Token) -> tuple[s.Skip, s.Ident | None]:
        return (s.Skip.FIRST if end is not None and end.lower() == "first" else s.Skip.LAST), _ident(name)

    def within(self, part: SyntaxNode | s.Spec) -> int:
        return length(part).amount

    def choice(self, *parts: pattern.Part) -> pattern.Part:
        return parts[0] if len(parts) == 1 else pattern.Choice(parts)

    def chain(self, *parts: pattern.Part) -> pattern.Part:
        return parts[0] if len(parts) == 1 else pattern.Chain(parts)

    def repeated(self, part: Token | pattern.Part, quantifier: Token | None) -> pattern.Part:
        one = pattern.RowVariable(plain(part)) if isinstance(part, Token) else part
        if quantifier is None:
            return one
        written = re.sub(r"\s", "", quantifier)
        is_greedy = len(written) == 1 or not written.endswith("?")
        counts = {"*": "0,", "+": "1,", "?": "0,1"}.get(written if is_greedy else written[:-1], written.strip("{}?"))
        least, comma, most = counts.partition(",")
        low, high = int(least or 0), int(most) if most else None if comma else int(least)
        if high is not None and (high < low or not high):
            raise QueryError(f"{quantifier} asks for no number of rows", span_of(quantifier))
        return pattern.Repeat(one, low, high, is_greedy)

    def definition(self, name: Token, condition: SyntaxNode) -> s.SelectItem:
        return s.SelectItem(condition, plain(name), span=_span(name, condition))

    def cross_join(self, other: s.Reference) -> s.Join:
        return s.Join(other, span=_span(other))

    def inner_join(self, other: s.Reference, how: SyntaxNode | tuple[Name, ...]) -> s.Join:
        if isinstance(how, tuple):
            return s.Join(other, None, how, span=_span(other, *how))
        return s.Join(other, how, span=_span(other, how))

    def outer_join(self, side: Token, other: s.Reference, how: SyntaxNode | tuple[Name, ...]) -> s.Join:
        word = side.split()[0].lower()
        return replace(self.inner_join(other, how), keeps=(word in ("left", "full"), word in ("right", "full")))

    # aggregates

    def call_distinct(self, name: Token, word: Token, argument: SyntaxNode) -> SyntaxNode:
        _check_aggregate(name, "DISTINCT")
        return Call(plain(name).lower(), (argument,), is_distinct=True, span=span_of(name))

    def call_filtered(self, name: Token, *parts: SyntaxNode | Token) -> SyntaxNode:
        """Aggregates skip NULLs, so the filter turns the values that it skips into NULL."""
        _check_aggregate(name, "FILTER")
        *arguments, condition = parts
        shown = [Literal(1, Type.INT) if isinstance(each, Token) else each for each in arguments]
        if isinstance(arguments[0], Token) and plain(name).lower() != "count":
            raise QueryError(f"{name}(*) means nothing: name what is to be aggregated", span_of(name))
        assert isinstance(condition, SyntaxNode)
        kept = tuple(Case(((condition, each),), span=span_of(each, condition)) for each in shown)
        return Call(plain(name).lower(), kept, span=span_of(name))

    def call_over(self, name: Token, *parts: SyntaxNode | Token | s.OverWindow | None) -> SyntaxNode:
        *arguments, window = [each for each in parts if each is not None]
        assert isinstance(window, s.OverWindow)
        is_star = bool(arguments) and isinstance(arguments[0], Token)
        given = tuple(each for each in arguments if isinstance(each, SyntaxNode))
        return s.OverCall(plain(name).lower(), given, is_star, window=window, span=span_of(name))

    def over(self, partition: tuple[Name, ...] | None, order: Name | None, frame: s.PrecedingFrame | None) -> s.OverWindow:
        return s.OverWindow(partition or (), order, frame)

    def frame(self, unit: Token, start: SyntaxNode | Token) -> s.PrecedingFrame:
        is_rows = unit.lower() == "rows"
        if isinstance(start, Token):
            if start.type == "INTEGER" and not is_rows:
                raise QueryError("RANGE measures time: write RANGE BETWEEN INTERVAL '10' MINUTES PRECEDING ...", span_of(start))
            return s.PrecedingFrame(is_rows, whole_number(start) if start.type == "INTEGER" else None)
        if is_rows:
            raise QueryError("ROWS counts tuples: write ROWS BETWEEN 10 PRECEDING ..., or RANGE for a time", start.span)
        assert isinstance(start, Literal)
        return s.PrecedingFrame(is_rows, int(start.value or 0))

    # windows

    def table_function(
        self,
        name: Token,
        base: s.Ident | s.Select,
        partition: tuple[Name, ...] | None,
        time: Name,
        *lengths: SyntaxNode | s.Spec,
    ) -> tuple[s.Ident | s.Select, s.WindowClause]:
        specs = [length(each) for each in lengths]
        kind = window_function(plain(name).upper(), specs, _span(name, lengths[-1]))
        return base, s.WindowClause(kind, partition or (), time=time, span=_span(name, lengths[-1]))

    def keys(self, *parts: Name | tuple[Name, ...]) -> tuple[Name, ...]:
        return tuple(each for part in parts for each in (part if isinstance(part, tuple) else (part,)))

    def interval(self, amount: Token, unit: Token) -> SyntaxNode:
        written = text_of(amount).strip()
        size = nanoseconds_of(plain(unit))
        if size is None or not re.fullmatch(r"\d{1,18}(\.\d{1,9})?", written):
            raise QueryError(f"write INTERVAL '10' MINUTES: a number in quotes and a unit ({UNITS})", span_of(amount, unit))
        nanoseconds = round(Fraction(written) * size)
        if nanoseconds >= 2**62:
            raise QueryError("this is longer than 146 years", span_of(amount, unit))
        return Literal(nanoseconds, Type.LONG, span=span_of(amount, unit))

    def window(self, kind: s.Kind, partition: tuple[Name, ...] | None, where: SyntaxNode | None) -> s.WindowClause:
        return s.WindowClause(kind, partition or (), where, span=_span(kind, *(partition or ()), where))

    def size(self, size: s.Spec, slide: s.Spec | None, start: s.Instant | None) -> s.SizeClause:
        return s.SizeClause(size, slide, start, span=_span(size, slide))

    def landmark(self, start: s.Instant | None, slide: s.Spec) -> s.LandmarkClause:
        return s.LandmarkClause(start, slide, span=_span(start, slide))

    def fixed(self, lower: s.Instant, upper: s.Instant, attribute: Token | None) -> s.FixedClause:
        return s.FixedClause(lower, upper, attribute and plain(attribute), span=_span(lower, upper))

    def delta(self, threshold: Token, *parts: SyntaxNode | Token | None) -> s.DeltaClause:
        *measures, distance = parts
        nodes = tuple(each for each in measures if isinstance(each, SyntaxNode))
        named = _ident(distance) if isinstance(distance, Token) else None
        return s.DeltaClause(float(threshold), nodes, named, span=_span(threshold, *nodes))

    def number(self, number: Token) -> Token:
        if float(number) == float("inf"):
            raise QueryError("this number is too large", span_of(number))
        return number

    def instant(self, token: Token) -> s.Instant:
        value = text_of(token) if token.type == "STRING" else whole_number(token)
        return s.Instant(value, span=_span(token))

    def spec_on(self, amount: Token, attribute: Token) -> s.Spec:
        return s.Spec(s.Axis.APPLICATION, _amount(amount), plain(attribute), span=_span(amount, attribute))

    def spec_time(self, amount: Token, unit: Token) -> s.Spec:
        size = nanoseconds_of(plain(unit))
        if size is None:
            hint = nearest(plain(unit).lower(), NANOSECONDS)
            raise QueryError(f"unknown time unit {plain(unit)!r}{hint}; units: {UNITS}", span_of(unit))
        return s.Spec(s.Axis.SYSTEM, _amount(amount, size), span=_span(amount, unit))

    def spec_count(self, amount: Token) -> s.Spec:
        return s.Spec(s.Axis.COUNT, _amount(amount), span=_span(amount))


def _check_aggregate(name: Token, word: str) -> None:
    if plain(name).lower() not in AGGREGATES:
        raise QueryError(f"{word} is for aggregates, and {plain(name)} is none: count(DISTINCT x)", span_of(name))


def _amount(token: Token, unit: int = 1) -> int:
    amount = whole_number(token) * unit
    if not 0 < amount < 2**62:
        raise QueryError(
            "a window is at least 1 and at most 146 years long" if amount else "a window cannot be empty", span_of(token)
        )
    return amount


def _ident(name: Token) -> s.Ident:
    return s.Ident(plain(name), span=_span(name))


def _schema(part: _Schema) -> s.Schema:
    return _ident(part) if isinstance(part, Token) else part
