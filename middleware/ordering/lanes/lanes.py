"""The lanes of a unit: one for each key, so that a late event replays its own key only; without a key one for all events."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from middleware import native
from middleware.model.block.recipe import recipe
from middleware.model.change import Delta, combined
from middleware.model.detector import (
    Detector,
    Key,
    backdate_of,
    blank,
    fresh,
    key_function,
    leaves_state,
    migrated,
    takes_batches,
)
from middleware.model.event import Event, Order
from middleware.model.identity import Derivation
from middleware.model.values.attributes import has_dict_only
from middleware.ordering.buffer import position_of
from middleware.ordering.lanes.batch_lane import BatchLane, DerivationByKey
from middleware.ordering.lanes.lane import Counts, LaneState, Settings
from middleware.ordering.lanes.ready_events import ReadyEvents
from middleware.ordering.lanes.retraction import EventResults, difference, inserted, left_out, withdrawn

KeyedLane = tuple[Any, LaneState]
"""The state of a lane with its key (None without one)."""


class LanesState(NamedTuple):
    """All that the lanes of a unit need to resume in another process; lanes by key follow in parts."""

    lanes: list[KeyedLane]
    keyless: dict[Order, EventResults]
    failures: list[EventResults]


def migrated_lanes(lanes: list[KeyedLane], detector: Detector, version: int, changed: Collection[str] = ()) -> list[KeyedLane]:
    """Lanes stored by another version of their detector, migrated to the present one: see ``migrated``."""

    def boxed(box: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(migrated(detector, kept, version, changed) for kept in box)

    found = []
    for key, kept in lanes:
        lane = LaneState(*kept)
        snapshots = [(position, boxed(box)) for position, box in lane.snapshots]
        found.append((key, lane._replace(snapshots=snapshots, live=boxed(lane.live))))
    return found


def unused_lane(detector: Detector) -> KeyedLane:
    """The state of a lane without a key that has seen no event."""
    state = (fresh(detector).snapshot(),)
    return None, LaneState([], [], [(0, state)], state, None)


def migrated_state(state: Any, detector: Detector, version: int, changed: Collection[str] = ()) -> Any:
    """Migrate the state that ``state`` of lanes gives; see ``migrated_lanes``."""
    if type(detector).migrate is Detector.migrate:
        detector.migrate({}, version)  # it refuses, even before the first event of a key has made a lane
    return LanesState(migrated_lanes(state[0], detector, version, changed), *state[1:])


def lanes_for(name: str, detector: Detector, level: int, settings: Settings) -> BatchLanes | native.KeyedLanes:
    """The lanes for a detector."""
    if takes_batches(type(detector)):
        return BatchLanes(name, detector, level, settings)
    return keyed_lanes(name, detector, level, settings, key_function(detector))


def _derivation(name: str, detector: Detector, level: int, key: Any) -> tuple[Derivation, int]:
    derivation = Derivation(name, detector, level, key)
    return derivation, derivation.origin


_CALLS = native.LaneCalls(
    derivation=_derivation,
    fresh=fresh,
    blank=blank,
    published=EventResults,
    left_out=left_out,
    delta=Delta,
    inserted=inserted,
    withdrawn=withdrawn,
    difference=difference,
    combined=combined,
)


def keyed_lanes(name: str, detector: Detector, level: int, settings: Settings, key: Key | None) -> native.KeyedLanes:
    """The lanes of the core. ``key`` gives the key of an event for this detector; None: there is one lane."""
    kind: Any = type(detector)
    return native.KeyedLanes(
        detector,
        settings,
        _CALLS,
        name=name,
        level=level,
        key=kind.key if key is not None and isinstance(kind.key, str) else key,
        recipes=[recipe(event_type) for event_type in detector.publishes],
        backdate=backdate_of(detector),
        is_timed=detector.identity == "time",
        is_plain=leaves_state(kind) and has_dict_only(kind),
    )


class BatchLanes:
    """The lane of a detector on columns: one for all keys, since a batch of one key has few rows. It stands in for
    ``native.KeyedLanes``, with the key None. The first event makes the lane, from the detector's initial state.
    """

    def __init__(self, name: str, detector: Detector, level: int, settings: Settings) -> None:
        self.counts = Counts()
        self._settings = settings
        self._detector = fresh(detector)
        self._initial = detector.snapshot()
        self._derive = DerivationByKey(name, self._detector, level)
        self._lane: BatchLane | None = None
        self._failures: list[EventResults] = []  # failures that became final as the lane ran
        self._stored_up_to: int | None = None  # what was final when ``state`` was called, until ``part`` gives the lane
        self._copy: LaneState | None = None  # the lane's state at that call, if the lane has changed since

    def __len__(self) -> int:
        return self._lane is not None

    @property
    def newest(self) -> int:
        """The latest time of the results that were forgotten, as they are final; NEVER if there are none."""
        return self.counts.newest

    @property
    def fault(self) -> str | None:
        """Why the results of the detector are worth nothing, if it has shown that they hang on chance."""
        return self._lane.fault if self._lane is not None else None

    @property
    def held(self) -> int:
        """How many emitted events are kept."""
        return len(self._lane.history) if self._lane is not None else 0

    def holds(self, event: Event) -> bool:
        """Whether an emitted event stands here, and is kept. O(log n)."""
        return self._lane is not None and position_of(self._lane.history, event) is not None

    def configure(self, settings: Settings) -> None:
        """Take changed settings (the lane reads them as it runs)."""

    def snapshot(self) -> None:
        """Take a snapshot of the lane and drop it, to measure its cost."""
        if self._lane is not None:
            self._lane.detector.snapshot()

    def emit(self, ready: ReadyEvents, removed: list[Event], clk: int, k: int, settled: int) -> list[Delta]:
        """Give the lane all events at once: in order, or merged with those before and replayed."""
        if not (ready.ahead or ready.behind or removed):
            return []
        lane = self._lane
        if lane is None:
            lane = self._lane = self._new_lane()
        self._keep(lane)
        if ready.behind or removed:
            deltas = lane.take(ready.behind + ready.ahead, removed, clk, k)
        else:
            deltas = lane.extend(ready.ahead, clk, k)
        self._failures += lane.trim(settled)
        return deltas

    def _new_lane(self, made: Callable[[Detector], Detector] = fresh) -> BatchLane:
        return BatchLane(made(self._detector), self._derive, self._settings, self.counts, self._initial)

    def purge(self, final: int, everywhere: bool = False) -> list[EventResults]:
        """Forget final events. Returns the failures that became final. ``everywhere``: also where not all events are final."""
        lane = self._lane
        if lane is not None and lane.history and (everywhere or lane.last <= final):
            self._keep(lane)
            self._failures += lane.purge(final)
        failures, self._failures = self._failures, []
        return failures

    def copy_states(self) -> None:
        """Copy the lane's state, and drop it: raises what a state that cannot be copied raises."""
        self.snapshot()

    def provisional(self, promised: int) -> list[Event]:
        """Results later than ``promised``. O(what is kept)."""
        return list(self._lane.provisional(promised)) if self._lane is not None else []

    def state(self, final: int) -> LanesState:
        """See LanesState: all but the lane, which ``part`` gives as it is now. Parts of an earlier call are dropped."""
        self._stored_up_to, self._copy = (final if self._lane is not None else None), None
        return LanesState([], {}, list(self._failures))

    def part(self, count: int) -> list[KeyedLane]:
        """The lane as it was when ``state`` was called, if ``count`` is not 0; empty at the end."""
        lane = self._lane
        if lane is None or self._stored_up_to is None or not count:
            return []
        self._keep(lane)
        copy, self._copy, self._stored_up_to = self._copy, None, None
        assert copy is not None
        return [(None, copy)]

    def _keep(self, lane: BatchLane) -> None:
        """Copy the lane, if it is still to be stored, before it changes."""
        if self._stored_up_to is not None and self._copy is None:
            self._copy = lane.state(self._stored_up_to)

    def restore(self, state: LanesState) -> None:
        """Become the lane that gave ``state``."""
        lanes, _, self._failures = state
        self.restore_part(lanes)

    def restore_part(self, part: list[KeyedLane]) -> None:
        """Add the lane that ``part`` gave."""
        for _, kept in part:
            self._lane = self._new_lane(blank)
            self._lane.restore(LaneState(*kept))

    def check(self) -> None:
        if self._lane is not None:
            self._lane.check()
