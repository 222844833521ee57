"""Statements as a running application: ``compile_cql`` gives their operators and event types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from detectors.cql.catalog import Catalog, CatalogStream
from detectors.cql.grammar import statements as s
from detectors.cql.grammar.cql_parser import parse_statements
from detectors.cql.line_reader import line_source
from detectors.cql.planning.planner import Planner
from detectors.cql.planning.query_plan import JoinQueryPlan, LookupQueryPlan, PatternPlan, Plan, TuplePlan, WindowQueryPlan
from detectors.cql.planning.window_plans import DISTANCES, Distance
from detectors.cql.query_operators.join_operator import JoinOperator
from detectors.cql.query_operators.lookup_operator import LookupOperator
from detectors.cql.query_operators.matching import MatchOperator
from detectors.cql.query_operators.tuple_operator import MappingOperator
from detectors.cql.query_operators.windowed import WindowedOperator
from detectors.language.query_errors import QueryError
from middleware.model.event import EventType
from middleware.model.operator import Operator


class Streams(Mapping[str, type[Any]]):
    """The event types of streams by case-insensitive name. Their fields stand in the statements: no type checker knows them."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def __getitem__(self, name: str) -> type[Any]:
        found = self._catalog.find(name)
        if found is None:
            raise KeyError(name)
        return found.event_type

    def __iter__(self) -> Iterator[str]:
        return iter([stream.name for stream in self._catalog])

    def __len__(self) -> int:
        return len(list(self._catalog))


_TOO_DEEP = "an expression is too long, or nested too deeply: split it"


class Script:
    """The result of compiling statements. More can be added; a refused statement leaves everything as it was before it.

    ``types``
        event types of the broker that statements may read and write without creating them.
    ``folder``
        where the files of tables and sources lie (default: the working directory).
    ``distances``
        functions of two points (tuples of numbers) that delta windows may name, besides euclidean, manhattan and maximum:
        ``[DELTA 500 ON latitude, longitude BY metres]``. The code of a function is part of no checkpoint: give another function
        another name.

    >>> script = Script()
    >>> _ = script.add("CREATE STREAM Tick (symbol String, price Double); SELECT symbol FROM Tick WHERE price > 100 INTO High")
    >>> [operator.name for operator in script.operators], script.types["High"].__struct_fields__[:1]
    (['High'], ('symbol',))
    """

    def __init__(
        self,
        types: Iterable[EventType] = (),
        distances: Mapping[str, Distance] = MappingProxyType({}),
        folder: Path | None = None,
    ) -> None:
        self.catalog = Catalog(types)
        self.operators: list[Operator] = []
        own = {name.lower(): distance for name, distance in distances.items()}
        self._folder = folder or Path()
        self._planner = Planner(self.catalog, {**DISTANCES, **own}, self._folder)

    def __iter__(self) -> Iterator[Operator]:
        """Its operators, so that a script stands in a list of detectors."""
        return iter(self.operators)

    @property
    def types(self) -> Streams:
        """The event types of all streams by name."""
        return Streams(self.catalog)

    @property
    def plans(self) -> list[Plan]:
        """The plans behind the operators, in the same order."""
        return self._planner.plans

    @property
    def sources(self) -> list[CatalogStream]:
        """The streams that are read from files and hosts."""
        return [stream for stream in self.catalog if stream.source is not None and stream.rows is None]

    def add(self, text: str) -> list[CatalogStream]:
        """Add statements; returns the streams that they write. Raises QueryError with the place in the text."""
        written: list[CatalogStream] = []
        for statement in parse_statements(text):
            if not isinstance(statement, s.Explain):
                written += self.take(statement, text)
        return written

    def take(self, statement: s.Statement, text: str) -> list[CatalogStream]:
        """Add one statement of a text. If it is refused (QueryError), everything stays as it was before it."""
        before = self._planner.state()
        try:
            written = self._planner.statement(statement)
            made = [operator_of(plan) for plan in self._planner.plans[len(self.operators) :]]
            for operator in made:
                _check_start(operator, statement)
                read = [stream for stream in self.sources if stream.event_type in operator.subscribes]
                operator.sources = tuple(line_source(stream, self._folder) for stream in read)
        except QueryError as error:
            self._planner.reset(before)
            raise error.located(text) from None
        except RecursionError:
            self._planner.reset(before)
            raise QueryError(_TOO_DEEP, statement.span).located(text) from None
        self.operators += made
        return written

    def explain(self, statement: s.Statement, text: str) -> list[Plan]:
        """The plans that a statement would add, without adding it. Raises QueryError."""
        before = self._planner.state()
        try:
            self._planner.statement(statement)
            return self._planner.plans[len(self.operators) :]
        except QueryError as error:
            raise error.located(text) from None
        except RecursionError:
            raise QueryError(_TOO_DEEP, statement.span).located(text) from None
        finally:
            self._planner.reset(before)


def _check_start(operator: Operator, statement: s.Statement) -> None:
    """Accepted queries can run: one that cannot be started is refused here, not at deployment."""
    try:
        operator.start(operator.name, 1)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise QueryError(f"this cannot be run ({why}): please report it; simpler expressions may do", statement.span) from error


def operator_of(plan: Plan) -> Operator:
    """The operator that runs a plan."""
    match plan:
        case TuplePlan():
            return MappingOperator(plan)
        case WindowQueryPlan():
            return WindowedOperator(plan)
        case LookupQueryPlan():
            return LookupOperator(plan)
        case PatternPlan():
            return MatchOperator(plan)
        case JoinQueryPlan():
            return JoinOperator(plan)


def compile_cql(
    text: str,
    types: Iterable[EventType] = (),
    distances: Mapping[str, Distance] = MappingProxyType({}),
    folder: Path | None = None,
) -> Script:
    """The script of a text of statements, separated by semicolons. Raises QueryError.

    ``types`` are existing event types: a stream with the name of one is that type. ``distances``, ``folder`` as for ``Script``.
    """
    script = Script(types, distances, folder)
    script.add(text)
    return script


def load_cql(file: str | Path, types: Iterable[EventType] = ()) -> Script:
    """The script of a file of statements, whose files lie beside it. Raises QueryError, naming the file."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise QueryError(f"{file} cannot be read: {error}") from None
    try:
        return compile_cql(text, types, folder=Path(file).parent)
    except QueryError as error:
        error.args = (f"{file}: {error}",)
        raise
