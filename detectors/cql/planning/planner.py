"""From statements to plans: resolves names, types and windows against the catalog, and gives sub-selects their own streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from detectors.cql.catalog import TS, Attribute, Catalog, CatalogStream, Schema, checked_schema
from detectors.cql.grammar import statements as s
from detectors.cql.grammar.pattern import program, variables
from detectors.cql.grammar.rewriting import MOMENT, free_name, group_window, name_of, over, ranking_of, without_ranking
from detectors.cql.line_reader import read_table
from detectors.cql.planning.content_plan import (
    IN_WHERE,
    ContentPlan,
    check_grouped,
    check_windowless,
    is_made_of_content,
    is_ranked_apart,
    key_name,
)
from detectors.cql.planning.joins import all_joined, plan_join, plan_lookup, renaming
from detectors.cql.planning.over import BLOCKING, OverScope, over_calls, plan_over
from detectors.cql.planning.query_plan import JoinQueryPlan, LookupQueryPlan, PatternPlan, Plan, TuplePlan, WindowQueryPlan
from detectors.cql.planning.recognize import RowScope, check_recognize
from detectors.cql.planning.scopes import NESTED, AggregateScope, RangeVariable, StreamScope, window_of
from detectors.cql.planning.window_plans import Distance, Measure, measures_arrival
from detectors.language.code import Code, CodeFrame, converted
from detectors.language.compiler import analyse, condition
from detectors.language.query_errors import QueryError, TextSpan
from detectors.language.tree import Name, SyntaxNode
from detectors.language.value_types import Type, ValueKind, converts
from middleware.model.event import field_names, stable_hash

Columns = list[tuple[str, Code, TextSpan]]


class Planner:
    """Plans statements one after another; later ones see what earlier ones created."""

    def __init__(self, catalog: Catalog, distances: Mapping[str, Distance], folder: Path) -> None:
        self.catalog = catalog
        self._folder = folder
        self._distances = distances
        self.plans: list[Plan] = []
        self._queries = 0

    def statement(self, statement: s.Statement) -> list[CatalogStream]:
        """Plan one statement; returns the streams that it writes for the caller. Raises QueryError."""
        match statement:
            case s.CreateSchema():
                self.catalog.create_schema(statement)
                return []
            case s.CreateStream():
                return self._create_stream(statement)
            case s.CreateTable(name, schema, source):
                table = self.catalog.add(name.name, self.catalog.resolve(schema), name.span)
                table.source, table.rows = source, read_table(table, source, self._folder)
                return []
            case s.InsertStatement(target, source):
                stream = self._writable(target)
                return [self._derive(source, stream.name, stream)]
            case s.Merge():
                return [self._merge(statement, statement.into)]
            case s.SplitStatement():
                return self._split(statement)
            case s.Select():
                return [self._select(statement, self._query_name(statement.into), None)]
            case s.Explain(inner):
                return self.statement(inner)

    def state(self) -> tuple[Catalog, int, int, list[CatalogStream]]:
        """The state that ``reset`` needs to undo later statements."""
        derived = [stream for stream in self.catalog if stream.is_derived]
        return self.catalog.copied(), len(self.plans), self._queries, derived

    def reset(self, state: tuple[Catalog, int, int, list[CatalogStream]]) -> None:
        """Forget everything planned since ``state``."""
        catalog, count, queries, derived = state
        self.catalog.become(catalog)
        del self.plans[count:]
        self._queries = queries
        for stream in self.catalog:
            stream.is_derived = stream in derived

    # streams

    def _create_stream(self, statement: s.CreateStream) -> list[CatalogStream]:
        name, source = statement.name, statement.source
        schema = None if statement.schema is None else self.catalog.resolve(statement.schema)
        if isinstance(source, s.Host | s.File) or source is None:
            if schema is None:
                raise QueryError(f"{name.name} needs a schema: CREATE STREAM {name.name} (attribute Type, ...)", name.span)
            timestamp = statement.timestamp
            if timestamp is not None and timestamp.form is not None and source is None:
                raise QueryError("FORMAT says how lines write the time: it needs a SOURCE", timestamp.span)
            stream = self.catalog.add(name.name, schema, name.span, timestamp, statement.system_time)
            stream.source = source
            return []
        if statement.timestamp is not None or statement.system_time is not None:
            raise QueryError(
                "a derived stream takes its times from what it is derived from: leave TIMESTAMP and SYSTEM TIME out", name.span
            )
        target = None if schema is None else self.catalog.add(name.name, schema, name.span)
        return [self._derive(source, name.name, target)]

    def _writable(self, ident: s.Ident) -> CatalogStream:
        stream = self.catalog.stream(ident)
        if stream.source is not None:
            raise QueryError(f"{stream.name} has a raw source already: INSERT completes streams without one", ident.span)
        return stream

    def _query_name(self, into: s.Ident | None) -> str:
        if into is not None:
            return into.name
        self._queries += 1
        while not self.catalog.is_free(f"Query{self._queries}"):
            self._queries += 1
        return f"Query{self._queries}"

    def _operator_name(self, target: str) -> str:
        names = {plan.name for plan in self.plans}
        number = 1
        name = target
        while name in names:
            number += 1
            name = f"{target}#{number}"
        return name

    # queries

    def _derive(self, source: s.Ident | s.Select | s.Merge, name: str, target: CatalogStream | None) -> CatalogStream:
        """Plan the content of a derived stream; if ``target`` is None, a new stream ``name`` with the resulting schema."""
        if isinstance(source, s.Merge):
            return self._merge(source, s.Ident(name, span=source.span), target)
        if isinstance(source, s.Select):
            if source.into is not None:
                raise QueryError(f"this query writes to {name} already: leave INTO out", source.into.span)
            return self._select(source, name, target)
        read = RangeVariable(self.catalog.stream(source), None)
        columns = [(each.name, each.code(), source.span) for each in read.stream.schema]
        return self._mapping(read, columns, None, CodeFrame(), name, target, source.span)

    def _merge(self, statement: s.Merge, into: s.Ident | None, target: CatalogStream | None = None) -> CatalogStream:
        streams = [self.catalog.stream(each) for each in statement.streams]
        first = streams[0]
        for ident, stream in zip(statement.streams, streams, strict=True):
            if [(a.name.lower(), a.kind.type) for a in stream.schema] != [(a.name.lower(), a.kind.type) for a in first.schema]:
                raise QueryError(
                    f"{stream.name} does not have the schema of {first.name}: merge what SELECT makes alike", ident.span
                )
            if streams.count(stream) > 1:
                raise QueryError(f"{stream.name} is merged with itself", ident.span)
        nullable = [any(stream.schema[n].kind.nullable for stream in streams) for n in range(len(first.schema))]
        given: list[Columns] = [
            [
                (each.name, Code(each.code().value, ValueKind(each.kind.type, nullable[n])), statement.span)
                for n, each in enumerate(stream.schema)
            ]
            for stream in streams
        ]
        target, frame = target or (self._into(into) if into else None), CodeFrame()
        name = target.name if target is not None else into.name if into else self._query_name(None)
        target, codes = self._target(name, target, given[0], statement.span, frame)
        others = tuple(self._target(name, target, columns, statement.span, frame)[1] for columns in given[1:])
        self._add(
            TuplePlan(self._operator_name(name), target, codes, frame, tuple(streams), None, others), target, statement.span
        )
        names = {stream.timestamp.name if stream.timestamp is not None else None for stream in streams}
        if first.timestamp is not None and len(names) == 1:
            target.timestamp = target.attribute(first.timestamp.name)
        return target

    def _split(self, statement: s.SplitStatement) -> list[CatalogStream]:
        read = RangeVariable(self.catalog.stream(statement.source), None)
        written = []
        for clause in statement.clauses:
            frame = CodeFrame()
            scope = StreamScope([read], BLOCKING)
            columns = self._columns(clause.targets, scope, [read], frame)
            where = _condition(clause.where, [read], frame)
            target = self._into(clause.target)
            written.append(self._mapping(read, columns, where, frame, clause.target.name, target, clause.span))
        return written

    def _select(self, select: s.Select, name: str, target: CatalogStream | None) -> CatalogStream:
        frame = CodeFrame()
        select = group_window(select)
        source = self._reference(select.source, name, "e")
        if select.join is not None:
            return self._join(select, source, name, target)
        if select.source.window is not None:
            return self._windowed(select, source, name, target, frame)
        check_windowless(select)
        if over_calls(select):
            return self._over(select, source, name, target, frame)
        scope = StreamScope([source], BLOCKING)
        for each in select.group_by:  # sub-streams by key: the same tuples (Vu 2015, GROUP BY)
            scope.resolve(key_name(each))
        check_grouped(select)
        columns = self._columns(select.targets, scope, [source], frame)
        where = _condition(select.where, [source], frame)
        target = target or (self._into(select.into) if select.into else None)
        return self._mapping(source, columns, where, frame, name, target, select.span)

    def _part(self, select: s.Select, name: str) -> CatalogStream:
        """The stream of its own that a part of the query ``name`` gets."""
        return self._select(select, self._part_name(name), None)

    def _part_name(self, name: str) -> str:
        number = 1
        while not self.catalog.is_free(f"{name}Part{number}"):
            number += 1
        return f"{name}Part{number}"

    def _matched(self, recognize: s.Recognize, source: RangeVariable, name: str) -> CatalogStream:
        """The stream of its own that the matches of a pattern get."""
        check_recognize(recognize, source)
        frame, inner = CodeFrame(), StreamScope([source], NESTED)
        known = variables(recognize.pattern)
        scope = RowScope(source, known, frame)
        tests: list[Code | None] = [None] * len(known)
        for each in recognize.definitions:
            assert each.expression is not None
            place = [name.lower() for name in known].index((each.alias or "").lower())
            tests[place] = condition(each.expression, scope, frame, f"the definition of {each.alias}")
        partition = [inner.resolve(each)[1] for each in recognize.partition]
        columns = [(each.name, each.code("r[i]"), recognize.span) for each in partition]
        columns += self._columns(recognize.measures, scope, [source], frame)
        if not columns:
            raise QueryError("nothing is asked of a match: write MEASURES LAST(A.x) AS x", recognize.span)
        target, codes = self._target(self._part_name(name), None, columns, recognize.span, frame)
        skip_to = [name.lower() for name in known].index(recognize.skip_to.name.lower()) if recognize.skip_to else -1
        query = PatternPlan(
            self._operator_name(target.name),
            target,
            codes,
            frame,
            source.stream,
            tuple(each.code() for each in partition),
            program(recognize.pattern, recognize.span),
            tuple(tests),
            scope.back,
            recognize.within,
            recognize.skip,
            skip_to,
        )
        self._add(query, target, recognize.span)
        return target

    def _reference(self, reference: s.Reference, name: str, variable: str) -> RangeVariable:
        """The stream that is read; a sub-select gets its own, and so do the matches of a pattern."""
        if reference.matched is not None:
            source = self._reference(replace(reference, matched=None, alias=None), name, variable)
            return RangeVariable(self._matched(reference.matched, source, name), reference.alias, variable)
        if isinstance(reference.base, s.Ident):
            stream = self.catalog.stream(reference.base)
            if stream.rows is not None:
                raise QueryError(f"{stream.name} is a table: a stream may JOIN it", reference.span)
            if stream.system_time is not None and reference.window is not None and measures_arrival(reference.window):
                return RangeVariable(self._as_arrived(stream, name, reference.span), reference.alias or stream.name, variable)
            return RangeVariable(stream, reference.alias, variable)
        if reference.base.into is not None:
            raise QueryError("a sub-select writes to the query around it: leave INTO out", reference.base.into.span)
        return RangeVariable(self._part(reference.base, name), reference.alias, variable)

    def _as_arrived(self, stream: CatalogStream, name: str, span: TextSpan) -> CatalogStream:
        """The stream with the time of arrival as ``ts``, and so in the order of arrival."""
        assert stream.system_time is not None
        columns = [(each.name, each.code(), span) for each in stream.schema]
        target, codes = self._target(self._part_name(name), None, columns, span, CodeFrame())
        self._add(
            TuplePlan(self._operator_name(target.name), target, codes, CodeFrame(), (stream,), time=stream.system_time.code()),
            target,
            span,
        )
        return target

    def _mapping(
        self,
        read: RangeVariable,
        columns: Columns,
        where: Code | None,
        frame: CodeFrame,
        name: str,
        target: CatalogStream | None,
        span: TextSpan,
    ) -> CatalogStream:
        target, codes = self._target(name, target, columns, span, frame)
        was_derived = target.is_derived
        self._add(TuplePlan(self._operator_name(target.name), target, codes, frame, (read.stream,), where), target, span)
        own = [each for each in target.schema if each.name != TS]
        kept = None if read.stream.timestamp is None else read.stream.timestamp.code().value
        timestamp = next((each for each, code in zip(own, codes, strict=True) if code.value == kept), None)
        arrival = None if read.stream.system_time is None else read.stream.system_time.code().value
        if not was_derived and target.timestamp is None:
            target.timestamp = timestamp
            target.system_time = next((each for each, code in zip(own, codes, strict=True) if code.value == arrival), None)
        elif target.timestamp is not None and timestamp != target.timestamp:
            raise QueryError(f"{target.name} is ordered by {target.timestamp.name}, and what this query gives is not", span)
        return target

    def _windowed(
        self, select: s.Select, source: RangeVariable, name: str, target: CatalogStream | None, frame: CodeFrame
    ) -> CatalogStream:
        assert select.source.window is not None
        window = select.source.window
        plan = window_of(window, source, select.execution, frame, self._distances)
        if is_ranked_apart(select, plan):
            part = self._part(without_ranking(select), name)
            return self._select(ranking_of(select, part.name, [each.name for each in part.schema]), name, target)
        content = ContentPlan(select, source, plan, frame)
        columns = self._columns(select.targets, content.scope, [source], frame)
        having, ranking = content.having(), content.ranking()
        target = target or (self._into(select.into) if select.into else None)
        target, codes = self._target(name, target, columns, select.span, frame)
        query = WindowQueryPlan(
            self._operator_name(target.name),
            target,
            codes,
            frame,
            source.stream,
            plan,
            content.before,
            content.partition,
            content.after,
            content.group,
            content.aggregates,
            content.is_aggregated,
            having,
            ranking,
        )
        self._add(query, target, select.span)
        return target

    def _over(
        self, select: s.Select, source: RangeVariable, name: str, target: CatalogStream | None, frame: CodeFrame
    ) -> CatalogStream:
        if select.group_by:
            raise QueryError("OVER gives a result for each tuple, GROUP BY for each group: use two queries", select.span)
        made = over_calls(select)
        plan, scope = plan_over(made, source), OverScope(source, frame)
        partition = tuple(scope.attribute(each) for each in made[0].window.partition)
        columns = self._columns(select.targets, scope, [source], frame)
        where = _condition(select.where, [source], frame)
        target = target or (self._into(select.into) if select.into else None)
        target, codes = self._target(name, target, columns, select.span, frame)
        query = WindowQueryPlan(
            self._operator_name(target.name), target, codes, frame, source.stream, plan, where, partition,
            aggregates=tuple(scope.aggregates),
        )  # fmt: skip
        self._add(query, target, select.span)
        return target

    def _join(self, select: s.Select, left: RangeVariable, name: str, target: CatalogStream | None) -> CatalogStream:
        assert select.join is not None
        base = select.join.other.base
        if isinstance(base, s.Ident) and self.catalog.stream(base).rows is not None:
            return self._lookup(select, left, self.catalog.stream(base), name, target)
        right = self._reference(select.join.other, name, "f")
        right.is_optional, left.is_optional = select.join.keeps
        return self._joined(select, left, right, name, target)

    def _lookup(
        self, select: s.Select, left: RangeVariable, table: CatalogStream, name: str, target: CatalogStream | None
    ) -> CatalogStream:
        assert select.join is not None
        assert table.rows is not None
        if is_made_of_content(select):
            raise QueryError(
                "a stream with what it looks up is still endless: write FROM (SELECT ... JOIN ...) [SIZE ...] GROUP BY ...",
                select.span,
            )
        frame, right = CodeFrame(), RangeVariable(table, select.join.other.alias, "f")
        right.is_optional = select.join.keeps[0]
        join = plan_lookup(select, left, right, frame)
        columns = self._columns(select.targets, join.scope, [left, right], frame)
        target = target or (self._into(select.into) if select.into else None)
        target, codes = self._target(name, target, columns, select.span, frame)
        query = LookupQueryPlan(
            self._operator_name(target.name),
            target,
            codes,
            frame,
            left.stream,
            table.rows,
            stable_hash(repr(table.rows)),
            tuple(pair[0] for pair in join.keys),
            tuple(pair[1] for pair in join.keys),
            join.condition,
            right.is_optional,
            join.after,
        )
        self._add(query, target, select.span)
        return target

    def _joined(
        self, select: s.Select, left: RangeVariable, right: RangeVariable, name: str, target: CatalogStream | None
    ) -> CatalogStream:
        frame = CodeFrame()
        join = plan_join(select, left, right, frame)
        if is_made_of_content(select):
            part = self._joined(all_joined(select, join.scope), left, right, self._part_name(name), None)
            window = None if over_calls(select) else MOMENT
            outer = over(select, part.name, window, renaming(join.scope, [each.name for each in part.schema]))
            if window is not None and join.sides[0].window.slide.measure is Measure.COUNT:
                raise QueryError(
                    "pairs that come one by one (EVERY 1) have no window to aggregate: give both sides an EVERY in time, or "
                    "write FROM (SELECT ... JOIN ...) [SIZE ...]",
                    select.span,
                )
            return self._select(outer, name, target)
        columns = self._columns(select.targets, join.scope, [left, right], frame)
        target = target or (self._into(select.into) if select.into else None)
        target, codes = self._target(name, target, columns, select.span, frame)
        assert select.join is not None
        query = JoinQueryPlan(
            self._operator_name(target.name), target, codes, frame, *join.sides, join.condition, select.join.keeps, join.after
        )  # fmt: skip
        self._add(query, target, select.span)
        return target

    # the stream that a query writes

    def _columns(
        self,
        targets: Sequence[s.SelectItem],
        scope: StreamScope | AggregateScope | RowScope,
        sources: Sequence[RangeVariable],
        frame: CodeFrame,
    ) -> Columns:
        columns: Columns = []
        used: set[str] = set()
        for target in targets:
            if target.expression is None:
                columns += self._all(target, scope, sources, used)
                continue
            code = frame.sealed(analyse(target.expression, scope, frame))
            if code.type is Type.NULL:
                raise QueryError("NULL alone has no type: CAST(NULL AS Type)", target.span)
            name = target.alias or free_name(name_of(target.expression, len(columns)), used)
            used.add(name.lower())
            columns.append((name, code, target.span))
        return columns

    @staticmethod
    def _all(
        target: s.SelectItem, scope: StreamScope | AggregateScope | RowScope, sources: Sequence[RangeVariable], used: set[str]
    ) -> Columns:
        chosen = [each for each in sources if target.qualifier is None or each.answers(target.qualifier)]
        if not chosen:
            raise QueryError(f"unknown stream {target.qualifier!r}", target.span)
        columns: Columns = []
        using = scope.using if isinstance(scope, StreamScope) else set()
        for source in chosen:
            for each in source.stream.schema:
                if each.name.lower() in used and each.name.lower() in using:
                    continue
                name = each.name if each.name.lower() not in used else free_name(f"{source.name}_{each.name}", used)
                used.add(name.lower())
                own = Name(each.name, None if each.name.lower() in using else source.name)
                columns.append((name, scope.attribute(own), target.span))
        if isinstance(scope, RowScope):
            raise QueryError("* has many rows in a match: MEASURES names what is asked of it", target.span)
        bounds = scope.bounds.columns if scope.bounds is not None and target.qualifier is None else {}
        return [*columns, *((free_name(name, used), code, target.span) for name, code in bounds.items())]

    def _into(self, ident: s.Ident) -> CatalogStream | None:
        """The stream that INTO names, if it exists already."""
        return self._writable(ident) if not self.catalog.is_free(ident.name) else None

    def _target(
        self, name: str, target: CatalogStream | None, columns: Columns, span: TextSpan, frame: CodeFrame
    ) -> tuple[CatalogStream, tuple[Code, ...]]:
        """The stream that is written, and the columns in its form. Raises QueryError if they do not fit."""
        if target is None:
            kept = _without_ts(columns)
            schema = checked_schema([(each, code.kind, at) for each, code, at in kept])
            return self.catalog.add(name, schema, span), tuple(code for _, code, _ in kept)
        expected: Schema = tuple(each for each in target.schema if each.name != TS)
        if enums := [each.name for each in expected if each.is_enum]:
            raise QueryError(f"{target.name} cannot be written: {', '.join(enums)} of it is an enum, which is only read", span)
        unfilled = sorted(set(field_names(target.event_type)) - {each.field for each in expected})
        if unfilled:
            raise QueryError(
                f"{target.name} has fields that its schema does not: {', '.join(unfilled)}; it cannot be written", span
            )
        given = columns if len(expected) == len(columns) else _without_ts(columns)
        if len(expected) != len(given):
            raise QueryError(
                f"{target.name} has {len(expected)} attributes ({', '.join(f'{a.name} {a.kind}' for a in expected)}), "
                f"and this query gives {len(given)}",
                span,
            )
        return target, tuple(_fitted(own, code, at, target, frame) for own, (_, code, at) in zip(expected, given, strict=True))

    def _add(self, plan: Plan, target: CatalogStream, span: TextSpan) -> None:
        upstream = list(plan.sources)
        for stream in upstream:  # grows as it is gone through
            behind = [read for other in self.plans if other.target is stream for read in other.sources]
            upstream += [read for read in behind if read not in upstream]
        if target in upstream:
            raise QueryError(f"{target.name} would be derived from itself", span)
        if target.timestamp is not None and not isinstance(plan, TuplePlan):
            raise QueryError(f"{target.name} is ordered by {target.timestamp.name}, and results of windows are not", span)
        target.is_derived = True
        self.plans.append(plan)


def _condition(node: SyntaxNode | None, sources: Sequence[RangeVariable], frame: CodeFrame) -> Code | None:
    return None if node is None else condition(node, StreamScope(sources, IN_WHERE), frame)


def _without_ts(columns: Columns) -> Columns:
    """The columns without ``ts``, which every result has anyway: the time of its tuple, or the end of its window."""
    for name, code, span in columns:
        if name.lower() == TS and TS not in (code.field_of("e"), code.field_of("f")):
            raise QueryError("ts is the time of the result, which cannot be set: choose another name", span)
    return [column for column in columns if column[0].lower() != TS]


def _fitted(own: Attribute, code: Code, span: TextSpan, target: CatalogStream, frame: CodeFrame) -> Code:
    if not converts(code.type, own.kind.type):
        raise QueryError(
            f"{target.name}.{own.name} is a {own.kind}, and this is a {code.type}: CAST(... AS {own.kind}) converts it", span
        )
    if code.nullable and not own.kind.nullable:
        raise QueryError(f"{target.name}.{own.name} cannot be NULL, and this may be: COALESCE(..., value) replaces NULL", span)
    return frame.sealed(converted(frame, code, own.kind.type))
