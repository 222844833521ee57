"""A lane: one detector instance with the events it was given, its results, and snapshots to go back to.

An unkeyed unit has one lane, a keyed unit one for each key. Algorithms 1 and 2 of DEBS'13, a batch at a time: all events
that arrived are merged in; the detector goes back once, to the last snapshot before the earliest disturbed event, and
runs forward once.
"""

from __future__ import annotations

import traceback
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec

from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.errors import ENDING, DetectorError
from middleware.model.event import NEVER, ORDER, Event
from middleware.model.values.state import same_state
from middleware.native import merge
from middleware.ordering.buffer import arranged, count_until, place_of, position_of, remove
from middleware.ordering.lanes.retraction import EventResults, Retraction, difference, inserted, left_out, withdrawn

SPACING = 32
"""Default number of events between two snapshots: the most that a rollback re-executes besides the disturbed events."""

_LONG = 256
"""A history of at least this length is worth a purge."""

_FIRST = (NEVER, 0, "", 0)
"""Before any event."""

Derive = Callable[[Event, Any], list[Event]]
"""Turns what a detector returned for an event into events with an identity."""

STOPPED: Final = object()
"""Stands for the state of a detector that failed and stays stopped; it equals no snapshot but itself."""


class Snapshot(NamedTuple):
    """The state before the event at ``position`` of the history."""

    position: int
    state: Any


class LaneState(NamedTuple):
    """All that a lane needs to resume in another process. The lane may run on: the two share nothing that changes.

    ``snapshots``
        (position, state); a state is wrapped in a tuple of its own, and () stands for that of a stopped detector.
    ``live``
        the present state, wrapped likewise.
    """

    history: list[Event]
    published: list[EventResults]
    snapshots: list[tuple[int, tuple[Any, ...]]]
    live: tuple[Any, ...]
    broken: str | None


class Counts:
    """Counts of what the lanes of one unit have done so far."""

    __slots__ = ("duplicates", "executed", "failures", "left_out", "newest", "rollbacks", "snapshots", "stops", "unknown")

    def __init__(self) -> None:
        self.executed = 0
        self.rollbacks = 0
        self.stops = 0
        self.snapshots = 0
        self.failures = 0
        self.left_out = 0  # events that were not run, as their detector had stopped or they have no key
        self.duplicates = 0
        self.unknown = 0
        self.newest = NEVER  # the latest time of the results that were forgotten, as they are final


class Settings(msgspec.Struct):
    """Settings that all lanes of a unit share; the unit may change them between two calls.

    ``keeps_history``
        whether lanes can go back. If not, events come in order and are final; a detector at which one fails stops. Lanes on
        columns keep theirs: they need it to find the event at which a batch fails.
    """

    retraction: Retraction = Retraction.ON_DEMAND
    spacing: int = SPACING
    stop_on_error: bool = False
    keeps_history: bool = True


