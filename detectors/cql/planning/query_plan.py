"""Plans of queries: statements with names and types resolved. Code fragments read the event ``e``."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

from detectors.cql.catalog import TS, CatalogStream
from detectors.cql.grammar.pattern import Step
from detectors.cql.grammar.statements import Skip
from detectors.cql.planning.window_plans import Measure, WindowPlan
from detectors.language.aggregate_functions import QueryAggregate
from detectors.language.code import Code, CodeFrame
from middleware.model.event import Event, field_names
from middleware.model.operator import described


@dataclass(frozen=True)
class QueryPlan:
    """The base of all plans.

    ``name``
        the name of the operator, which is the source of its results.
    ``target``
        the stream that it writes.
    ``columns``
        the code of each attribute of the target, in the order of its schema.
    """

    name: str
    target: CatalogStream
    columns: tuple[Code, ...]
    frame: CodeFrame

    @property
    def definition(self) -> str:
        """The whole plan as text: streams by name, constants by the values that code refers to."""
        parts = {
            field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("frame", "target", "rows")
        }
        constants = {name: value for name, value in self.frame.globals.items() if name != "__builtins__"}
        return described(type(self), self.target.name, parts, constants)

    @property
    def ordered(self) -> tuple[Code, ...]:
        """The columns in the order of the fields of the target's event type."""
        own = (each.field for each in self.target.schema if each.name != TS)
        by_field = dict(zip(own, self.columns, strict=True))
        return tuple(by_field[field] for field in field_names(self.target.event_type))

    def constructor(self, ts: str, identity: str, source: str = "source_", level: str = "level_") -> str:
        """Code that makes a result with this time, identity, source and level."""
        make = self.frame.constant(self.target.event_type)
        values = ", ".join(column.value for column in self.ordered)
        return f"{make}({values}, ts={ts}, id={identity}, source={source}, level={level})"


@dataclass(frozen=True)
class TuplePlan(QueryPlan):
    """Projection and selection, tuple by tuple: SELECT without windows, copies, the branches of a split, MERGE.

    ``sources``
        the streams it reads; if there are several (MERGE), ``others`` has the columns of each.
    ``time``
        the time of results, if it is not that of their tuples: when these arrived, which is not before they happened.
    """

    sources: tuple[CatalogStream, ...]
    where: Code | None = None
    others: tuple[tuple[Code, ...], ...] = ()
    time: Code | None = None


class SortKey(NamedTuple):
    """One key of ORDER BY. A NaN is greater than all other numbers."""

    code: Code
    is_descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Ranking:
    """Which results of a window count: DISTINCT, then those from ``offset`` on, ``count`` of them (None: all), by ``keys``.

    Equal ones keep their total order.
    """

    is_distinct: bool
    keys: tuple[SortKey, ...]
    offset: int = 0
    count: int | None = None


@dataclass(frozen=True)
class WindowQueryPlan(QueryPlan):
    """A query over the windows of one stream.

    ``before``
        the condition for a tuple to enter a window at all (WHERE inside the window).
    ``partition``
        each value has its own windows.
    ``after``
        the condition for a window's tuples to count (WHERE), if it differs from ``before``.
    ``group``
        the groups inside each window; each gives a result.
    ``aggregates``
        the aggregates, with the code of their arguments. Columns read the first tuple of the group as ``e``, the values of the
        aggregates as ``a``, and the bounds of the window as ``w``.
    ``is_aggregated``
        whether each group gives one result; else each tuple of the window does.
    ``having``
        the condition for a group to give its result, which reads what columns read.
    ``ranking``
        what becomes of a window's results, if not all count.
    """

    source: CatalogStream
    window: WindowPlan
    before: Code | None = None
    partition: tuple[Code, ...] = ()
    after: Code | None = None
    group: tuple[Code, ...] = ()
    aggregates: tuple[tuple[QueryAggregate, tuple[Code, ...]], ...] = ()
    is_aggregated: bool = True
    having: Code | None = None
    ranking: Ranking | None = None

    @property
    def sources(self) -> tuple[CatalogStream, ...]:
        """The stream it reads."""
        return (self.source,)


@dataclass(frozen=True)
class PatternPlan(QueryPlan):
    """MATCH_RECOGNIZE: each match of a pattern among the tuples of a partition gives a result. Code is that of ``recognize``.

    ``steps``, ``tests``
        the pattern, and the conditions of its variables by number (None: any tuple).
    ``back``
        how many tuples before a match code may look at.
    ``within``
        how much later (ns) than the first tuple of a match its last may be; None: any time.
    ``skip``, ``skip_to``
        where the next match may begin, and the number of the variable that this speaks of.
    """

    source: CatalogStream
    partition: tuple[Code, ...]
    steps: tuple[Step, ...]
    tests: tuple[Code | None, ...]
    back: int
    within: int | None
    skip: Skip
    skip_to: int = -1
    before: Code | None = None

    @property
    def sources(self) -> tuple[CatalogStream, ...]:
        """The stream it reads."""
        return (self.source,)


@dataclass(frozen=True)
class Side:
    """One side of a join. ``keys`` must be equal on both sides; a tuple with a NULL or NaN key joins nothing."""

    source: CatalogStream
    window: WindowPlan
    before: Code | None
    keys: tuple[Code, ...]
    partition: tuple[Code, ...] = ()


@dataclass(frozen=True)
class JoinQueryPlan(QueryPlan):
    """A join of the current windows of two streams. Code reads the left tuple as ``e``, the right one as ``f``.

    ``condition``
        the condition on pairs besides equal keys.
    ``keeps``
        whether tuples of the left side, and of the right one, give a result without a partner, too; code then reads NULLs.
    ``after``
        the condition on results (WHERE), if there may be such.
    """

    left: Side
    right: Side
    condition: Code | None = None
    keeps: tuple[bool, bool] = (False, False)
    after: Code | None = None

    @property
    def is_paired(self) -> bool:
        """Whether each pair is one result, made as its later tuple comes (EVERY 1)."""
        return self.left.window.slide.measure is Measure.COUNT

    @property
    def is_aligned(self) -> bool:
        """Whether both windows end at the same moments, which follow from time alone."""
        left, right = self.left.window, self.right.window
        same = left.slide == right.slide and left.phase == right.phase and left.start == right.start
        return same and left.slide.measure is Measure.TS and left.model is right.model

    @property
    def sources(self) -> tuple[CatalogStream, ...]:
        """The streams it reads, the left one first; the same one twice if a stream is joined with itself."""
        return self.left.source, self.right.source


@dataclass(frozen=True)
class LookupQueryPlan(QueryPlan):
    """A join of a stream with the rows of a table. Code reads the tuple as ``e``, the row as ``f``.

    ``keys``, ``row_keys``
        what must be equal; NULL and NaN equal nothing.
    ``content``
        a number that stands for the rows.
    ``keeps``
        whether a tuple without a row gives a result, too; code then reads NULLs. ``after`` is the condition on results.
    """

    source: CatalogStream
    rows: tuple[Event, ...]
    content: int
    keys: tuple[Code, ...]
    row_keys: tuple[Code, ...]
    condition: Code | None = None
    keeps: bool = False
    after: Code | None = None

    @property
    def sources(self) -> tuple[CatalogStream, ...]:
        """The stream it reads."""
        return (self.source,)


Plan = TuplePlan | LookupQueryPlan | WindowQueryPlan | PatternPlan | JoinQueryPlan
