"""The ordering unit of an operator: changes in, changes out. An operator never replays: it takes what comes behind the AEP, and
what is withdrawn, as changes, and hears how time passes."""

from __future__ import annotations

from typing import Any

from middleware.model.block.mixed_block import AnyBlock
from middleware.model.change import Delta, composed
from middleware.model.event import END, NEVER, Event
from middleware.model.operator import Operator
from middleware.native import split
from middleware.ordering.alpha.costs import Timer
from middleware.ordering.lanes.lane import SPACING
from middleware.ordering.lanes.lanes import KeyedLane
from middleware.ordering.lanes.operation_lane import OperatorLane, migrated_operation
from middleware.ordering.lanes.ready_events import NOTHING, ReadyEvents
from middleware.ordering.lanes.retraction import EventResults, Retraction
from middleware.ordering.policies import Policies
from middleware.ordering.unit import Unit


class OperatorUnit(Unit):
    """See the module, and ``Unit``. ``resumes``: a stream that has ended may resume (see ``Unit.resume``)."""

    detector: Operator

    def __init__(
        self,
        name: str,
        operator: Operator,
        level: int = 1,
        policies: Policies | None = None,
        timer: Timer | None = None,
        resumes: bool = False,
    ) -> None:
        super().__init__(name, operator, level, policies, timer)
        self.min_rows_for_columns, self._emits_before_clock = operator.min_rows_for_columns, operator.emits_before_clock
        self._resumes = resumes
        self._begin()

    def _begin(self) -> None:
        self._lane = OperatorLane(self.name, self.detector, self.level, self._resumes)
        self.counts = self._lane.counts

    @property
    def is_idle(self) -> bool:
        return False  # an operator hears of the time even where nothing arrives

    def pass_time(self, mark: int | None, promised: int, is_open: bool) -> list[Delta]:
        timeline = self.timeline
        settled = timeline.final
        timeline.pass_time(mark, promised, is_open)
        if self.halted is None:
            timeline.emit()
        else:
            timeline.emit_final()
        deltas = self._emit(NOTHING, [], timeline.final) if self._has_work(NOTHING, []) else []
        if timeline.final == END != settled:
            self._end(settled)
            self._purge()
        if timeline.final >= self._pending_failures.since:
            self._list_failures()
        return deltas

    def resume(self, floor: int) -> list[Delta]:
        """See ``Unit``. The operator resumes from the state before the end, which for it is an event like others."""
        self.timeline.resume(floor + self._backdate if floor != NEVER else NEVER)  # so all new results are later
        deltas = self._lane.resume(floor) if self.halted is None else []
        self._count(deltas)
        return deltas

    # -- what comes in, and what is ready -------------------------------------------------------------------------------

    def _columns_of(self, delta: Delta) -> AnyBlock | None:
        return delta.given

    def _arrange(self, events: list[Event], top: int) -> ReadyEvents:
        if self.timeline.alpha or not self._waiting:  # an operator takes them in any order
            return ReadyEvents([], events.copy())
        return ReadyEvents(*split(events, top))

    def _may_hold(self, event: Event) -> bool:
        return True  # an operation keeps what it likes of an event, so it is the one that knows

    def _has_to_wait(self, is_ordered: bool) -> bool:
        return self.timeline.newest > self.timeline.emitted

    def _has_work(self, ready: ReadyEvents, removed: list[Event]) -> bool:
        """Whether something is ready, or time has passed, or the operation has stopped since."""
        if self.halted is None:
            self._lane.advance(self.timeline.emitted, self.timeline.final)
            if self._lane.is_due:
                return True
        return bool(ready) or bool(removed)

    # -- what the operator does -----------------------------------------------------------------------------------------

    def _execute(self, ready: ReadyEvents, removed: list[Event], settled: int) -> tuple[list[Delta], int | None]:
        lane, timeline, timer = self._lane, self.timeline, self.costs.timer
        start = timer() if timer is not None else 0
        deltas = lane.emit(ready, removed, timeline.clock.clk, timeline.clock.k)
        spent = timer() - start if timer is not None else None
        if len(deltas) > 1 and self.policies.retraction is not Retraction.FULL:  # else results are to be withdrawn first
            deltas = list(filter(None, [composed(deltas)]))
        failed = lane.counts.failures + lane.counts.left_out
        self._pending_failures.note(failed, timeline.emitted, lane.has_failed)
        if lane.stopped is not None:
            self._halt(lane.stopped, ready)
        return deltas, spent

    # -- what becomes final ---------------------------------------------------------------------------------------------

    def provisional(self) -> list[Event]:
        return [] if self.halted is not None else self._lane.provisional(self.watermark)

    def _withdrawal(self, promised: int) -> list[Delta]:
        return self._lane.withdraw(promised)

    def _latest_result(self, promised: int) -> int:
        return self._lane.latest(promised)

    def _purged(self, final: int, everywhere: bool) -> list[EventResults]:
        return self._lane.purge(final)

    # -- what others ask ------------------------------------------------------------------------------------------------

    def _measures(self) -> dict[str, Any]:
        retraction = self.policies.retraction
        return {
            "held": self._lane.held,
            "keys": len(self._lane),
            "spacing": self.policies.spacing or SPACING,
            "retraction": Retraction.ON_DEMAND if retraction is Retraction.AUTO else retraction,
            "switches": 0,
        }

    def _detector_state(self) -> tuple[Any, ...]:
        self.quarantine += self._purged(self.timeline.final, everywhere=True)
        return self._lane.state()

    def check_state(self) -> None:
        """No operator goes back to a state."""

    def part(self, count: int) -> list[KeyedLane]:
        return []  # ``state`` has it all

    def _restore_detector(self, state: Any, version: int | None) -> None:
        self._lane.restore(state if version is None else migrated_operation(state, self.detector, version))

    def restore_part(self, part: list[KeyedLane], version: int | None = None) -> None:
        assert not part, "an operator has no keyed lanes"
