"""The ordering unit of a detector: gives it its input in order, early, and corrects it (DEBS'13, section 4).

Events wait in one sorted buffer until they are emitted, and then live in lanes (one, or one for each key) until they are
final. An event behind the AEP rolls its lane back to a snapshot, and the lane replays from there.
"""

from __future__ import annotations

from typing import Any

from middleware.model.block.mixed_block import AnyBlock
from middleware.model.change import Delta, composed
from middleware.model.detector import Detector, constants, key_function
from middleware.model.errors import ENDING, DetectorError
from middleware.model.event import END, NEVER, TS, Event
from middleware.native import split
from middleware.ordering.alpha.costs import RetractionChoice, Step, Timer
from middleware.ordering.lanes.lane import SPACING, LaneState, Settings
from middleware.ordering.lanes.lanes import (
    BatchLanes,
    KeyedLane,
    LanesState,
    lanes_for,
    migrated_lanes,
    migrated_state,
    unused_lane,
)
from middleware.ordering.lanes.ready_events import ReadyEvents
from middleware.ordering.lanes.retraction import EventResults, Retraction
from middleware.ordering.lanes.runs import RUN, Runs
from middleware.ordering.policies import Policies
from middleware.ordering.unit import Unit

_LOOK_EVERY = 65_536
"""Most events that a unit emits between two checks that its detector's shared state is unchanged."""


