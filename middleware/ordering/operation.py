"""The lane of an incremental operator: it is handed changes as they are, and the time that has passed; it never replays."""

from __future__ import annotations

import traceback
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


class OperatorLane:
    """Stands where lanes of detectors stand, for an operator.

    ``stopped`` is the traceback if the operator raised out of ``apply``: what it has published stays, nothing more comes.
    All events of the batch at which it did are listed as failures, since none of them can be told to be innocent.
    """

    def __init__(self, name: str, operator: Operator, level: int) -> None:
        self.counts = Counts()
        self.stopped: str | None = None
        self._operation = operator.start(name, level)
        self._failures: list[Published] = []
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
        return bool(self._failures or self._operation.failures)

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
        self._told = self._now
        if self.stopped is not None:
            return []
        try:
            out = self._operation.apply(Delta(inserts, [], removed), *self._now)
        except Exception:
            self.stopped = traceback.format_exc(limit=-8)
            self._failures += [Published(event, [], self.stopped) for event in inserts]
            return []
        if not out:
            return []
        out.inserts.sort(key=TS)  # as if each came when it happened: their delays are measured above
        early = [max(0, event.ts + k - clk) for event in out.inserts]
        if any(early):
            out.k_plus = early
        return [out]

    def purge(self, final: int, everywhere: bool = True) -> list[Published]:
        """Operations forget by themselves; this gives the failures that became final."""
        failures, self._failures = self._failures, []
        failures += [Published(event, [], failure) for event, failure in self._operation.failed(final)]
        self.counts.failures += len(failures)
        return failures

    def state(self, final: int) -> tuple[Any, ...]:
        """All that the operation needs to go on in another process. To be encoded before it runs on."""
        failed = self._operation.failures
        return (
            None if self.stopped else self._operation.snapshot(),
            failed,
            self.stopped,
            self._failures,
            self._told,
            self._now,
        )

    def restore(self, state: tuple[Any, ...]) -> None:
        """Become the lane that gave ``state``."""
        operation, failed, self.stopped, self._failures, self._told, self._now = state
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