class Lane:
    """One detector instance and its emitted events.

    ``history``
        emitted events in total order, from the first that may still be disturbed (or a little before).
    ``last``
        time stamp of the last event of ``history``.
    ``wider``
        snapshots lie further apart than the settings say by this factor.
    Invariant: ``snapshots`` are in order of position, and the first stands at position 0.
    """

    __slots__ = ("broken", "counts", "derive", "detector", "history", "last", "on_event", "published", "settings", "snapshots")
    wider = 1

    def __init__(self, detector: Detector, derive: Derive, settings: Settings, counts: Counts, state: Any) -> None:
        self.detector = detector
        self.derive = derive
        self.settings = settings
        self.counts = counts
        self.on_event = detector.on_event
        self.broken: str | None = None  # why the detector's state could not be copied
        self.history: list[Event] = []
        self.last = NEVER
        self.published: list[EventResults] = []
        self.snapshots = [Snapshot(0, state)]

    def extend(self, ahead: list[Event], clk: int, k: int) -> list[Delta]:
        """Take events to emit that are strictly in order and later than any before; return the changes for downstream."""
        end = len(self.history)
        self.history += ahead
        self.last = ahead[-1].ts
        return self._publish(end, clk, k)

    def take(self, behind: list[Event], removed: list[Event], clk: int, k: int) -> list[Delta]:
        """Take events to emit that come out of order, and emitted events to remove; return the changes for downstream, in
        sequence."""
        history = self.history
        end = len(history)
        late, repeats = arranged(behind)
        later = self._snapshots_after(max(event.ts for event in (*removed, *late[-1:])))
        gone = self._remove(removed)
        end -= len(gone)
        edge = ORDER(history[-1]) if end else _FIRST
        came, duplicates = merge(history, late)
        self.counts.duplicates += repeats + duplicates
        edge_ts = edge[0]
        came = [event for event in came if event.ts < edge_ts or (event.ts == edge_ts and ORDER(event) < edge)]
        self.last = history[-1].ts if history else NEVER
        if not gone and not came:
            return self._publish(end, clk, k)
        disturbed = arranged(gone + came)[0] if gone else came
        return self._correct(disturbed, end + len(came), later, clk, k)

    def _publish(self, start: int, clk: int, k: int) -> list[Delta]:
        """Run the events from ``start`` on, all for the first time."""
        known = len(self.published)
        self._run(start, len(self.history))
        results = self.published[known:]
        return [inserted(results, clk, k)] if results else []

    def _correct(self, disturbed: list[Event], end: int, later: list[tuple[Event, Any]], clk: int, k: int) -> list[Delta]:
        """Roll back to before the first disturbed event and replay; the events from ``end`` on have not run yet."""
        self.counts.rollbacks += 1
        first, last = ORDER(disturbed[0]), ORDER(disturbed[-1])
        start = min(place_of(self.history, disturbed[0]), end)
        cut = bisect_left(self.published, first, key=_cause_order)
        old = self.published[cut:]
        full = self.settings.retraction is Retraction.FULL
        stops = [] if full else [(event, state) for event, state in later if ORDER(event) > last]
        live = self._state() if stops else None
        at = bisect_right(self.snapshots, start, key=_position) - 1
        self._restore(self.snapshots[at].state)
        origin = self.snapshots[at].position
        del self.snapshots[at + 1 :]
        self._run(origin, start)  # undisturbed: it derives the same results again, which are published already
        del self.published[cut:]
        done = self._replay(start, end, stops, old, live)
        self._run(done, len(self.history))
        new = self.published[cut:]
        if full:
            return [delta for delta in (withdrawn(old), inserted(new, clk, k)) if delta]
        delta = difference(old, new, clk, k)
        return [delta] if delta else []

    def _replay(self, start: int, end: int, stops: list[tuple[Event, Any]], old: list[EventResults], live: Any) -> int:
        """Run from ``start`` to ``end``, or until the state equals a former snapshot behind all disturbed events.

        Returns the position that the detector has reached. If it stops early, the former snapshots, results and state
        behind that point are valid again (4.3.2, property 1).
        """
        places = [(position_of(self.history, event), event, state) for event, state in stops]
        for index, (place, event, state) in enumerate(places):
            if place is None or place >= end:
                break
            self._run(start, place)
            start = place
            if same_state(self._state(), state):
                self.counts.stops += 1
                newest = self.snapshots[-1].position
                good = [Snapshot(at, kept) for at, _, kept in places[index:] if at is not None and at > newest]
                self.snapshots += [*good, Snapshot(end, live)] if end > newest else good
                self.published += old[bisect_left(old, ORDER(event), key=_cause_order) :]
                self._restore(live)
                return end
        self._run(start, end)
        return end

    def _run(self, start: int, end: int) -> None:
        """Give the detector the events from ``start`` to ``end``, with a snapshot before every ``spacing`` of them."""
        spacing = self.settings.spacing * self.wider
        while start < end:
            if start - self.snapshots[-1].position >= spacing:
                self._snapshot(start)
            stop = min(end, self.snapshots[-1].position + spacing)
            start = self._execute(start, stop)

    def _execute(self, start: int, stop: int) -> int:
        """Run a stretch without snapshots; returns where it ended: ``stop``, or just behind an event at which it raised."""
        on_event, derive = self.on_event, self.derive
        events = self.history if start == 0 and stop == len(self.history) else self.history[start:stop]
        event = None
        try:
            for event in events:
                result = on_event(event)
                if result is not None and (derived := derive(event, result)):
                    self.published.append(EventResults(event, derived))
        except ENDING:
            raise
        except BaseException:
            at = start + _place_among(events, event)
            self.counts.executed += at + 1 - start
            self.fail(at)
            return at + 1
        self.counts.executed += stop - start
        return stop

    def fail(self, at: int) -> None:
        """Quarantine the event at ``at``, at which the detector just raised, and resume from the state before it."""
        if self.is_stopped:
            self.published.append(left_out(self.history[at]))
            self.counts.left_out += 1
            return
        self.counts.failures += 1
        self.published.append(EventResults(self.history[at], [], traceback.format_exc(limit=-8)))
        if self.settings.stop_on_error:
            self._restore(STOPPED)
        else:
            self.rewind(at)
        self._snapshot(at + 1)  # so that no stretch between snapshots ever holds an event that failed

    def rewind(self, at: int) -> None:
        """Return to the state before the event at ``at``, which is not before the last snapshot."""
        odd: set[int] = set()
        while (place := self._rehearse(at, odd)) is not None:
            odd.add(place)  # it did not fail here before, so it is no pure function of its input
            self.counts.failures += 1
        self.counts.executed += at - self.snapshots[-1].position

    @property
    def is_stopped(self) -> bool:
        """Whether the detector failed, and stays stopped."""
        return self.on_event is _stopped

    def _rehearse(self, end: int, odd: set[int]) -> int | None:
        """Run from the last snapshot to the state before ``end``, without the odd events; returns where it raised, or None."""
        origin = self.snapshots[-1]
        self._restore(origin.state)
        for place in range(origin.position, end):
            try:
                if place not in odd:
                    result = self.on_event(self.history[place])
                    if result is not None and not isinstance(result, Event):
                        list(result)
            except ENDING:
                raise
            except BaseException:
                return place
        return None

    def renew(self, final: int) -> list[EventResults]:
        """Take a snapshot at the end; purge a long history. For lanes whose events run one at a time."""
        failures = self.purge(final) if len(self.history) >= _LONG else []
        if len(self.history) > self.snapshots[-1].position:
            self._snapshot(len(self.history))
        return failures

    def trim(self, final: int) -> list[EventResults]:
        """Purge if much is final; returns the failures that became final. For lanes that are corrected all the time."""
        is_much = len(self.history) >= _LONG and self.history[_LONG // 2].ts <= final
        return self.purge(final) if is_much else []

    def _snapshot(self, position: int) -> None:
        """Take a snapshot of the state before ``position``; an unchanged state is stored once."""
        state = self._state()
        self.counts.snapshots += 1
        before = self.snapshots[-1]
        if same_state(state, before.state):
            state = before.state
        if before.position == position:
            self.snapshots.pop()
        self.snapshots.append(Snapshot(position, state))

    def _state(self) -> Any:
        """A snapshot of the detector. If its state cannot be copied, it can never go back: it stops, with a failure listed."""
        if self.is_stopped:
            return STOPPED
        try:
            return self.detector.snapshot()
        except ENDING:
            raise
        except BaseException:
            self.counts.failures += 1
            self.broken = traceback.format_exc(limit=-8)
            self.on_event = _stopped
            return STOPPED

    def _restore(self, state: Any) -> None:
        if state is STOPPED:
            self.on_event = _stopped
            return
        self.detector.restore(state)
        self.on_event = self.detector.on_event

    def _snapshots_after(self, ts: int) -> list[tuple[Event, Any]]:
        """The snapshots before events from ``ts`` on, each with its event, which stays valid after insertions. O(found)."""
        history, found = self.history, []
        for at, state in reversed(self.snapshots):
            if at < len(history):
                if history[at].ts < ts:
                    break
                found.append((history[at], state))
        found.reverse()
        return found

    def _remove(self, events: list[Event]) -> list[Event]:
        """Remove events from the history; returns those that were in it, in order."""
        gone, missing = remove(self.history, events)
        self.counts.unknown += len(missing)
        return gone

    def purge(self, final: int) -> list[EventResults]:
        """Forget events at or below ``final``, as far as a snapshot allows; returns the failures that became final."""
        settled = count_until(self.history, final)
        if settled and (settled == len(self.history) or (self.is_stopped and settled > self.snapshots[-1].position)):
            self._snapshot(settled)
        failures = []
        if self.broken is not None and self.history:
            last = self.history[-1]
            if self.published and self.published[-1].cause is last and self.published[-1].failure:
                self.published.pop()  # the event was skipped, because its state could not be copied
            failures.append(EventResults(last, [], self.broken))
            self.broken = None
        at = bisect_right(self.snapshots, settled, key=_position) - 1
        drop = self.snapshots[at].position
        if not drop:
            return failures
        cut = len(self.published)
        if drop < len(self.history):
            cut = bisect_left(self.published, ORDER(self.history[drop]), key=_cause_order)
        failures += [published for published in self.published[:cut] if published.failure]
        times = (event.ts for published in self.published[:cut] for event in published.events)
        self.counts.newest = max(self.counts.newest, max(times, default=NEVER))
        del self.history[:drop], self.published[:cut]
        self.snapshots = [Snapshot(position - drop, state) for position, state in self.snapshots[at:]]
        return failures

    def provisional(self, promised: int) -> list[Event]:
        """Results later than ``promised``."""
        return [event for published in self.published for event in published.events if event.ts > promised]

    def state(self, final: int) -> LaneState:
        """See LaneState. Final events are forgotten first, unless there are failures among them."""
        is_sound = self.broken is None and not any(published.failure for published in self.published)
        if is_sound and self.history and self.history[0].ts <= final:
            self.purge(final)
        newest = self.snapshots[-1]
        live = _boxed(newest.state if newest.position == len(self.history) else self._state())
        snapshots = [(position, _boxed(state)) for position, state in self.snapshots]
        return LaneState(self.history.copy(), self.published.copy(), snapshots, live, self.broken)

    def restore(self, state: LaneState) -> None:
        """Become the lane that gave ``state``."""
        self.history, self.published, snapshots, live, self.broken = state
        self.snapshots = [Snapshot(position, _unboxed(kept)) for position, kept in snapshots]
        self.last = self.history[-1].ts if self.history else NEVER
        self._restore(_unboxed(live))

    def check(self) -> None:
        """Assert every invariant of a lane."""
        keys = list(map(ORDER, self.history))
        assert all(one < other for one, other in pairwise(keys)), "history out of order"
        causes = [ORDER(published.cause) for published in self.published]
        assert causes == sorted(set(causes)), "results out of order"
        assert set(causes) <= set(keys), "results of events that are gone"
        positions = [snapshot.position for snapshot in self.snapshots]
        assert positions == sorted(set(positions)), "snapshots out of order"
        assert positions[0] == 0, "no snapshot to go back to"
        assert positions[-1] <= len(self.history), "a snapshot beyond the end"
        assert not keys or self.last == keys[-1][0], "last is not the last"


def _boxed(state: Any) -> tuple[Any, ...]:
    return () if state is STOPPED else (state,)


def _unboxed(boxed: tuple[Any, ...]) -> Any:
    return boxed[0] if boxed else STOPPED


def _place_among(events: list[Event], event: Event | None) -> int:
    """The position of this very event. A function of its own: a closure would slow down the loop that runs the events."""
    return next(number for number, each in enumerate(events) if each is event)


def _stopped(event: Any) -> None:
    """``on_event`` of a stopped detector: it takes no event, and ``fail`` lists it."""
    raise DetectorError("it has stopped")


def _cause_order(published: EventResults) -> tuple[int, int, str, int]:
    return ORDER(published.cause)


def _position(snapshot: Snapshot) -> int:
    return snapshot.position
