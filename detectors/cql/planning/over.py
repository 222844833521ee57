"""``aggregate OVER (PARTITION BY ... ORDER BY ts ...)``: each tuple gives a result, with aggregates of it and those before it.

It is a window that ends with each tuple. ROWS counts tuples in total order; RANGE measures time, and takes in the tuples of the
same time stamp that follow in total order, as SQL has it. Without a frame it is RANGE UNBOUNDED PRECEDING.
"""

from __future__ import annotations

from detectors.cql.catalog import TS
from detectors.cql.grammar import statements as s
from detectors.cql.planning.scopes import NESTED, RangeVariable, StreamScope
from detectors.cql.planning.window_plans import Measure, Shape, WindowExtent, WindowPlan
from detectors.language.aggregate_functions import NAMES, PLACE, Fold, QueryAggregate, aggregate
from detectors.language.code import Code, CodeFrame
from detectors.language.compiler import Analysis
from detectors.language.expression import ElementRead, ValueTuple
from detectors.language.query_errors import QueryError, nearest
from detectors.language.tree import Call, Literal, calls
from detectors.language.value_types import Type, ValueKind

BLOCKING = (
    "{name} would block: over an endless stream it never comes to a result; "
    "give the stream a window, such as FROM ... [SIZE 100], or write {name}(...) OVER (ORDER BY ts)"
)


def over_calls(select: s.Select) -> list[s.OverCall]:
    """The calls with OVER in a SELECT. Raises QueryError if one stands elsewhere."""
    for node in (select.where, select.having):
        found = [call for call in calls(node) if isinstance(call, s.OverCall)] if node is not None else []
        if found:
            raise QueryError("OVER is known after WHERE is decided: filter the result in an outer SELECT", found[0].span)
    nodes = [each.expression for each in select.targets if each.expression is not None]
    return [call for node in nodes for call in calls(node) if isinstance(call, s.OverCall)]


def plan_over(made: list[s.OverCall], source: RangeVariable) -> WindowPlan:
    """The window of a SELECT with these calls. Raises QueryError if they do not have one window."""
    first = made[0].window
    for call in made:
        if call.window.partition != first.partition:
            raise QueryError("all OVER of a query must have the same PARTITION BY: use two queries and join them", call.span)
        if call.window.order is None:
            raise QueryError("OVER needs an order: write OVER (ORDER BY ts)", call.span)
        own = source.attribute(call.window.order.name)
        if own is None or (own.name != TS and own != source.stream.timestamp):
            best = "ORDER BY x DESC LIMIT n over a window gives the first" if call.name == "row_number" else "write ORDER BY ts"
            raise QueryError(
                f"OVER goes by time, and {call.window.order.name} is not that of {source.alias}: {best}", call.span
            )
    frame = _common_frame(made)
    slide = WindowExtent(Measure.COUNT, 1)
    if frame.amount is None:
        return WindowPlan(Shape.LANDMARK, s.ExecutionModel.TUPLE, slide, is_over=True, has_peers=not frame.is_rows)
    size = WindowExtent(Measure.COUNT if frame.is_rows else Measure.TS, frame.amount + 1)
    return WindowPlan(Shape.SIZE, s.ExecutionModel.TUPLE, slide, size, is_over=True, has_peers=not frame.is_rows)


def _common_frame(made: list[s.OverCall]) -> s.PrecedingFrame:
    """The one frame of all calls; that of LAG and ROW_NUMBER follows from what they are."""
    frames: dict[s.PrecedingFrame, s.OverCall] = {}
    least = 0
    for call in made:
        if call.name == "lag":
            least = max(least, _distance(call))
        if call.name in ("lag", "row_number") and call.window.frame is not None:
            raise QueryError(f"{call.name} takes no frame: leave it out", call.span)
        if call.name == "row_number":
            frames[s.PrecedingFrame(True, None)] = call
        elif call.name != "lag":
            frames[call.window.frame or s.PrecedingFrame(False, None)] = call
    if not frames:
        return s.PrecedingFrame(True, least)
    frame = next(iter(frames))
    if least and not frame.is_rows:  # what lies a number of rows back hangs on which of those at the same time is meant
        lag = next(call for call in made if call.name == "lag")
        raise QueryError(
            "lag goes by rows: give the other OVER of the query a frame of rows, such as ROWS UNBOUNDED PRECEDING, "
            "or use two queries and join them",
            lag.span,
        )
    if len(frames) > 1 or (frame.amount is not None and frame.amount < least):
        last = list(frames.values())[-1]
        raise QueryError("all OVER of a query must have the same frame: use two queries and join them", last.span)
    return frame


def _distance(call: s.OverCall) -> int:
    """How many tuples back LAG looks."""
    match call.arguments:
        case (_,):
            return 1
        case (_, Literal(int() as count, Type.INT)) if count > 0:
            return count
    raise QueryError("write lag(x), or lag(x, 2) with a whole number", call.span)


class OverScope(StreamScope):
    """The scope of a SELECT with OVER: attributes of the current tuple, and aggregates."""

    def __init__(self, source: RangeVariable, frame: CodeFrame) -> None:
        super().__init__([source], BLOCKING)
        self._source, self._frame = source, frame
        self.aggregates: list[tuple[QueryAggregate, tuple[Code, ...]]] = []

    def call(self, call: Call) -> Code | None:
        if not isinstance(call, s.OverCall):
            return super().call(call)
        analysis = Analysis(StreamScope([self._source], NESTED), self._frame)
        arguments = [self._frame.sealed(analysis.visit(each)) for each in call.arguments]
        made = self._aggregate(call, arguments)
        self.aggregates.append(made)
        return Code(ElementRead("a", len(self.aggregates) - 1), made[0].kind)

    def _aggregate(self, call: s.OverCall, arguments: list[Code]) -> tuple[QueryAggregate, tuple[Code, ...]]:
        if call.name == "row_number":
            if arguments or call.is_star:
                raise QueryError("row_number() takes no arguments", call.span)
            return aggregate("count", [], True, call.span), ()
        if call.name in _PLACES or call.name == "lag":
            name, fold = call.name, _PLACES.get(call.name)
            if fold is None:
                distance = _distance(call)
                name, fold = f"lag {distance}", _lag(distance)
            kind = ValueKind(arguments[0].type, True) if arguments else ValueKind(Type.NULL)
            if not arguments or (call.name in _PLACES and len(arguments) > 1):
                raise QueryError(f"{call.name} takes one argument", call.span)
            kept = Code(ValueTuple([arguments[0].value]), ValueKind(Type.ANY))  # a tuple, so that NULLs count
            return QueryAggregate(f"{name} {PLACE}", fold, kind), (kept,)
        if call.name not in NAMES:
            known = [*NAMES, *_PLACES, "lag", "row_number"]
            raise QueryError(f"{call.name} is no aggregate{nearest(call.name, known)}: OVER is for aggregates", call.span)
        made = aggregate(call.name, arguments, call.is_star, call.span, call.is_distinct)
        return made, tuple(arguments)


def _lag(distance: int) -> Fold:
    return lambda values: values[-1 - distance][0] if len(values) > distance else None


_PLACES: dict[str, Fold] = {
    "first_value": lambda values: values[0][0],
    "last_value": lambda values: values[-1][0],
}
