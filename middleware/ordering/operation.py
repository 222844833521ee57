"""The lane of an incremental operator: it is handed changes as they are, and the time that has passed; it never replays."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NamedTuple

from middleware.change import Delta
from middleware.event import NEVER, TS, Event
from middleware.operator import Operator
from middleware.ordering.lane import Counts, Settings
from middleware.ordering.retraction import Published


class Ready(NamedTuple):
    """Events to emit.

    ``ahead`` are strictly in order and later than any emitted before; ``behind`` are the others, in any order.
    """

    ahead: list[Event]
    behind: list[Event]


_MUCH = 4_096
"""Results kept before it is worth while to look which of them are final."""

_ID = attrgetter("id")


class Standing:
    """The results of one operation that have been published and are not final, by id."""

    def __init__(self, results: Iterable[Event] = ()) -> None:
        self._results = {event.id: event for event in results}
        self._due = _MUCH

    def note(self, out: Delta, final: int) -> None:
        """Changes go out. Amortised O(1) each."""
        results = self._results
        for event in out.retracts:
            results.pop(event.id, None)
        if out.revises:
            results.update([(new.id, new) for _, new in out.revises])
        if out.inserts:
            results.update(zip(map(_ID, out.inserts), out.inserts, strict=True))
        if len(results) > self._due:
            self._due = 2 * len(self.above(final)) + _MUCH

    def above(self, final: int) -> list[Event]:
        """Those later than ``final``; the others are forgotten. O(results)."""
        self._results = {number: event for number, event in self._results.items() if event.ts > final}
        return list(self._results.values())


class OperatorLane:
    """Stands where lanes of detectors stand, for an operator.

    ``stopped`` is the traceback if the operator raised out of ``apply``. What it held is not to be trusted any more: its
    results that are not final are withdrawn, and nothing more comes.
    """

    def __init__(self, name: str, operator: Operator, level: int) -> None:
        self.counts = Counts()
        self.stopped: str | None = None
        self._operation = operator.start(name, level)
        self._results = Standing()
        self._told = self._now = (NEVER, NEVER)

    def __len__(self) -> int:
        return self._operation.keys

    @property
    def held(self) -> int:
        """How many events the operation keeps."""
        return self._operation.held

    @property
    def has_failed(self) -> bool:
        """Whether there are failures that are not listed yet."""
        return bool(self._operation.failures)

    @property
    def is_due(self) -> bool:
        """Whether time has passed that the operation was not told of yet."""
        return self._now != self._told

    def advance(self, emitted: int, final: int) -> None:
        """Time passes: the operation is told of it at the next ``emit``."""
        self._now = emitted, final

    def holds(self, event: Event) -> bool:
        """Whether an emitted event stands here: operations keep what they like of it, so nobody can tell."""
        return True

    def configure(self, settings: Settings) -> None:
        """Settings are about replays: there are none."""

    def snapshot(self) -> None:
        """Nothing goes back, so no snapshots are taken on the way, and none is measured."""

    def emit(self, ready: Ready, removed: list[Event], clk: int, k: int, settled: int) -> list[Delta]:
        """Hand over what is ready and what is removed; K+ of a result is how much earlier it comes than with full slack."""
        inserts = ready.behind + ready.ahead if ready.behind else ready.ahead
        self.counts.executed += len(inserts)
        promised, self._told = self._told[1], self._now
        try:
            out = self._operation.apply(Delta(inserts, [], removed), *self._now)
        except Exception:
            self.stopped = traceback.format_exc(limit=-8)
            return self.withdraw(promised)
        if not out:
            return []
        out.inserts.sort(key=TS)  # as if each came when it happened: their delays are measured above
        early = [max(0, event.ts + k - clk) for event in out.inserts]
        if any(early):
            out.k_plus = early
        self._results.note(out, promised)
        return [out]

    def withdraw(self, promised: int) -> list[Delta]:
        """Take back all results later than what was promised: those up to it rest on all there is to rest on."""
        gone, self._results = self._results.above(promised), Standing()
        return [Delta(retracts=gone)] if gone else []

    def purge(self, final: int, everywhere: bool = True) -> list[Published]:
        """Operations forget by themselves; this gives the failures that became final."""
        failures = [Published(event, [], failure) for event, failure in self._operation.failed(final)]
        self.counts.failures += len(failures)
        return failures

    def state(self) -> tuple[Any, ...]:
        """All that the operation needs to go on in another process."""
        operation = None if self.stopped else self._operation.snapshot()
        results = self._results.above(self._told[1])
        return operation, self._operation.failures, self.stopped, results, self._told, self._now

    def restore(self, state: tuple[Any, ...]) -> None:
        """Become the lane that gave ``state``."""
        operation, failed, self.stopped, results, self._told, self._now = state
        self._results = Standing(results)
        if self.stopped is None:
            self._operation.restore(operation)
        self._operation.failures = failed

    def _check(self) -> None:
        """Operations check themselves in tests of their own."""
