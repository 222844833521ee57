"""Statements of FlinkCQL as trees (Vu 2015, section 4.2). Comparisons ignore spans."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from detectors.cql.grammar.pattern import Part as Pattern
from detectors.language.query_errors import NOWHERE, TextSpan
from detectors.language.tree import Call, Name, SyntaxNode
from detectors.language.value_types import Type


@dataclass(frozen=True, slots=True)
class StatementPart:
    """The base of all parts of statements: their place in the text."""

    span: TextSpan = field(default=NOWHERE, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Ident(StatementPart):
    """The name of a stream or a schema; dots set off its namespace."""

    name: str


@dataclass(frozen=True, slots=True)
class TypedAttribute(StatementPart):
    """``price Double [NOT NULL]``."""

    name: str
    type: Type
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class AnonymousSchema(StatementPart):
    """Attributes in brackets."""

    attributes: tuple[TypedAttribute, ...]


Schema = Ident | AnonymousSchema


@dataclass(frozen=True, slots=True)
class CreateSchema(StatementPart):
    """``CREATE SCHEMA name (...) | other [EXTENDS parent]``."""

    name: Ident
    schema: Schema
    parent: Ident | None = None


@dataclass(frozen=True, slots=True)
class Host(StatementPart):
    """``SOURCE HOST (host, port) [DISORDER duration]``: lines of text from a TCP server, at most so much (ns) out of order."""

    host: str
    port: int
    disorder: int | None = None


@dataclass(frozen=True, slots=True)
class File(StatementPart):
    """``SOURCE FILE (path, delimiter) [DISORDER duration]``: lines of a text file."""

    path: str
    delimiter: str
    disorder: int | None = None


class Axis(StrEnum):
    """The axis that a window is measured on."""

    COUNT = "count"
    SYSTEM = "system time"
    APPLICATION = "application time"


@dataclass(frozen=True, slots=True)
class Spec(StatementPart):
    """A size or a slide: ``100`` tuples, ``3 hours`` (``amount`` is nanoseconds), or ``60 ON attribute``."""

    axis: Axis
    amount: int
    attribute: str | None = None


@dataclass(frozen=True, slots=True)
class Instant(StatementPart):
    """A moment on the time axis of a window: a number in its units, or a Datetime as text."""

    value: int | str


@dataclass(frozen=True, slots=True)
class SizeClause(StatementPart):
    """``SIZE size [EVERY slide] [STARTING AT first upper bound]``: sliding, tumbling (no slide, or the same) or jumping.

    ``is_half_open``: [lower, upper), as the window functions of SQL have it, instead of (lower, upper].
    """

    size: Spec
    slide: Spec | None = None
    start: Instant | None = None
    is_half_open: bool = False


@dataclass(frozen=True, slots=True)
class LandmarkClause(StatementPart):
    """``LANDMARK [AT instant] EVERY slide``: the lower bound stays where it is."""

    start: Instant | None
    slide: Spec


@dataclass(frozen=True, slots=True)
class FixedClause(StatementPart):
    """``FIXED FROM lower TO upper [ON attribute]``: one window."""

    lower: Instant
    upper: Instant
    attribute: str | None = None


@dataclass(frozen=True, slots=True)
class DeltaClause(StatementPart):
    """``DELTA threshold ON expressions [BY distance]``: it ends before the first tuple farther than that from its first."""

    threshold: float
    measures: tuple[SyntaxNode, ...]
    distance: Ident | None = None


@dataclass(frozen=True, slots=True)
class SessionClause(StatementPart):
    """``SESSION(..., gap)``: runs of tuples, none more than ``gap`` after the one before."""

    gap: Spec


Kind = SizeClause | LandmarkClause | FixedClause | DeltaClause | SessionClause


@dataclass(frozen=True, slots=True)
class WindowClause(StatementPart):
    """The specification in square brackets after a stream, or a window function of SQL around it.

    ``time``: what DESCRIPTOR names in a window function; None for square brackets.
    """

    kind: Kind
    partition: tuple[Name, ...] = ()
    where: SyntaxNode | None = None
    time: Name | None = None


class Skip(StrEnum):
    """Where the next match may begin: behind the last row, at the row after the first, at a row of a variable."""

    PAST = "past last row"
    NEXT = "to next row"
    FIRST = "to first"
    LAST = "to last"


@dataclass(frozen=True, slots=True)
class Recognize(StatementPart):
    """``MATCH_RECOGNIZE (...)``; ``within`` in ns; ``measures`` and ``definitions`` have the names as aliases."""

    pattern: Pattern
    partition: tuple[Name, ...] = ()
    order: Name | None = None
    measures: tuple[SelectItem, ...] = ()
    skip: Skip = Skip.PAST
    skip_to: Ident | None = None
    within: int | None = None
    definitions: tuple[SelectItem, ...] = ()


@dataclass(frozen=True, slots=True)
class Reference(StatementPart):
    """A stream, or a sub-select, with its alias and its window, or the matches of a pattern in it."""

    base: Ident | Select
    alias: str | None = None
    window: WindowClause | None = None
    matched: Recognize | None = None


@dataclass(frozen=True, slots=True)
class Join(StatementPart):
    """``CROSS JOIN`` (neither), ``JOIN ... ON condition``, or ``JOIN ... USING (attributes)``.

    ``keeps``: whether tuples of the left side, and of the right one, are kept without a partner (LEFT, RIGHT, FULL).
    """

    other: Reference
    condition: SyntaxNode | None = None
    using: tuple[Name, ...] = ()
    keeps: tuple[bool, bool] = (False, False)


@dataclass(frozen=True, slots=True)
class SelectItem(StatementPart):
    """One entry after SELECT; ``expression`` None stands for ``*``, of the stream ``qualifier`` if given."""

    expression: SyntaxNode | None
    alias: str | None = None
    qualifier: str | None = None


class ExecutionModel(StrEnum):
    """Execution models (Vu 2015, section 3.1)."""

    TUPLE = "tuple"
    TIME = "time"
    BATCH = "batch"


@dataclass(frozen=True, slots=True)
class Execution(StatementPart):
    """``EXECUTE model DRIVEN [BY attribute]``: the events the query reacts to."""

    model: ExecutionModel
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Ordering(StatementPart):
    """One key of ORDER BY. ``nulls_first``: as written; None: NULL counts as the least value."""

    key: SyntaxNode
    is_descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class Limit(StatementPart):
    """``LIMIT count [OFFSET offset]``."""

    count: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class PrecedingFrame:
    """A frame from so many tuples (``is_rows``) or nanoseconds before the current tuple to it; None: from the first one."""

    is_rows: bool
    amount: int | None


@dataclass(frozen=True, slots=True)
class OverWindow(SyntaxNode):
    """The window after OVER: its partition, its order and its frame."""

    partition: tuple[Name, ...] = ()
    order: Name | None = None
    frame: PrecedingFrame | None = None


@dataclass(frozen=True, slots=True)
class OverCall(Call):
    """A call with its OVER."""

    window: OverWindow = field(default=OverWindow(), kw_only=True)

    def __str__(self) -> str:
        return f"{Call.__str__(self)} OVER (...)"


@dataclass(frozen=True, slots=True)
class Select(StatementPart):
    """A query."""

    targets: tuple[SelectItem, ...]
    source: Reference
    join: Join | None = None
    where: SyntaxNode | None = None
    group_by: tuple[SyntaxNode, ...] = ()
    having: SyntaxNode | None = None
    into: Ident | None = None
    execution: Execution | None = None
    is_distinct: bool = False
    order_by: tuple[Ordering, ...] = ()
    limit: Limit | None = None


@dataclass(frozen=True, slots=True)
class Merge(StatementPart):
    """``MERGE a, b, ... [INTO c]``: streams of one schema as one."""

    streams: tuple[Ident, ...]
    into: Ident | None = None


Derived = Ident | Select | Merge
Source = Derived | Host | File
"""Where the tuples of a stream come from."""


@dataclass(frozen=True, slots=True)
class Timestamp(StatementPart):
    """``TIMESTAMP attribute [FORMAT 'format']``: the attribute that orders a stream; with a format, only how lines write it."""

    attribute: str
    form: str | None = None


@dataclass(frozen=True, slots=True)
class CreateStream(StatementPart):
    """``CREATE STREAM name [schema] [TIMESTAMP attribute [FORMAT ...]] [SYSTEM TIME attribute] [AS ... | SOURCE ...]``."""

    name: Ident
    schema: Schema | None = None
    timestamp: Timestamp | None = None
    source: Source | None = None
    system_time: str | None = None


@dataclass(frozen=True, slots=True)
class CreateTable(StatementPart):
    """``CREATE TABLE name schema SOURCE FILE (path, delimiter)``: rows that streams look up."""

    name: Ident
    schema: Schema
    source: File


@dataclass(frozen=True, slots=True)
class InsertStatement(StatementPart):
    """``INSERT INTO stream [AS] stream | sub-select``."""

    target: Ident
    source: Derived


@dataclass(frozen=True, slots=True)
class InsertClause(StatementPart):
    """One branch of a split."""

    target: Ident
    targets: tuple[SelectItem, ...]
    where: SyntaxNode | None = None


@dataclass(frozen=True, slots=True)
class SplitStatement(StatementPart):
    """``ON stream INSERT INTO ... SELECT ... WHERE ...``, with one or more branches."""

    source: Ident
    clauses: tuple[InsertClause, ...]


@dataclass(frozen=True, slots=True)
class Explain(StatementPart):
    """``EXPLAIN statement``."""

    statement: Statement


Statement = CreateSchema | CreateStream | CreateTable | InsertStatement | Merge | SplitStatement | Select | Explain