class DetectorUnit(Unit):
    """See the module, and ``Unit``. ``run``: how many events a detector gets at once."""

    def __init__(
        self,
        name: str,
        detector: Detector,
        level: int = 1,
        policies: Policies | None = None,
        timer: Timer | None = None,
        run: int = RUN,
    ) -> None:
        super().__init__(name, detector, level, policies, timer)
        is_auto = self.policies.retraction is Retraction.AUTO
        self._settings = Settings(
            Retraction.ON_DEMAND if is_auto else self.policies.retraction,
            self.policies.spacing or SPACING,
            self.policies.failing == "stop",
            keeps_history=not self.policies.is_buffering,
        )
        self._early: int | None = None  # where it buffers: a former life with another policy emitted events up to this time
        self._choice = RetractionChoice() if is_auto else None
        self._runs = Runs.of(detector, run)
        self._is_single = key_function(detector) is None or self._runs.most is None
        self._constants = constants(detector)
        self._look_at = 1
        self._begin()

    def _begin(self) -> None:
        self._lanes = lanes_for(self.name, self.detector, self.level, self._settings)
        self.counts = self._lanes.counts
        self._batches = self._lanes if isinstance(self._lanes, BatchLanes) else None

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._columns.count and self.halted is None

    def pass_time(self, mark: int | None, promised: int, is_open: bool) -> list[Delta]:
        timeline = self.timeline
        before = timeline.final
        if timeline.pass_time(mark, promised, is_open):
            if timeline.final == END:
                self._end(before)
                self._purge()
            elif timeline.final >= self._pending_failures.since:
                self._list_failures()
        return []

    def resume(self, floor: int) -> list[Delta]:
        """See ``Unit``. A detector resumes from its present state."""
        self.timeline.resume(floor + self._backdate if floor != NEVER else NEVER)  # so all new results are later
        return []

    # -- what comes in, and what is ready -------------------------------------------------------------------------------

    def _columns_of(self, delta: Delta) -> AnyBlock | None:
        """Columns stay columns if many come, but not beside rows: of an event that comes twice the first counts."""
        keeps = self._runs.keep_columns(delta, self._waiting, self._columns)
        if not keeps and self._columns.count and delta.inserted:
            self._unpack()
        return delta.columns if keeps else None

    def _arrange(self, events: list[Event], top: int) -> ReadyEvents:
        if self.timeline.alpha:  # they are put in order as they wait
            return ReadyEvents([], events.copy())
        return ReadyEvents(*split(events, top))

    def _may_hold(self, event: Event) -> bool:
        return self._lanes.holds(event)

    def _has_to_wait(self, is_ordered: bool) -> bool:
        return not is_ordered or self.timeline.newest > self.timeline.emitted  # the buffer puts them in order

    def _has_work(self, ready: ReadyEvents, removed: list[Event]) -> bool:
        return bool(ready) or bool(removed)

    # -- what the detector does -----------------------------------------------------------------------------------------

    def _execute(self, ready: ReadyEvents, removed: list[Event], settled: int) -> tuple[list[Delta], int | None]:
        """Run the detector in the mode that costs least: forward, and again where events came behind the AEP."""
        settings, counts, timeline = self._settings, self.counts, self.timeline
        if self._choice is not None and settings.retraction is not (mode := self._choice.choose()):
            settings.retraction = mode
            self._lanes.configure(settings)
        if self._early is not None and settled >= self._early:
            self._early = None
            self._keep_history(False)
        clock, timer = timeline.clock, self.costs.timer
        if isinstance(self._lanes, BatchLanes) or settings.keeps_history:
            deltas, spent = self._runs.emit(self._lanes, ready, removed, clock, settled, timeline.final, timer)
        else:
            deltas, spent = self._runs.emit_final(self._lanes, ready, removed, clock, timer)
        if (fault := self._fault()) is not None:
            deltas += self._set_aside(fault, settled)
        if len(deltas) > 1 and settings.retraction is Retraction.ON_DEMAND:  # else results are to be withdrawn first
            deltas = list(filter(None, [composed(deltas)]))
        self._pending_failures.note(counts.failures + counts.left_out, timeline.emitted)
        return deltas, spent

    def _keep_history(self, keeps_history: bool) -> None:
        self._settings.keeps_history = keeps_history
        self._lanes.configure(self._settings)

    def _fault(self) -> str | None:
        """Why the results of the detector are worth nothing. State that its instances share is looked at often at first, and at
        the end."""
        if self._batches is not None and self._batches.fault is not None:
            return self._batches.fault
        return self._look() if self._emitted >= self._look_at or self.timeline.final == END else None

    def _look(self) -> str | None:
        """The fault, if the detector has changed a value that its instances share."""
        if self.halted is not None:
            return None
        self._look_at = self._emitted + min(3 * self._emitted, _LOOK_EVERY)
        try:
            self._constants.check(self.name)
        except DetectorError as error:
            return str(error)
        return None

    def _learn(self, step: Step) -> float | None:
        cost = super()._learn(step)
        if self._choice is not None and cost is not None:
            mode = self._settings.retraction
            # full retraction publishes again what it withdraws, which is as much work downstream
            changes = step.affected * 2 if mode is Retraction.FULL else step.affected
            self._choice.learn(mode, (cost + changes * self.costs.downstream) / step.rollbacks)
        return cost

    # -- what becomes final ---------------------------------------------------------------------------------------------

    def provisional(self) -> list[Event]:
        return [] if self.halted is not None else self._lanes.provisional(self.watermark)

    def _withdrawal(self, promised: int) -> list[Delta]:
        gone = self._lanes.provisional(promised)
        return [Delta(retracts=gone)] if gone else []

    def _latest_result(self, promised: int) -> int:
        newest: int = max(self._lanes.newest, *map(TS, self._lanes.provisional(promised)), NEVER)
        return newest

    def _purge(self) -> None:
        final = self.timeline.final
        if final == END and (fault := self._look()) is not None:
            self.set_aside(fault)
        if self.policies.spacing is None and final != END and self._settings.keeps_history:
            self._space()
        super()._purge()

    def _purged(self, final: int, everywhere: bool) -> list[EventResults]:
        failures = self._lanes.purge(final, everywhere=everywhere or self._is_single)
        self._newest = max(self._newest, self._lanes.newest)
        return failures

    def _space(self) -> None:
        """Set the distance between snapshots that costs least."""
        self.costs.measure_snapshot(self._lanes.snapshot)
        best = self.costs.spacing()
        if best is not None and not 0.7 < best / self._settings.spacing < 1.4:  # small moves are not worth it
            self._settings.spacing = best
            self._lanes.configure(self._settings)

    # -- what others ask ------------------------------------------------------------------------------------------------

    def _measures(self) -> dict[str, Any]:
        choice = self._choice
        return {
            "held": self._lanes.held,
            "keys": len(self._lanes),
            "spacing": self._settings.spacing,
            "retraction": self._settings.retraction if choice is None else choice.mode,
            "switches": choice.switches if choice is not None else 0,
        }

    def _detector_state(self) -> LanesState:
        if (fault := self._look()) is not None:
            raise DetectorError(fault)
        final = self.timeline.final
        self.quarantine += self._purged(final, everywhere=False)
        lanes = self._lanes.state(final)
        if not self._is_single:
            return lanes
        only = [(key, LaneState(*lane)) for key, lane in self._lanes.part(1)] or [unused_lane(self.detector)]
        return LanesState(only, *lanes[1:])  # it goes with the rest

    def check_state(self) -> None:
        try:
            self._lanes.copy_states()
        except ENDING:
            raise
        except BaseException as error:
            raise DetectorError(f"the state of {self.name} cannot be copied: {error!r}") from error

    def part(self, count: int) -> list[KeyedLane]:
        return self._lanes.part(count)

    def _restore_detector(self, state: Any, version: int | None) -> None:
        if self.policies.is_buffering and self.timeline.emitted > self.timeline.final:
            self._early = self.timeline.emitted
            self._keep_history(True)
        self._lanes.restore(state if version is None else migrated_state(state, self.detector, version, self.changed_settings))

    def restore_part(self, part: list[KeyedLane], version: int | None = None) -> None:
        if version is not None:
            part = migrated_lanes(part, self.detector, version, self.changed_settings)
        self._lanes.restore_part(part)

    def check(self) -> None:
        super().check()
        self._lanes.check()
