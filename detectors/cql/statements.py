"""Statements of FlinkCQL as trees (Vu 2015, section 4.2). Comparisons ignore spans."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from detectors.cql.pattern import Part as Pattern
from detectors.language.errors import NOWHERE, Span
from detectors.language.tree import Name, SyntaxNode
from detectors.language.types import Type


@dataclass(frozen=True, slots=True)
class Part:
    """The base of all parts of statements: their place in the text."""

    span: Span = field(default=NOWHERE, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Ident(Part):
    """The name of a stream or a schema; dots set off its namespace."""

    name: str


@dataclass(frozen=True, slots=True)
class TypedAttribute(Part):
    """``price Double [NOT NULL]``."""

    name: str
    type: Type
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class AnonymousSchema(Part):
    """Attributes in brackets."""

    attributes: tuple[TypedAttribute, ...]


Schema = Ident | AnonymousSchema


@dataclass(frozen=True, slots=True)
class CreateSchema(Part):
    """``CREATE SCHEMA name (...) | other [EXTENDS parent]``."""

    name: Ident
    schema: Schema
    parent: Ident | None = None


@dataclass(frozen=True, slots=True)
class Host(Part):
    """``SOURCE HOST (host, port) [DISORDER duration]``: lines of text from a TCP server, at most so much (ns) out of order."""

    host: str
    port: int
    disorder: int | None = None


@dataclass(frozen=True, slots=True)
class File(Part):
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
class Spec(Part):
    """A size or a slide: ``100`` tuples, ``3 hours`` (``amount`` is nanoseconds), or ``60 ON attribute``."""

    axis: Axis
    amount: int
    attribute: str | None = None


@dataclass(frozen=True, slots=True)
class Instant(Part):
    """A moment on the time axis of a window: a number in its units, or a Datetime as text."""

    value: int | str


@dataclass(frozen=True, slots=True)
class Size(Part):
    """``SIZE size [EVERY slide] [STARTING AT first upper bound]``: sliding, tumbling (no slide, or the same) or jumping.

    ``is_half_open``: [lower, upper), as the window functions of SQL have it, instead of (lower, upper].
    """

    size: Spec
    slide: Spec | None = None
    start: Instant | None = None
    is_half_open: bool = False


@dataclass(frozen=True, slots=True)
class Landmark(Part):
    """``LANDMARK [AT instant] EVERY slide``: the lower bound stays where it is."""

    start: Instant | None
    slide: Spec


@dataclass(frozen=True, slots=True)
class Fixed(Part):
    """``FIXED FROM lower TO upper [ON attribute]``: one window."""

    lower: Instant
    upper: Instant
    attribute: str | None = None


@dataclass(frozen=True, slots=True)
class Delta(Part):
    """``DELTA threshold ON expressions [BY distance]``: it ends before the first tuple farther than that from its first."""

    threshold: float
    measures: tuple[SyntaxNode, ...]
    distance: Ident | None = None


@dataclass(frozen=True, slots=True)
class Session(Part):
    """``SESSION(..., gap)``: runs of tuples, none more than ``gap`` after the one before."""

    gap: Spec


Kind = Size | Landmark | Fixed | Delta | Session


@dataclass(frozen=True, slots=True)
class Window(Part):
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
class Recognize(Part):
    """``MATCH_RECOGNIZE (...)``; ``within`` in ns; ``measures`` and ``definitions`` have the names as aliases."""

    pattern: Pattern
    partition: tuple[Name, ...] = ()
    order: Name | None = None
    measures: tuple[Target, ...] = ()
    skip: Skip = Skip.PAST
    skip_to: Ident | None = None
    within: int | None = None
    definitions: tuple[Target, ...] = ()


@dataclass(frozen=True, slots=True)
class Reference(Part):
    """A stream, or a sub-select, with its alias and its window, or the matches of a pattern in it."""

    base: Ident | Select
    alias: str | None = None
    window: Window | None = None
    matched: Recognize | None = None


@dataclass(frozen=True, slots=True)
class Join(Part):
    """``CROSS JOIN`` (neither), ``JOIN ... ON condition``, or ``JOIN ... USING (attributes)``.

    ``keeps``: whether tuples of the left side, and of the right one, are kept without a partner (LEFT, RIGHT, FULL).
    """

    other: Reference
    condition: SyntaxNode | None = None
    using: tuple[Name, ...] = ()
    keeps: tuple[bool, bool] = (False, False)


@dataclass(frozen=True, slots=True)
class Target(Part):
    """One entry after SELECT; ``expression`` None stands for ``*``, of the stream ``qualifier`` if given."""

    expression: SyntaxNode | None
    alias: str | None = None
    qualifier: str | None = None


class Model(StrEnum):
    """Execution models (Vu 2015, section 3.1)."""

    TUPLE = "tuple"
    TIME = "time"
    BATCH = "batch"


@dataclass(frozen=True, slots=True)
class Execution(Part):
    """``EXECUTE model DRIVEN [BY attribute]``: the events the query reacts to."""

    model: Model
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Ordering(Part):
    """One key of ORDER BY. ``nulls_first``: as written; None: NULL counts as the least value."""

    key: SyntaxNode
    is_descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class Limit(Part):
    """``LIMIT count [OFFSET offset]``."""

    count: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Select(Part):
    """A query."""

    targets: tuple[Target, ...]
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
class Merge(Part):
    """``MERGE a, b, ... [INTO c]``: streams of one schema as one."""

    streams: tuple[Ident, ...]
    into: Ident | None = None


Derived = Ident | Select | Merge
Source = Derived | Host | File
"""Where the tuples of a stream come from."""


@dataclass(frozen=True, slots=True)
class Timestamp(Part):
    """``TIMESTAMP attribute [FORMAT 'format']``: the attribute that orders a stream; with a format, only how lines write it."""

    attribute: str
    form: str | None = None


@dataclass(frozen=True, slots=True)
class CreateStream(Part):
    """``CREATE STREAM name [schema] [TIMESTAMP attribute [FORMAT ...]] [SYSTEM TIME attribute] [AS ... | SOURCE ...]``."""

    name: Ident
    schema: Schema | None = None
    timestamp: Timestamp | None = None
    source: Source | None = None
    system_time: str | None = None


@dataclass(frozen=True, slots=True)
class CreateTable(Part):
    """``CREATE TABLE name schema SOURCE FILE (path, delimiter)``: rows that streams look up."""

    name: Ident
    schema: Schema
    source: File


@dataclass(frozen=True, slots=True)
class Insert(Part):
    """``INSERT INTO stream [AS] stream | sub-select``."""

    target: Ident
    source: Derived


@dataclass(frozen=True, slots=True)
class InsertClause(Part):
    """One branch of a split."""

    target: Ident
    targets: tuple[Target, ...]
    where: SyntaxNode | None = None


@dataclass(frozen=True, slots=True)
class Split(Part):
    """``ON stream INSERT INTO ... SELECT ... WHERE ...``, with one or more branches."""

    source: Ident
    clauses: tuple[InsertClause, ...]


@dataclass(frozen=True, slots=True)
class Explain(Part):
    """``EXPLAIN statement``."""

    statement: Statement


Statement = CreateSchema | CreateStream | CreateTable | Insert | Merge | Split | Select | Explain
