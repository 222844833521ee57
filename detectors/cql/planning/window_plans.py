"""Plans of windows: how they are measured, where they begin, when they report (Vu 2015, sections 2.2 and 3.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from detectors.cql.catalog import TS, Attribute, CatalogStream, find
from detectors.cql.grammar import statements as s
from detectors.language import values
from detectors.language.code import Code
from detectors.language.query_errors import QueryError, TextSpan, nearest
from detectors.language.value_types import INTEGERS, LIMITS, Type
from middleware.model.event import MAX_TS
from middleware.model.time import SECOND
from middleware.model.words import listed

MOST_WINDOWS = 100_000
"""The most windows that one tuple may be in."""


Point = tuple[float, ...]
Distance = Callable[[Point, Point], float]


def euclidean(one: Point, other: Point) -> float:
    """The length of the straight line between two points; of numbers, their difference."""
    return abs(one[0] - other[0]) if len(one) == 1 else math.dist(one, other)


def manhattan(one: Point, other: Point) -> float:
    """The sum of the differences in all directions."""
    return math.fsum(abs(a - b) for a, b in zip(one, other, strict=True))


def maximum(one: Point, other: Point) -> float:
    """The largest of the differences in all directions."""
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


DISTANCES: Mapping[str, Distance] = {"euclidean": euclidean, "manhattan": manhattan, "maximum": maximum}
"""The distances that delta windows know, by name."""


class Measure(StrEnum):
    """The measure of an extent.

    ``TS``
        the time of the events, in nanoseconds: system time, or the application time that orders a stream.
    ``CLOCK``
        an attribute that is a separate clock. It never runs backwards: a tuple with an older time than one before it counts at
        the time that the clock shows at its place in the total order.
    ``COUNT``
        tuples, in total order.
    """

    TS = "ts"
    CLOCK = "clock"
    COUNT = "count"


class Shape(StrEnum):
    """How the bounds move."""

    SIZE = "size"
    LANDMARK = "landmark"
    FIXED = "fixed"
    DELTA = "delta"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class WindowExtent:
    """A number of tuples, nanoseconds, or units of an attribute. ``tick`` is the resolution of the measure."""

    measure: Measure
    amount: int
    tick: int = 0


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """One window specification of one stream. Content is (lower, upper].

    ``size``
        None: not bounded by a size (landmark, fixed, delta).
    ``lower``, ``upper``
        of landmark and fixed windows, on the measure of the slide (of a fixed one: ``slide``'s measure).
    ``slide``
        of a session: its gap.
    ``start``
        the upper bound of the first window, if given; else ``slide`` - tick, so that the first window starts at 0. (A tick of
        1 ns makes windows of ts half-open: [start, end) is (start - 1, end - 1].)
    ``clock``
        the attribute behind Measure.CLOCK, as code over the event ``e``.
    ``batch``
        the attribute that separates batches of the same time (batch-driven only).
    ``measured``
        the values that a delta window measures, as code over ``e``; ``threshold`` is their largest ``distance`` from the first.
    ``is_over``
        whether a window's result is one of the tuple that it ends with (OVER); with ``has_peers`` the window then holds the
        tuples of the same time stamp that follow, too (RANGE).
    """

    shape: Shape
    model: s.ExecutionModel
    slide: WindowExtent
    size: WindowExtent | None = None
    start: int | None = None
    lower: int | None = None
    upper: int | None = None
    clock: Code | None = None
    batch: Code | None = None
    measured: Code | None = None
    threshold: float = 0.0
    distance: Distance = euclidean
    is_over: bool = False
    has_peers: bool = False

    @property
    def is_timed(self) -> bool:
        """Whether the window reports when time passes, rather than when a tuple comes."""
        return self.shape is not Shape.DELTA and self.slide.measure is Measure.TS

    @property
    def phase(self) -> int:
        """Upper bounds are ``phase`` + k * slide, unless the first tuple sets them (``is_anchored``)."""
        return self.start if self.start is not None else -self.slide.tick

    @property
    def is_anchored(self) -> bool:
        """Whether the first window starts with the first tuple, as in time-driven systems (Vu 2015, 3.1, Example 1)."""
        return (
            self.model is s.ExecutionModel.TIME
            and self.start is None
            and self.shape is Shape.SIZE
            and self.slide.measure is Measure.TS
        )

    @property
    def on_change(self) -> bool:
        """Whether a window is reported only if its content differs from that of the one before (Example 2)."""
        return self.model is not s.ExecutionModel.TUPLE


def measures_arrival(window: s.WindowClause) -> bool:
    """Whether a window goes by system time, or by the order of arrival, rather than by application time alone."""
    match window.kind:
        case s.SizeClause(size, slide):
            return (
                any(spec is not None and spec.axis is not s.Axis.APPLICATION for spec in (size, slide)) and window.time is None
            )
        case s.LandmarkClause(_, slide):
            return slide.axis is not s.Axis.APPLICATION
        case s.FixedClause(attribute=attribute):
            return attribute is None
        case s.SessionClause():
            return False
        case s.DeltaClause():
            return True


def plan_window(
    window: s.WindowClause, stream: CatalogStream, execution: s.Execution | None, measured: Code | None, distance: Distance
) -> WindowPlan:
    """The plan of a window over a stream. Raises QueryError if it makes no sense."""
    return _Planner(stream, execution).plan(window, measured, distance)


class _Planner:
    def __init__(self, stream: CatalogStream, execution: s.Execution | None) -> None:
        self.stream = stream
        self.model = execution.model if execution is not None else s.ExecutionModel.TUPLE
        self.batch = None
        self.clock: Code | None = None
        if execution is not None and execution.by is not None:
            if self.model is not s.ExecutionModel.BATCH:
                raise QueryError("only batches are distinguished BY an attribute: EXECUTE BATCH DRIVEN BY ...", execution.span)
            self.batch = self._attribute(execution.by, execution.span).code()

    def plan(self, window: s.WindowClause, measured: Code | None, distance: Distance) -> WindowPlan:
        kind = window.kind
        match kind:
            case s.SizeClause():
                return self._size(kind)
            case s.LandmarkClause(start, slide):
                extent = self._extent(slide)
                measure = Measure.CLOCK if extent.measure is Measure.CLOCK else Measure.TS
                lower = None if start is None else self._instant(start, measure)
                return WindowPlan(
                    Shape.LANDMARK, self._model(kind.span), extent, lower=lower, clock=self.clock, batch=self.batch
                )
            case s.FixedClause(lower, upper, attribute):
                axis = s.Axis.SYSTEM if attribute is None else s.Axis.APPLICATION
                extent = self._extent(s.Spec(axis, 1, attribute, span=kind.span))
                bounds = [self._instant(each, extent.measure) for each in (lower, upper)]
                if bounds[0] >= bounds[1]:
                    raise QueryError("a fixed window must end after it begins", kind.span)
                model = self._model(kind.span)
                return WindowPlan(Shape.FIXED, model, extent, lower=bounds[0], upper=bounds[1], clock=self.clock)
            case s.DeltaClause(threshold):
                each = WindowExtent(Measure.COUNT, 1)
                return WindowPlan(
                    Shape.DELTA, s.ExecutionModel.TUPLE, each, measured=measured, threshold=threshold, distance=distance
                )

            case s.SessionClause(gap):
                if self.model is not s.ExecutionModel.TUPLE:
                    raise QueryError("sessions end by time alone: leave EXECUTE out", kind.span)
                return WindowPlan(Shape.SESSION, s.ExecutionModel.TUPLE, self._extent(gap))

    def _size(self, kind: s.SizeClause) -> WindowPlan:
        size = self._extent(kind.size)
        slide = self._extent(kind.slide) if kind.slide is not None else size
        if kind.is_half_open:
            size, slide = (replace(each, tick=1) for each in (size, slide))
        if size.measure is slide.measure and size.measure is not Measure.COUNT and size.amount > MOST_WINDOWS * slide.amount:
            raise QueryError(
                f"each tuple would be in {size.amount // slide.amount:,} windows, over {MOST_WINDOWS:,}: give a larger EVERY",
                kind.span,
            )
        start = None
        if kind.start is not None:
            if slide.measure is Measure.COUNT:
                raise QueryError("STARTING AT sets the first upper bound in time: give EVERY as a time", kind.start.span)
            start = self._instant(kind.start, slide.measure)
        model = self._model(kind.span)
        return WindowPlan(Shape.SIZE, model, slide, size, start, clock=self.clock, batch=self.batch)

    def _model(self, span: TextSpan) -> s.ExecutionModel:
        if self.model is not s.ExecutionModel.TUPLE and self.clock is not None:
            raise QueryError(
                f"the {self.model}-driven model reacts to the time by which a stream is ordered: declare it "
                f"(CREATE STREAM ... TIMESTAMP attribute), or use the tuple-driven model",
                span,
            )
        return self.model

    def _extent(self, spec: s.Spec) -> WindowExtent:
        if spec.axis is s.Axis.COUNT:
            return WindowExtent(Measure.COUNT, spec.amount)
        if spec.axis is s.Axis.SYSTEM:
            return WindowExtent(Measure.TS, spec.amount)
        name = spec.attribute or TS
        if name.lower() == TS:
            return WindowExtent(Measure.TS, self._seconds(spec.amount, spec.span))
        attribute = self._attribute(name, spec.span)
        if attribute.kind.type not in INTEGERS | {Type.DATETIME}:
            raise QueryError(
                f"application time must be a whole number or a Datetime, and {name} is a {attribute.kind}", spec.span
            )
        if attribute == self.stream.timestamp:
            return WindowExtent(Measure.TS, self._seconds(spec.amount, spec.span), SECOND)
        if self.clock is not None and self.clock != attribute.code():
            raise QueryError("a window can be measured by one application time only", spec.span)
        self.clock = attribute.code()
        return WindowExtent(Measure.CLOCK, spec.amount, 1)

    @staticmethod
    def _seconds(amount: int, span: TextSpan) -> int:
        if amount * SECOND >= MAX_TS:
            raise QueryError("this is longer than 146 years", span)
        return amount * SECOND

    def _attribute(self, name: str, span: TextSpan) -> Attribute:
        found = find(self.stream.schema, name)
        if found is None:
            known = [each.name for each in self.stream.schema]
            raise QueryError(f"unknown attribute {name!r}{nearest(name, known)} ({self.stream.name} has {listed(known)})", span)
        return found

    def _instant(self, instant: s.Instant, measure: Measure) -> int:
        value = instant.value
        if isinstance(value, str):
            seconds = values.to_datetime(value)
            if seconds is None:
                raise QueryError(f"{value!r} is no Datetime: write 'YYYY-MM-DD HH:MM:SS'", instant.span)
            value = seconds
        if measure is Measure.TS:
            value *= SECOND
        limit = MAX_TS if measure is Measure.TS else LIMITS[Type.LONG]
        if not -limit < value < limit:
            raise QueryError("this moment is farther than 146 years from 1970", instant.span)
        return value
