"""The meaning of names in a query: attributes of its streams, aggregates, and the bounds of windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from detectors.cql.catalog import TS, Attribute, CatalogStream, find
from detectors.cql.grammar import statements as s
from detectors.cql.planning.window_plans import DISTANCES, Distance, Measure, Shape, WindowPlan, plan_window
from detectors.language.aggregate_functions import NAMES, QueryAggregate, aggregate
from detectors.language.code import Code, CodeFrame, converted
from detectors.language.compiler import Analysis, analyse
from detectors.language.expression import (
    Arithmetic,
    Conditional,
    ConstantValue,
    ElementRead,
    Expression,
    NullTest,
    Parenthesis,
    ValueTuple,
)
from detectors.language.query_errors import QueryError, nearest
from detectors.language.tree import Call, Name, SyntaxNode, calls
from detectors.language.value_types import NUMBERS, Type, ValueKind
from middleware.model.schema import fields_of
from middleware.model.words import listed

NESTED = "{name} stands inside another aggregate: compute it in a sub-select first"


class BoundNames:
    """How a query over windows names their bounds: ``window_start()``, ``window_end()``.

    ``are_columns``: they are attributes, too, with ``window_time``, as window functions of SQL add them.
    """

    def __init__(self, window: WindowPlan, are_columns: bool) -> None:
        lower, upper = (self._bound(place, window.slide.tick == 1 and are_columns) for place in (0, 1))
        is_bounded = window.lower is not None or (window.size is not None and window.size.measure is not Measure.COUNT)
        start = Code(lower, ValueKind(Type.LONG, not is_bounded and window.shape is not Shape.SESSION))
        kind = ValueKind(Type.LONG)
        self._codes = {"window_start": start, "window_end": Code(upper, kind)}
        self.columns = {**self._codes, "window_time": Code(ElementRead("w", 1), kind)} if are_columns else {}

    @staticmethod
    def _bound(place: int, is_open: bool) -> Expression:
        """A bound of the window ``w``; of one that is open there, the first moment inside."""
        bound = ElementRead("w", place)
        return Parenthesis(Arithmetic("+", bound, ConstantValue("1", 1))) if is_open else bound

    def call(self, call: Call) -> Code | None:
        """The code of a call that gives a bound; None if it gives something else."""
        if call.name not in self._codes:
            return None
        if call.arguments or call.is_star:
            raise QueryError(f"{call.name}() takes no arguments", call.span)
        return self._codes[call.name]

    def column(self, name: Name) -> Code | None:
        """The code of an attribute that gives a bound; None if it is no such attribute."""
        return self.columns.get(name.name.lower())


class RangeVariable:
    """A stream under its name in a query; code calls its tuples ``variable``.

    ``is_optional``: whether there may be no tuple of it (outer joins): then its attributes are NULL.
    """

    is_optional = False

    def __init__(self, stream: CatalogStream, alias: str | None, variable: str = "e") -> None:
        self.stream = stream
        self.alias = alias or stream.name
        self.variable = variable

    @property
    def name(self) -> str:
        """Its name without a namespace, which qualifies attributes."""
        return self.alias.rpartition(".")[2]

    def answers(self, qualifier: str) -> bool:
        """Whether ``qualifier.attribute`` means this stream."""
        own = {self.alias.lower(), self.alias.lower().rpartition(".")[2]}
        return qualifier.lower() in own

    def attribute(self, name: str) -> Attribute | None:
        """One of its attributes, or ``ts``."""
        found = find(self.stream.schema, name)
        found = Attribute(TS, ValueKind(Type.LONG), TS) if found is None and name.lower() == TS else found
        return found if found is None or not self.is_optional else found._replace(kind=ValueKind(found.kind.type, True))


class StreamScope:
    """Attributes of one stream or of two joined ones. Aggregates are refused; ``refusal`` says why.

    ``bounds``: those of the window, where there is one.
    """

    def __init__(
        self, sources: Sequence[RangeVariable], refusal: str, using: Sequence[str] = (), bounds: BoundNames | None = None
    ) -> None:
        self.sources = sources
        self.refusal = refusal
        self.using = {name.lower() for name in using}
        self.bounds = bounds

    def resolve(self, name: Name) -> tuple[RangeVariable, Attribute]:
        """The stream and the attribute that a name means. Raises QueryError if it is unknown or ambiguous."""
        asked = self.sources
        if name.qualifier is not None:
            asked = [source for source in self.sources if source.answers(name.qualifier or "")]
            if not asked:
                known = [source.alias for source in self.sources]
                hint = f"{nearest(name.qualifier, known)} (streams here: {listed(known)})"
                raise QueryError(f"unknown stream {name.qualifier!r}{hint}", name.span)
        found = [(source, own) for source in asked if (own := source.attribute(name.name)) is not None]
        if not found:
            known = [each.name for source in asked for each in source.stream.schema]
            where = " and ".join(source.alias for source in asked)
            for source in asked:
                if (kind := fields_of(source.stream.event_type).get(name.name)) is not None:
                    of_kind = f"{source.stream.name}.{name.name} is of {kind.__name__ if isinstance(kind, type) else kind}"
                    raise QueryError(f"{of_kind}, for which FlinkCQL has no type", name.span)
            raise QueryError(
                f"unknown attribute {name.name!r}{nearest(name.name, known)} ({where}: {listed(dict.fromkeys(known))})",
                name.span,
            )
        if len(found) > 1 and name.name.lower() not in self.using:
            both = " or ".join(f"{source.alias}.{own.name}" for source, own in found)
            raise QueryError(f"{name.name!r} may mean {both}: write which", name.span)
        return found[0]

    def attribute(self, name: Name) -> Code:
        bound = self.bounds.column(name) if self.bounds is not None else None
        if bound is not None:
            return bound
        source, attribute = self.resolve(name)
        code = attribute.code(source.variable)
        if source.is_optional and name.qualifier is None and name.name.lower() in self.using:
            other = self.sources[1].attribute(name.name)  # what USING names is that of either side
            assert other is not None
            kind = ValueKind(code.type, other.kind.nullable)
            either = Conditional(NullTest(code.value, True), code.value, other.code(self.sources[1].variable).value)
            return Code(Parenthesis(either), kind)
        return code

    def call(self, call: Call) -> Code | None:
        if call.name in NAMES:
            raise QueryError(self.refusal.format(name=call.name), call.span)
        if self.bounds is not None:
            return self.bounds.call(call)
        if call.name in ("window_start", "window_end"):
            raise QueryError(f"{call.name}() is for queries over windows", call.span)
        return None


class AggregateScope:
    """The scope of a SELECT that aggregates: attributes by which it is grouped, aggregates, and the bounds of the window."""

    def __init__(
        self, inner: StreamScope, grouped: Sequence[tuple[RangeVariable, Attribute]], frame: CodeFrame, bounds: BoundNames
    ) -> None:
        self.inner = inner
        self.bounds = bounds
        self.grouped = grouped
        self.frame = frame
        self.aggregates: list[tuple[QueryAggregate, tuple[Code, ...]]] = []

    def attribute(self, name: Name) -> Code:
        bound = self.bounds.column(name)
        if bound is not None:
            return bound
        source, attribute = self.inner.resolve(name)
        if all(attribute.field != own.field for _, own in self.grouped):
            raise QueryError(
                f"{name.name!r} has many values in a window: GROUP BY {name.name}, or aggregate it (max({name.name}))",
                name.span,
            )
        return attribute.code(source.variable)

    def call(self, call: Call) -> Code | None:
        if call.name not in NAMES:
            return self.bounds.call(call)
        analysis = Analysis(self.inner, self.frame)
        arguments = tuple(self.frame.sealed(analysis.visit(each)) for each in call.arguments)
        made = aggregate(call.name, list(arguments), call.is_star, call.span, call.is_distinct)
        for place, (other, given) in enumerate(self.aggregates):
            if other.name == made.name and given == arguments:
                return Code(ElementRead("a", place), other.kind)
        self.aggregates.append((made, arguments))
        return Code(ElementRead("a", len(self.aggregates) - 1), made.kind)


def aggregates_of(node: SyntaxNode) -> list[Call]:
    """The aggregates in an expression."""
    return [call for call in calls(node) if call.name in NAMES]


def window_of(
    window: s.WindowClause,
    source: RangeVariable,
    execution: s.Execution | None,
    frame: CodeFrame,
    distances: Mapping[str, Distance] = DISTANCES,
) -> WindowPlan:
    """The plan of a window over a source. Raises QueryError if it makes no sense there."""
    measured = None
    if window.time is not None:
        known = source.attribute(window.time.name)
        if known is None or (known.name != TS and known != source.stream.timestamp):
            own = source.stream.timestamp.name if source.stream.timestamp is not None else TS
            raise QueryError(f"{source.alias} is ordered by {own}: write DESCRIPTOR({own})", window.time.span)
    distance = DISTANCES["euclidean"]
    if isinstance(window.kind, s.DeltaClause):
        scope = StreamScope([source], NESTED)
        codes = [frame.sealed(analyse(each, scope, frame)) for each in window.kind.measures]
        for code, node in zip(codes, window.kind.measures, strict=True):
            if code.type not in NUMBERS:
                raise QueryError(f"a delta window measures numbers, and this is a {code.type}: CAST it", node.span)
        points = [converted(frame, code, Type.DOUBLE) for code in codes]
        measured = Code(frame.strict(points, lambda *names: ValueTuple(names)), ValueKind(Type.ANY, True))
        if window.kind.distance is not None:
            named = distances.get(window.kind.distance.name.lower())
            if named is None:
                hint = f"{nearest(window.kind.distance.name, distances)} (known: {listed(distances)})"
                raise QueryError(f"unknown distance {window.kind.distance.name!r}{hint}", window.kind.distance.span)
            distance = named
        if execution is not None and execution.model is not s.ExecutionModel.TUPLE:
            raise QueryError("delta windows are tuple-driven: each tuple is compared with the first", execution.span)
    return plan_window(window, source.stream, execution, measured, distance)
