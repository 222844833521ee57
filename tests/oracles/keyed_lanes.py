"""The rule: each key has a lane of its own, so a late event replays the events of its key only."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

from middleware.model.change import Delta, combined
from middleware.model.detector import Detector, Key, blank, fresh
from middleware.model.errors import ENDING
from middleware.model.event import END, NEVER, ORDER, Event, Order
from middleware.model.identity import Derivation
from middleware.ordering.buffer import position_of
from middleware.ordering.lanes.lane import Counts, Lane, LaneState, Settings
from middleware.ordering.lanes.lanes import KeyedLane, LanesState
from middleware.ordering.lanes.ready_events import ReadyEvents
from middleware.ordering.lanes.retraction import EventResults, inserted

_KEYED = 4
"""Lanes of many keys go back often but not far: their snapshots are closer together by this factor."""

_SWEEP = 256
"""The lanes that one purge looks at: a unit purges after 1,024 events, so silent lanes keep some four events a key."""


def _same_key(event: Event) -> None:
    """The key of events that have none."""


class KeyedLanes:
    """A lane for each key. The first event of a key makes its lane, from the detector's initial state.

    ``key``: gives an event's key; None: all have the key None.
    """

    def __init__(self, name: str, detector: Detector, level: int, settings: Settings, key: Key | None) -> None:
        self.counts = Counts()
        self._name = name
        self._level = level
        self._settings = settings
        self._key = key if key is not None else _same_key
        self._closer = 1 if key is None else _KEYED
        self._detector = fresh(detector)
        self._initial = detector.snapshot()
        self._lanes: dict[Any, Lane] = {}
        self._unwritten: dict[Lane, Any] = {}  # lanes that ``part`` has yet to give, with their keys
        self._copies: dict[Lane, LaneState] = {}  # their states at the call of ``state``, of those touched since
        self._written = NEVER  # what was final then
        self._sweep: Iterator[Lane] = iter(())
        self._failures: list[EventResults] = []  # final failures of lanes that were purged in between
        self._keyless: dict[Order, EventResults] = {}  # events at which the key function failed, until they are final

    def __len__(self) -> int:
        return len(self._lanes)

    @property
    def newest(self) -> int:
        """The latest time of the results that were forgotten, as they are final; NEVER if there are none."""
        return self.counts.newest

    @property
    def held(self) -> int:
        """How many emitted events are kept, over all lanes."""
        return sum(len(lane.history) for lane in self._lanes.values())

    def holds(self, event: Event) -> bool:
        """Whether an emitted event stands here, and is kept. O(log n)."""
        try:
            lane = self._lanes.get(self._key(event))
        except ENDING:
            raise
        except BaseException:  # an event whose key function fails never went to a lane
            return ORDER(event) in self._keyless
        return lane is not None and position_of(lane.history, event) is not None

    def configure(self, settings: Settings) -> None:
        """Take changed settings (the lanes read them as they run)."""

    def snapshot(self) -> None:
        """Take a snapshot of some lane and drop it, to measure its cost."""
        for lane in islice(self._lanes.values(), 1):
            lane.detector.snapshot()

    def emit(self, ready: ReadyEvents, removed: list[Event], clk: int, k: int, settled: int) -> list[Delta]:
        """Give each event to the lane of its key; then correct the lanes that got events out of order.

        If a lane both publishes in this call and is corrected by it, its changes come in two deltas, in sequence.
        """
        results: list[EventResults] = []
        touched: set[Lane] = set()
        behind: dict[Lane, list[Event]] = {}
        gone = self._gone(removed) if removed else {}
        for lane in gone:
            behind[lane] = []
            lane.last = END  # all events for it in this call must wait for the removal
        events = chain(ready.behind, ready.ahead)
        self.counts.executed += len(ready.ahead) + len(ready.behind)
        while not self._run_in_order(events, settled, results, touched, behind):
            pass  # one event failed and is quarantined: continue with the next
        deltas = self._correct(behind, gone, results, touched, clk, k) if behind else None
        for lane in behind:
            self._failures += lane.trim(settled)
        if deltas is None:
            return [inserted(results, clk, k)] if results else []
        return deltas

    def run(self, events: list[Event], results: list[Event]) -> None:
        """Run events in total order, before which no others will come, so nothing is kept to go back to; their results are
        added to ``results``. What is raised at one of them ends it: then these lanes are of no use.
        """
        for event in events:
            value = self._key(event)
            lane = self._lanes.get(value)
            if lane is None:
                lane = self._lanes[value] = self._new_lane(value)
            self.counts.executed += 1
            result = lane.on_event(event)
            if result is not None:
                results += lane.derive(event, result)

    def run_lanes(self, events: list[Event], starts: list[int], results: list[Event]) -> tuple[int, tuple[Any, ...] | None]:
        """Run events in total order, lane after lane: at each of the places ``starts`` the next lane begins, and no more comes
        of those before. There is at least one event, and the first of all begins a lane.

        Returns how many events were run, and the state of the last lane (see LaneState), to go back to. If a detector raises at
        one of them, or its state cannot be copied, these are the events before its lane, ``results`` are those of them, and
        there is no state.
        """
        began, known, places = 0, len(results), set(starts)
        lane = next(iter(self._lanes.values()), None)
        try:
            for at, event in enumerate(events):
                if at in places:
                    began, known, value = at, len(results), self._key(event)
                    lane = self._new_lane(value)
                    self._lanes = {value: lane}
                assert lane is not None
                result = lane.on_event(event)
                if result is not None:
                    results += lane.derive(event, result)
            assert lane is not None
            return len(events), (lane.detector.snapshot(),)
        except ENDING:
            raise
        except BaseException:
            del results[known:]
            return began, None

    def copy_states(self) -> None:
        """Copy the state of each lane, and drop it: raises what a state that cannot be copied raises. O(states)."""
        for lane in self._lanes.values():
            lane.detector.snapshot()

    def _correct(
        self,
        behind: dict[Lane, list[Event]],
        gone: dict[Lane, list[Event]],
        results: list[EventResults],
        touched: set[Lane],
        clk: int,
        k: int,
    ) -> list[Delta]:
        """Give lanes the events that came out of order; ``results``: those of the events that came in order."""
        self.counts.executed -= sum(map(len, behind.values()))
        rounds: list[list[Delta]] = [[inserted(results, clk, k)] if results else []]
        for lane, events_behind in behind.items():
            for index, delta in enumerate(lane.take(events_behind, gone.get(lane, []), clk, k), lane in touched):
                rounds += [[] for _ in range(index + 1 - len(rounds))]
                rounds[index].append(delta)
        return [combined(deltas) for deltas in rounds if deltas]

    def _run_in_order(
        self,
        events: Iterator[Event],
        settled: int,
        results: list[EventResults],
        touched: set[Lane],
        behind: dict[Lane, list[Event]],
    ) -> bool:
        """The hot loop: runs each event that is in order for its key, sets the others aside. False if one failed."""
        lanes, key, unwritten = self._lanes, self._key, self._unwritten
        spacing = max(1, self._settings.spacing // self._closer)
        lane = event = None
        try:
            for event in events:
                value = key(event)
                lane = lanes.get(value)
                if lane is None:
                    lane = lanes[value] = self._new_lane(value)
                elif unwritten:
                    self._keep(lane)
                if event.ts > lane.last:
                    if len(lane.history) - lane.snapshots[-1].position >= spacing:
                        self._failures += lane.renew(settled)
                    lane.last = event.ts
                    lane.history.append(event)
                    result = lane.on_event(event)
                    if result is not None and (derived := lane.derive(event, result)):
                        published = EventResults(event, derived)
                        lane.published.append(published)
                        results.append(published)
                        touched.add(lane)
                elif lane in behind:
                    behind[lane].append(event)
                else:
                    behind[lane] = [event]
                    lane.last = END  # all further events for it in this call must wait for their turn
        except ENDING:
            raise
        except BaseException:
            assert event is not None
            if lane is not None and lane.history and lane.history[-1] is event:
                lane.fail(len(lane.history) - 1)
            else:
                self._keyless[ORDER(event)] = EventResults(event, [], traceback.format_exc(limit=-8))
                self.counts.left_out += 1
            return False
        return True

    def _new_lane(self, value: Any, made: Callable[[Detector], Detector] = fresh) -> Lane:
        derive = Derivation(self._name, self._detector, self._level, value)
        return Lane(made(self._detector), derive, self._settings, self.counts, self._initial)

    def _gone(self, removed: list[Event]) -> dict[Lane, list[Event]]:
        """The emitted events that are withdrawn, by lane."""
        gone: dict[Lane, list[Event]] = {}
        for event in removed:
            try:
                lane = self._lanes.get(self._key(event))
            except ENDING:
                raise
            except BaseException:  # an event whose key function fails never went to a lane
                lane = None
            if lane is None:
                self.counts.unknown += self._keyless.pop(ORDER(event), None) is None
            else:
                self._keep(lane)
                gone.setdefault(lane, []).append(event)
        return gone

    def purge(self, final: int, everywhere: bool = False) -> list[EventResults]:
        """Forget final events in the next few lanes; in all of them at the end. Returns the failures that became final.

        Busy lanes purge themselves as they run; this sweep is for those that fell silent. ``everywhere``: sweep all lanes now.
        """
        lanes = list(self._lanes.values()) if everywhere or final == END else list(islice(self._sweep, _SWEEP))
        if not lanes:
            self._sweep = iter(list(self._lanes.values()))
        for lane in lanes:
            if lane.history and (everywhere or lane.last <= final):
                self._keep(lane)
                self._failures += lane.purge(final)
        for order in [order for order in self._keyless if order[0] <= final]:
            self.counts.failures += 1
            self._failures.append(self._keyless.pop(order))
        failures, self._failures = self._failures, []
        return failures

    def provisional(self, promised: int) -> list[Event]:
        """Results later than ``promised``, of all lanes. O(what is kept)."""
        return [event for lane in self._lanes.values() for event in lane.provisional(promised)]

    def state(self, final: int) -> LanesState:
        """See LanesState: all but the lanes, which ``part`` gives as they are now. Parts of an earlier call are dropped."""
        self._unwritten = {lane: key for key, lane in self._lanes.items()}
        self._copies, self._written = {}, final
        return LanesState([], dict(self._keyless), list(self._failures))

    def part(self, count: int) -> list[KeyedLane]:
        """The next lanes, at most ``count``, as they were when ``state`` was called; empty at the end."""
        part = list(islice(self._unwritten.items(), count))
        for lane, _ in part:
            self._keep(lane)
            del self._unwritten[lane]
        return [(key, self._copies.pop(lane)) for lane, key in part]

    def _keep(self, lane: Lane) -> None:
        """Copy a lane that is still to be stored, before it changes."""
        if lane in self._unwritten and lane not in self._copies:
            self._copies[lane] = lane.state(self._written)

    def restore(self, state: LanesState) -> None:
        """Become the lanes that gave ``state``."""
        lanes, self._keyless, self._failures = state
        self.restore_part(lanes)

    def restore_part(self, part: list[KeyedLane]) -> None:
        """Add lanes that ``part`` gave."""
        for key, kept in part:
            self._lanes[key] = self._new_lane(key, blank)
            self._lanes[key].restore(LaneState(*kept))

    def check(self) -> None:
        for lane in self._lanes.values():
            lane.check()
