"""The lane of an incremental operator: it is handed changes as they are, and the time that has passed; it never replays."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple

from middleware.change import Delta
from middleware.event import END, NEVER, TS, Event
from middleware.later import Later
from middleware.operator import Operator
from middleware.ordering.lane import Counts, Settings
from middleware.ordering.retraction import Published


class Ready(NamedTuple):
    """Events to emit.

    ``ahead`` are strictly in order and later than any emitted before; ``behind`` are the others, in any order.
    """

    ahead: list[Event]
    behind: list[Event]


_MANY = 64
"""Changes kept before it is worth while to look which of them are final."""


class Standing:
    """What an operation has published and is not final: changes are kept as they go out, and netted when that is asked."""

    def __init__(self, results: Iterable[Event] = ()) -> None:
        kept = list(results)
        self._changes = [(END, Delta(kept))] if kept else []
        self._due = _MANY

    def note(self, out: Delta, final: int) -> None:
        """Changes go out. Amortised O(1) each."""
        events = [*out.inserts, *out.retracts, *chain.from_iterable(out.revises)]
        self._changes.append((max(map(TS, events)), Delta(out.inserts.copy(), out.revises.copy(), out.retracts.copy())))
        if len(self._changes) > self._due:
            self._changes = [each for each in self._changes if each[0] > final]
            self._due = 2 * len(self._changes) + _MANY

    def above(self, final: int) -> list[Event]:
        """The results later than ``final``. O(changes)."""
        return _standing(self._changes, final)

    def state(self, final: int) -> Later:
        """The same, to be found out later."""
        return Later(_standing, self._changes.copy(), final)


def _standing(noted: list[tuple[int, Delta]], final: int) -> list[Event]:
    results: dict[int, Event] = {}
    for _, changes in noted:
        for event in changes.retracts:
            results.pop(event.id, None)
        results.update((new.id, new) for _, new in changes.revises)
        results.update((event.id, event) for event in changes.inserts)
    return [event for event in results.values() if event.ts > final]


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

    def state(self, final: int) -> tuple[Any, ...]:
        """All that the operation needs to go on in another process."""
        operation = None if self.stopped else self._operation.snapshot()
        results = self._results.state(self._told[1])
        return operation, dict(self._operation.failures), self.stopped, results, self._told, self._now

    def restore(self, state: tuple[Any, ...]) -> None:
        """Become the lane that gave ``state``."""
        operation, failed, self.stopped, results, self._told, self._now = state
        self._results = Standing(results)
        if self.stopped is None:
            self._operation.restore(operation)
        self._operation.failures = failed

    def part(self, count: int) -> list[Any]:
        """``state`` has it all."""
        return []

    def restore_part(self, part: list[Any]) -> None:
        """There are no parts."""

    def _check(self) -> None:
        """Operations check themselves in tests of their own."""
