"""The sequence operator: a query as a detector that takes changes in any order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, Protocol

import msgspec
from msgspec.structs import astuple

from detectors.outcomes import difference, event_of, misfit, unchecked, withheld
from detectors.sequence.algorithm import Algorithm, ScanWork
from detectors.sequence.grammar.syntax import QueryTree, Strategy
from detectors.sequence.planning.analysis import Types, plan
from detectors.sequence.planning.sequence_plan import SequencePlan
from detectors.sequence.strategies.matcher import Matcher
from detectors.sequence.strategies.matches import Fail, Identify, Match, MatchChanges, first_of, last_of
from detectors.sequence.strategies.native_plan import specification
from middleware import native
from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.errors import DetectorError
from middleware.model.event import IDENTITY, NEVER, Event, EventType, Value, converted
from middleware.model.later import Later
from middleware.model.operator import Operation, Operator, Origin, Snapshot
from middleware.model.values.carried import holds_numbers


class SequenceQuery(Operator):
    """A sequence query over streams that arrive out of order.

    ``query``
        the query as text, or as a syntax tree (``builder.seq``).
    ``types``
        the event types that it may name, also in RETURN.
    ``name``
        the name under which it publishes (default: the name of its result type).
    ``result``
        the type of its results, to which other detectors subscribe.
    ``algorithm``
        for study: the name of the algorithm that runs, in plain Python, with its ``work`` counted. All find the same; without
        one the fastest runs. Strategies other than skip-till-any-match have one algorithm.

    Raises QueryError, with line, column and what to write, if the query makes no sense.

    >>> class Shelf(Event):
    ...     tag: int
    >>> class Exit(Event):
    ...     tag: int
    >>> query = SequenceQuery("EVENT SEQ(Shelf s, Exit e) WHERE [tag] WITHIN 1 hour RETURN Left(s.tag)", [Shelf, Exit])
    >>> query.result.__struct_fields__[0], [each.__name__ for each in query.subscribes]
    ('tag', ['Shelf', 'Exit'])
    """

    def __init__(
        self,
        query: str | QueryTree,
        types: Types,
        name: str = "",
        algorithm: Algorithm | Literal["sort", "clock", "partition"] | None = None,
    ) -> None:
        if algorithm == Algorithm.TOTAL_ORDER:
            raise DetectorError("algorithm total-order is wrong where events come late: take sort, clock or partition")
        self.algorithm, self.work = None if algorithm is None else Algorithm(algorithm), ScanWork()
        self.plan = plan(query, types, name)
        if algorithm is not None and self.plan.strategy is not Strategy.ANY:
            raise DetectorError(f"algorithm {algorithm} is one of {Strategy.ANY}, and the query says {self.plan.strategy}")
        self.name = self.plan.name
        self.subscribes = self.plan.types
        self.publishes = (self.plan.result,)
        self.definition = str(query)
        keys = {step.key for step in (*self.plan.steps, *self.plan.negations)}
        self.partition_key = (keys.pop() or ()) if len(keys) == 1 else ()
        self.emits_before_clock = not self.plan.trails  # type: ignore[misc]
        if algorithm is None and self.plan.strategy is Strategy.ANY and self.plan.fields is not None:
            self.min_rows_for_columns = 0  # columns of several types are one call, and no result needs the events

    @property
    def result(self) -> EventType:
        return self.plan.result

    def start(self, name: str, level: int) -> SequenceOperation:
        studied = None if self.algorithm is None else partial(Matcher, algorithm=self.algorithm, work=self.work)
        return SequenceOperation(self.plan, Origin(name, level), studied)


Row = tuple[Value, ...]
"""The fields of a result in their order: its own, then ts, id, source and level."""


class QueryState(Protocol):
    """Keeps the state of a query."""

    def events(self) -> list[Event]: ...
    @property
    def held(self) -> int: ...
    @property
    def keys(self) -> int: ...


class MatchSearch(QueryState, Protocol):
    """The operation in Python, where matches are events."""

    def apply(self, inserts: list[Event], retracts: list[Event], emitted: int, final: int) -> MatchChanges: ...


class SequenceOperation(Operation):
    """A running sequence query. Its state is the events it holds and the time; everything else follows from them.

    ``studied``: what runs the query in Python, in place of the core.
    """

    takes_several = True

    def __init__(
        self,
        plan: SequencePlan,
        origin: Origin,
        studied: Callable[[SequencePlan, Identify, Fail], MatchSearch] | None = None,
    ) -> None:
        super().__init__()
        self._plan = plan
        self._origin = origin
        self._studied = studied
        self._emitted = self._final = NEVER
        self._results = list[plan.result]  # type: ignore[name-defined]
        self._readable: frozenset[EventType] = frozenset()
        # numbers that RETURN copies were checked when their events came in
        self.is_carried = plan.fields is not None and studied is None and holds_numbers(plan.result)
        self._start()

    def _start(self) -> None:
        """Make an empty core and ``_apply``, which gives it changes and returns rows of new and of withdrawn matches."""
        if self._studied is not None:
            self._start_studied(self._studied(self._plan, self._identity, self.fail))
            return
        spec = specification(self._plan, self._origin.source, self._origin.level)
        core: native.SequenceMatcher | native.SequenceRuns
        if self._plan.strategy is Strategy.ANY:
            core = matcher = native.SequenceMatcher(spec, self.fail)
            self._readable = frozenset(
                kind for kind, at in zip(self._plan.roles, spec["columns"], strict=True) if at is not None
            )
            self._feed = matcher.feed
        else:
            core = native.SequenceRuns(spec, self.fail)
        self._core: QueryState = core
        self._apply = core.apply

    def _start_studied(self, searching: MatchSearch) -> None:
        self._core = searching

        def apply(inserts: list[Event], retracts: list[Event], emitted: int, final: int) -> tuple[list[Row], list[Row]]:
            changes = searching.apply(inserts, retracts, emitted, final)
            return self._rows(changes.made), self._rows(changes.withdrawn)

        self._apply = apply

    def _identity(self, match: Match) -> int:
        parts = (tuple(map(IDENTITY, part)) if isinstance(part, tuple) else IDENTITY(part) for part in match)
        return self._origin.id(*parts)

    def _rows(self, matches: Mapping[int, Match]) -> list[Row]:
        values, source, level = self._plan.values, self._origin.source, self._origin.level
        if self._plan.trails:
            within = self._plan.within
            return [(*values(*m), first_of(m).ts + within, number, source, level) for number, m in matches.items()]
        return [(*values(*m), last_of(m).ts, number, source, level) for number, m in matches.items()]

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        if self._plan.never is not None:
            return Delta()
        retracts = delta.retracts
        if self.failures:
            retracts = [event for event in retracts if self.failures.pop(IDENTITY(event), None) is None]
        try:
            made, withdrawn, columns = self._changes(delta, retracts, emitted, final)
        except RecursionError:
            raise DetectorError(
                f"{self._origin.source}: a Kleene group has become too large for {self._plan.strategy}; "
                f"write USING {Strategy.NEXT}, or a shorter window"
            ) from None
        self._emitted, self._final = emitted, final
        if not made and not withdrawn:
            return Delta(columns)
        try:
            out = difference(converted(withdrawn, self._results), converted(made, self._results))
        except msgspec.ValidationError:  # some results do not fit, and are quarantined
            before, after = ([event_of(self._plan.result, row) for row in rows] for rows in (withdrawn, made))
            out = withheld(self, difference(before, after), self._misfit)
        return out if columns is None else Delta(columns, [], out.retracts)

    def takes(self, columns: Block) -> bool:
        return columns.event_type in self._readable

    def _changes(
        self, delta: Delta, retracts: list[Event], emitted: int, final: int
    ) -> tuple[list[Row], list[Row], Block | None]:
        """Rows of new and of withdrawn matches; new ones as columns, if they can be and none replaces a withdrawn one."""
        pieces = delta.given.pieces if delta.given is not None else ()
        if pieces and all(map(self.takes, pieces)):
            given = [(piece.event_type, piece, piece.in_core) for piece in pieces]
            if (found := self._feed(given, retracts, emitted, final)) is not None:
                made, withdrawn, block = found
                columns = None if block is None else Block.from_core(self._plan.result, block, in_time=True)
                return made, withdrawn, columns
        return *self._apply(delta.inserts, retracts, emitted, final), None

    def _misfit(self, result: Event) -> str | None:
        """The fault of an unchecked result; None if it has none."""
        return misfit(result, "RETURN gives")

    @property
    def held(self) -> int:
        return self._core.held

    @property
    def keys(self) -> int:
        return self._core.keys

    def snapshot(self) -> Snapshot:
        """Types and values of the events held, the time, and failures that are not final yet."""
        held = Later(_rows, self._core.events(), self._plan.types)
        types = (*self._plan.types, self._plan.result)
        failures = [(types.index(event.__class__), astuple(event), text) for event, text in self.failures.values()]
        return held, failures, self._emitted, self._final

    def restore(self, state: Snapshot) -> None:
        held, failures, self._emitted, self._final = state
        types = (*self._plan.types, self._plan.result)
        self._start()
        self._apply([unchecked(types[number], values) for number, values in held], [], self._emitted, self._final)
        self.failures = {}
        for number, values, text in failures:
            self.fail(unchecked(types[number], values), text)


def _rows(events: list[Event], types: Sequence[EventType]) -> list[tuple[int, tuple[Value, ...]]]:
    """The number of its type and the values of each event, once."""
    unique = {IDENTITY(event): event for event in events}
    return [(types.index(event.__class__), astuple(event)) for event in unique.values()]
