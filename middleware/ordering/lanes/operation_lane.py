"""The lane of an incremental operator: it gets the changes themselves, and the passage of time; it never replays."""

from __future__ import annotations

import traceback
from functools import partial
from typing import Any

from middleware.model.change import Delta, by_time
from middleware.model.errors import ENDING
from middleware.model.event import END, NEVER, Event
from middleware.model.operator import Operator, applied
from middleware.native import in_time
from middleware.ordering.lanes.lane import Counts
from middleware.ordering.lanes.provisional_results import ProvisionalResults
from middleware.ordering.lanes.ready_events import ReadyEvents
from middleware.ordering.lanes.retraction import EventResults


def _in_time(out: Delta, start: int) -> Delta:
    """Return the changes with new results in order of time; K+ of each is how far it lies above ``start``, if any does."""
    if isinstance(out.new, list):
        out.early = in_time(out.new, start)
        return out
    out = by_time(out)
    out.early = start
    return out


class OperatorLane:
    """Takes the place of a detector's lanes, for an operator.

    ``stopped`` is the traceback if the operator raised in ``apply``, or when asked for its state. That state cannot be
    trusted any more: results that are not final are withdrawn, and no more come.
    ``resumes``: the stream may resume after its end, so a copy of the operation from before the end is kept.
    """

    def __init__(self, name: str, operator: Operator, level: int, resumes: bool = False) -> None:
        self.counts = Counts()
        self.stopped: str | None = None
        self._start = partial(operator.start, name, level)
        self._operation = self._start()
        self._results = ProvisionalResults()
        self._given_time = self._now = (NEVER, NEVER)
        self._resumes = resumes
        self._before: tuple[Any, list[Event]] | None = None
        """The operation before the end, and its results that were not final then."""

    def __len__(self) -> int:
        return self._operation.keys

    @property
    def held(self) -> int:
        """The number of events that the operation keeps."""
        return self._operation.held

    @property
    def has_failed(self) -> bool:
        """Whether some failures are not listed yet."""
        return bool(self._operation.failures)

    @property
    def is_due(self) -> bool:
        """Whether time has passed that the operation has not been given, or the operation has stopped in between."""
        return self._now != self._given_time or self.stopped is not None

    def advance(self, emitted: int, final: int) -> None:
        """Let time pass: the operation learns of it at the next ``emit``."""
        self._now = emitted, final

    def emit(self, ready: ReadyEvents, removed: list[Event], clk: int, k: int) -> list[Delta]:
        """Pass on the ready and the removed events; K+ of a result is how much earlier it comes than with full slack."""
        if self.stopped is not None:
            return self.withdraw(self._given_time[1])
        published: list[Delta] = []
        emitted, promised = self._given_time
        given = ready.deltas(removed, self._operation)
        try:
            may_resume = self._resumes and self._now[1] == END != promised
            if may_resume and given[-1]:
                given.append(Delta())
            for delta in given[:-1]:
                published += self._applied(delta, (max(emitted, ready.newest()), promised), clk, k)
            if may_resume:
                self._before = (self._operation.snapshot(), self._results.above(promised))
            published += self._applied(given[-1], self._now, clk, k)
        except ENDING:
            raise
        except BaseException:
            self.stopped = traceback.format_exc(limit=-8)
            published += self.withdraw(promised)
        return published

    def _applied(self, delta: Delta, now: tuple[int, int], clk: int, k: int) -> list[Delta]:
        """Pass changes and time to the operation; returns the changes of its results, if there are any."""
        promised, self._given_time = self._given_time[1], now
        self.counts.executed += delta.inserted
        out = applied(self._operation, delta, *now)
        if not out:
            return []
        out = _in_time(out, clk - k)  # the unit above measures their delays
        self._results.note(out, promised)
        return [out]

    def resume(self, floor: int) -> list[Delta]:
        """Resume from before the end. Results up to ``floor`` were published at the end; those above it were withdrawn there,
        so they are published again. O(what is kept)."""
        self._given_time = self._now = floor, floor
        if self._before is None or self.stopped is not None:
            return []
        (state, results), self._before = self._before, None
        self._operation = self._start()
        self._operation.restore(state)
        self._results = ProvisionalResults(results)
        try:
            if out := applied(self._operation, Delta(), floor, floor):
                self._results.note(_in_time(out, floor), NEVER)
        except ENDING:
            raise
        except BaseException:
            self.stopped = traceback.format_exc(limit=-8)
            self._results = ProvisionalResults()
            return []
        self._operation.failed(floor)  # they were listed at the end
        again = self._results.above(floor)
        return [Delta(again)] if again else []

    def provisional(self, promised: int) -> list[Event]:
        """Results later than ``promised``. O(what is kept)."""
        return self._results.above(promised)

    def latest(self, promised: int) -> int:
        """The latest time of results later than ``promised``; NEVER if there are none. Those forgotten are no later."""
        return self._results.latest(promised)

    def withdraw(self, promised: int) -> list[Delta]:
        """Retract all results later than ``promised``: those up to it are final, and complete."""
        gone, self._results = self._results.above(promised), ProvisionalResults()
        return [Delta(retracts=gone)] if gone else []

    def purge(self, final: int) -> list[EventResults]:
        """Operations forget by themselves; this returns the failures that became final."""
        failures = [EventResults(event, [], failure) for event, failure in self._operation.failed(final)]
        self.counts.failures += len(failures)
        return failures

    def state(self) -> tuple[Any, ...]:
        """All that the operation needs to resume in another process."""
        operation = None
        if self.stopped is None:
            try:
                operation = self._operation.snapshot()
            except ENDING:
                raise
            except BaseException:  # the node continues: the operation stops as if it had raised at the next event
                self.stopped = traceback.format_exc(limit=-8)
        results = self._results.state(self._given_time[1])
        return operation, dict(self._operation.failures), self.stopped, results, self._given_time, self._now, self._before

    def restore(self, state: tuple[Any, ...]) -> None:
        """Become the lane that gave ``state``."""
        operation, failed, self.stopped, results, self._given_time, self._now, self._before = state
        self._results = ProvisionalResults(results)
        if self.stopped is None:
            self._operation.restore(operation)
        self._operation.failures = failed


def migrated_operation(state: tuple[Any, ...], operator: Operator, version: int) -> tuple[Any, ...]:
    """Migrate the state that ``OperationLane.state`` gave with another version of the operator. Raises DetectorError."""
    operation, failures, stopped, results, given_time, now, before = state
    if before is not None:
        before = operator.migrate(before[0], version), before[1]
    return operator.migrate(operation, version), failures, stopped, results, given_time, now, before
