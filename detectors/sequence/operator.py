"""The sequence operator: a query as a detector that takes changes in any order (design section 6.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec
from msgspec.structs import astuple

from detectors.sequence.analysis import Types, plan
from detectors.sequence.matcher import Matcher
from detectors.sequence.matches import Changes, Match, first_of, last_of
from detectors.sequence.plan import Plan
from detectors.sequence.runs import Runs
from detectors.sequence.syntax import Query, Strategy
from middleware.change import Delta
from middleware.event import IDENTITY, NEVER, Event, EventType
from middleware.operator import Operation, Operator, Origin


class SequenceQuery(Operator):
    """A sequence query over streams that arrive out of order.

    ``query``
        its text, or its syntax tree (``builder.seq``).
    ``types``
        the event types that it may name; those that RETURN may name too.
    ``name``
        the name under which it publishes (default: that of its result type).
    ``result``
        the type of its results: what other detectors subscribe to.

    Raises QueryError, with line, column and a hint, where the query makes no sense.

    >>> class Shelf(Event):
    ...     tag: int
    >>> class Exit(Event):
    ...     tag: int
    >>> query = SequenceQuery("EVENT SEQ(Shelf s, Exit e) WHERE [tag] WITHIN 1 hour RETURN Left(s.tag)", [Shelf, Exit])
    >>> query.result.__struct_fields__[0], [each.__name__ for each in query.subscribes]
    ('tag', ['Shelf', 'Exit'])
    """

    def __init__(self, query: str | Query, types: Types, name: str = "") -> None:
        self.plan = plan(query, types, name)
        self.name = self.plan.name
        self.subscribes = self.plan.types
        self.publishes = (self.plan.result,)

    @property
    def result(self) -> EventType:
        return self.plan.result

    def start(self, name: str, level: int) -> SequenceOperation:
        return SequenceOperation(self.plan, Origin(name, level))


class Core(Protocol):
    """What keeps the state of a query, one for each strategy."""

    def apply(self, inserts: list[Event], retracts: list[Event], emitted: int, final: int) -> Changes: ...
    def events(self) -> list[Event]: ...
    @property
    def held(self) -> int: ...
    @property
    def keys(self) -> int: ...


class SequenceOperation(Operation):
    """A running sequence query. Its state is the events it holds, and the time: all else follows from them."""

    def __init__(self, plan: Plan, origin: Origin) -> None:
        super().__init__()
        self._plan = plan
        self._origin = origin
        self._emitted = self._final = NEVER
        self._results = list[plan.result]  # type: ignore[name-defined]
        self._core = self._started()

    def _started(self) -> Core:
        core = Matcher if self._plan.strategy is Strategy.ANY else Runs
        return core(self._plan, self._identity, self.fail)

    def _identity(self, match: Match) -> int:
        parts = (tuple(map(_named, part)) if isinstance(part, tuple) else _named(part) for part in match)
        return self._origin.id(*parts)

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        retracts = delta.retracts
        if self.failures:
            retracts = [event for event in retracts if self.failures.pop(IDENTITY(event), None) is None]
        changes = self._core.apply(delta.inserts, retracts, emitted, final)
        self._emitted, self._final = emitted, final
        return self._built(changes)

    def _built(self, changes: Changes) -> Delta:
        """Results of what has changed. Their content follows from the match, so none needs to be kept to be withdrawn."""
        if not changes.withdrawn:
            return Delta(self._events(changes.made.items()))
        before = dict(zip(changes.withdrawn, self._events(changes.withdrawn.items()), strict=True))
        after = dict(zip(changes.made, self._events(changes.made.items()), strict=True))
        both = [(before.pop(identity), after.pop(identity)) for identity in before.keys() & after.keys()]
        return Delta(list(after.values()), [pair for pair in both if pair[0] != pair[1]], list(before.values()))

    def _events(self, matches: Iterable[tuple[int, Match]]) -> list[Event]:
        plan, source, level = self._plan, self._origin.source, self._origin.level
        values, within = plan.values, plan.within
        if plan.trails:
            rows = [(*values(*match), first_of(match).ts + within, number, source, level) for number, match in matches]
        else:
            rows = [(*values(*match), last_of(match).ts, number, source, level) for number, match in matches]
        return msgspec.convert(rows, self._results) if rows else []  # type: ignore[no-any-return]

    @property
    def held(self) -> int:
        return self._core.held

    @property
    def keys(self) -> int:
        return self._core.keys

    def snapshot(self) -> Any:
        """Type names and values of the events held, the time, and failures that are not final yet."""
        held = [(self._plan.types.index(event.__class__), astuple(event)) for event in self._core.events()]
        failures = [
            (self._plan.types.index(event.__class__), astuple(event), text) for event, text in self.failures.values()
        ]
        return held, failures, self._emitted, self._final

    def restore(self, state: Any) -> None:
        held, failures, self._emitted, self._final = state
        self.failures = {}
        for number, values, text in failures:
            self.fail(self._event(number, values), text)
        self._core = self._started()
        self._core.apply([self._event(number, values) for number, values in held], [], self._emitted, self._final)

    def _event(self, number: int, values: Any) -> Event:
        event_type = self._plan.types[number]
        fields = dict(zip(event_type.__struct_fields__, values, strict=True))
        return event_type(**fields)


def _named(event: Event) -> tuple[str, int]:
    return event.source, event.id
