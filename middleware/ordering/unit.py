"""The base of the units of detectors and of operators: one place on the timeline, one admission, lists and counts.

A unit gives one detector its input early, and corrects what follows from it (DEBS'13, section 4). Events that wait for their
time lie in one sorted buffer. The two kinds differ in what they do with what is ready: see ``detector_unit`` and
``operator_unit``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from itertools import compress
from typing import TYPE_CHECKING, Any

from middleware.model.block.mixed_block import AnyBlock, together
from middleware.model.block.waiting_blocks import WaitingBlocks
from middleware.model.change import Delta
from middleware.model.detector import Detector, backdate_of
from middleware.model.errors import LateEventError
from middleware.model.event import END, IDENTITY, NEVER, ORDER, TS, Event, Identity, type_name
from middleware.native import Waiting
from middleware.ordering.admission import admit
from middleware.ordering.alpha.costs import Costs, Step, Timer
from middleware.ordering.buffer import arranged
from middleware.ordering.lanes.lanes import KeyedLane
from middleware.ordering.lanes.ready_events import NOTHING, ReadyEvents
from middleware.ordering.lanes.retraction import EventResults
from middleware.ordering.policies import Policies
from middleware.ordering.records import Late, LedgerEntries, UnitStatistics
from middleware.ordering.slack.kslack import LocalClock
from middleware.ordering.timeline import Timeline

if TYPE_CHECKING:
    from middleware import native
    from middleware.ordering.lanes.lane import Counts

_PURGE_EVERY = 1024
"""Events that a unit runs, again or for the first time, between two purges."""

_STORED = ("late", "quarantine", "halted", "reached", "_newest", "_refused")
"""Attributes of a unit that checkpoints keep. Counts and measured costs last for one life only."""


class PendingFailures:
    """The failures of a unit, and the events that it skipped, that are not final yet, so not listed.

    ``since``: once all is final up to this time, some of them are. END: all are listed.
    """

    __slots__ = ("_counted", "_until", "since")

    def __init__(self) -> None:
        self._counted = 0
        self.since, self._until = END, NEVER  # at the second time, all of them are

    def note(self, counted: int, until: int, has_more: bool = False) -> None:
        """So many were counted so far, none of an event later than ``until``. ``has_more``: some are not counted yet."""
        if counted != self._counted or has_more:
            self._counted, self._until = counted, until
            self.since = min(self.since, until)

    def listed(self, counted: int, final: int) -> None:
        """Those up to ``final`` were listed, of so many."""
        self._counted = counted
        self.since = self._until if self._until > final else END

    def suppose(self, until: int) -> None:
        """There may be some, none of an event later than ``until``."""
        self.since = self._until = until


class Unit(ABC):
    """The ordering unit of one detector. Only calls of its owner move it: it reads no clock and does no I/O.

    ``timeline``
        its clock, the AEP, and ``final``: what it derives from events up to it never changes again, and events there are late.
    ``late``, ``quarantine``
        the events listed as late or as failed, until the owner takes them.
    ``halted``
        why it publishes nothing more; None while it runs. A unit halts when its operator raises or a type that it reads has
        halted. Results that were not final then are withdrawn. Later events are listed as failed once they are final. ``final``
        still moves: nothing is left that could become wrong.
    ``changed_settings``
        the names of the detector's settings that are others than when the state was stored that it is about to take up.
    ``reached``
        once all input has ended, the latest time known here: of an event taken, of a result that stands, of clk, or ``final``.
    ``min_rows_for_columns``
        fewer events of several types than this are to be pushed as objects.
    """

    counts: Counts | native.Counts
    """The counts of the detector's work."""
    min_rows_for_columns: int = END
    _emits_before_clock = False
    """Whether all that has come is ready at once where alpha is 0, without waiting for the clock."""

    def __init__(
        self, name: str, detector: Detector, level: int = 1, policies: Policies | None = None, timer: Timer | None = None
    ) -> None:
        self.name, self.detector, self.level = name, detector, level
        self.policies = policies if policies is not None else Policies()
        self.timeline = Timeline(self.policies, detector.clock)
        self.late: list[Late] = []
        self.quarantine: list[EventResults] = []
        self.halted: str | None = None
        self.changed_settings: frozenset[str] = frozenset()
        self.reached = NEVER
        self.costs = Costs(timer)
        self._newest = NEVER  # the latest result that was forgotten
        self._backdate = backdate_of(detector)
        self._waiting = Waiting()
        self._columns = WaitingBlocks()  # what waits as columns
        self._pending_failures = PendingFailures()
        self._refused: dict[Identity, int] = {}  # events whose last revision was too late, and its time: later ones rest on it
        self._late = self._received = self._emitted = self._unpurged = self._duplicates = self._unused = 0
        self._inserted = self._revised = self._retracted = 0

    # -- what it is -----------------------------------------------------------------------------------------------------

    @property
    def clock(self) -> LocalClock:
        """clk and K."""
        return self.timeline.clock

    @property
    def alpha(self) -> float:
        """The share of K for which events wait."""
        return self.timeline.alpha

    @alpha.setter
    def alpha(self, alpha: float) -> None:
        self.timeline.alpha = alpha

    @property
    def final(self) -> int:
        """Results of events up to this time never change again."""
        return self.timeline.final

    @property
    def emitted(self) -> int:
        """The AEP: the detector has all events up to this time."""
        return self.timeline.emitted

    @property
    def watermark(self) -> int:
        """No further change that this unit publishes will have ts <= this: results may be stamped before their events."""
        return self.watermark_at(self.timeline.final)

    def watermark_at(self, final: int) -> int:
        """The ``watermark`` once ``final`` is this."""
        return final - self._backdate if NEVER < final < END else final

    @property
    def lateness(self) -> int:
        """How far behind clk results may still change where an input is open, ns."""
        return self.timeline.lateness

    @property
    def received(self) -> int:
        """Events taken in so far."""
        return self._received

    @property
    def published(self) -> int:
        """Changes given out so far."""
        return self._inserted + self._revised + self._retracted

    @property
    @abstractmethod
    def is_idle(self) -> bool:
        """Whether ``pass_time`` is all that a step without events takes, and publishes nothing."""

    @property
    def first_waiting(self) -> Event | None:
        """The first event in the buffer that waits to be given to the detector."""
        firsts = (self._waiting.first(), self._columns.first())
        return min((event for event in firsts if event is not None), key=ORDER, default=None)

    # -- a step ---------------------------------------------------------------------------------------------------------

    def push(
        self, delta: Delta, mark: int | None = None, promised: int = END, is_open: bool = True, more: bool = False
    ) -> list[Delta]:
        """Take what has arrived; return the changes for downstream, in sequence.

        ``mark``
            the node's clock mark, if it has one; a unit with clock types of its own ignores it.
        ``promised``
            the smallest watermark of the upstream streams that have one; END if none has.
        ``is_open``
            whether some input has no watermark, so that clk - lateness bounds what is final.
        ``more``
            whether more of the same arrival is to come: the clock stands still until then.
        """
        timeline = self.timeline
        settled = timeline.final  # what is admitted now may be older than what is final when it is emitted
        if not delta and not more and not self._waiting and not self._columns.count:
            return self.pass_time(mark, promised, is_open)
        again, removed = self._withdraw(delta) if delta.retracts or delta.revises else ([], [])
        arrived = self._admit(delta, mark, more)
        if not more:
            timeline.clock.release()
        if mark is not None:
            timeline.mark(mark)
        timeline.settle(promised, is_open)
        ready = self._ready(arrived, again)
        deltas = self._emit(ready, removed, settled) if self._has_work(ready, removed) else []
        final = timeline.final
        if final == END != settled:
            self._end(settled)
        if final == END or self._unpurged >= _PURGE_EVERY:
            self._purge()
        if final >= self._pending_failures.since:
            self._list_failures()
        return deltas

    def catch_up(self, mark: int) -> None:
        """Take the clock mark of steps that left this unit out: what arrives now has come after it."""
        if mark > self.clock.clk:
            self.timeline.mark(mark)

    @abstractmethod
    def pass_time(self, mark: int | None, promised: int, is_open: bool) -> list[Delta]:
        """Do what ``push`` does where nothing has arrived and nothing waits."""

    @abstractmethod
    def resume(self, floor: int) -> list[Delta]:
        """Go on after the end: up to ``floor``, no less than ``reached``, all stays final, and events there are late.

        Returns the early results that still hold.
        """

    # -- what comes in --------------------------------------------------------------------------------------------------

    def _admit(self, delta: Delta, mark: int | None, more: bool) -> ReadyEvents:
        """Let new events in: they move the clock, and those that are late are listed."""
        columns = self._columns_of(delta) if self.halted is None else None
        arrived: list[Event] | AnyBlock = delta.inserts if columns is None else columns
        if not len(arrived):
            return NOTHING
        self._received += len(arrived)
        top, met = self.timeline.newest, (self.clock.clk, self.clock.k)  # before the arrival itself moves the clock
        events, late, is_ordered = admit(self.timeline, delta, arrived, mark, more)
        if late:
            self._list_late(late, "insert", *met)
        if isinstance(events, list):
            return ReadyEvents(events, []) if is_ordered else self._arrange(events, top)
        return ReadyEvents([], [], events if len(events) else None, is_ordered)

    @abstractmethod
    def _columns_of(self, delta: Delta) -> AnyBlock | None:
        """New events that stay columns."""

    @abstractmethod
    def _arrange(self, events: list[Event], top: int) -> ReadyEvents:
        """Rows that were admitted, in their order of arrival. ``top``: the latest time before."""

    def _withdraw(self, delta: Delta) -> tuple[list[Event], list[Event]]:
        """Remove events withdrawn or revised; returns what these have become, and old events that the detector has."""
        self._unpack()
        final, gone, revises = self.timeline.final, delta.retracts, delta.revises
        if any(event.ts <= final for event in gone):
            self._list_late([event for event in gone if event.ts <= final], "retract")
            gone = [event for event in gone if event.ts > final]
        if any(min(old.ts, new.ts) <= final for old, new in revises):  # late as a whole: the old content stands
            self._refuse([(old, new) for old, new in revises if min(old.ts, new.ts) <= final])
            revises = [(old, new) for old, new in revises if min(old.ts, new.ts) > final]
        if self._refused or revises:
            gone, revises = self._applicable(gone, revises)
        again = [new for _, new in revises]
        return again, self._waiting.remove(gone + [old for old, _ in revises])

    def _applicable(
        self, gone: list[Event], revises: list[tuple[Event, Event]]
    ) -> tuple[list[Event], list[tuple[Event, Event]]]:
        """The changes without those to content that is not there: it came too late itself, or the publisher is wrong."""
        refused, waiting = self._refused, self._waiting
        late = [event for event in gone if IDENTITY(event) in refused]
        if late:
            self._list_late(late, "retract")
            gone = [event for event in gone if IDENTITY(event) not in refused]
        stand = [IDENTITY(old) not in refused and (waiting.holds(old) or self._may_hold(old)) for old, _ in revises]
        if not all(stand):
            self._refuse([pair for pair, is_there in zip(revises, stand, strict=True) if not is_there])
            revises = list(compress(revises, stand))
        return gone, revises

    @abstractmethod
    def _may_hold(self, event: Event) -> bool:
        """Whether the detector may have this event: as far as the unit can tell."""

    def _refuse(self, revises: list[tuple[Event, Event]]) -> None:
        """List revisions as late as a whole: the old content stands, and later revisions that rest on them are late, too."""
        self._list_late([new for _, new in revises], "revise")
        for old, new in revises:
            self._refused[IDENTITY(new)] = max(old.ts, new.ts)

    def _list_late(self, events: list[Event], change: str, clk: int | None = None, k: int | None = None) -> None:
        """List events as late, or raise LateEventError if that is the policy. ``clk``, ``k``: before they came, if not now."""
        final = self.timeline.final
        if events and self.policies.late == "error":
            event = events[0]
            raise LateEventError(
                f"{self.name}: {type_name(event.__class__)} of {event.source!r} with ts={event.ts} came when everything up to "
                f"{final} was final already; raise lateness, or set the policy for late events to ledger"
            )
        clk, k = self.clock.clk if clk is None else clk, self.clock.k if k is None else k
        self.late += [Late(event, change, clk, k, final) for event in events]
        self._late += len(events)

    # -- what waits, and what is ready ----------------------------------------------------------------------------------

    def _ready(self, arrived: ReadyEvents, again: list[Event]) -> ReadyEvents:
        """The events to emit now: those with ts + alpha * K <= clk, final ones, and those behind the AEP. The rest wait."""
        timeline = self.timeline
        before = timeline.emitted
        ahead, behind, columns = arrived.ahead, arrived.behind, arrived.columns
        if again:
            behind = behind + again
            timeline.newest = max(timeline.newest, max(again, key=TS).ts)
        if self.halted is not None:
            emitted = timeline.emit_final()
        else:
            emitted = timeline.emit(timeline.newest if self._emits_before_clock and not timeline.alpha else NEVER)
        if self._columns.count or (columns is not None and self._has_to_wait(arrived.is_ordered)):
            for piece in columns.pieces if columns is not None else ():
                if piece.as_core_blocks():
                    self._columns.put(piece)
                else:
                    self._duplicates += self._waiting.add(piece.events(), NEVER)[1]
            columns = together([*self._columns.released(emitted).values()])
            arrived = ReadyEvents(ahead, behind, columns)
        waiting = self._waiting
        is_ready = not ahead or ahead[-1].ts <= emitted
        if behind:  # lanes put them in order, but for buffering, where they cannot go back
            is_ready = is_ready and timeline.newest <= emitted and not timeline.is_buffering
        if is_ready and not waiting:
            return ReadyEvents(ahead, behind, columns) if again else arrived
        if ahead:
            waiting.add(ahead, NEVER)
        if behind:
            behind, repeats = waiting.add(behind, before)
            self._duplicates += repeats
        return ReadyEvents(waiting.take(emitted), behind, columns)

    @abstractmethod
    def _has_to_wait(self, is_ordered: bool) -> bool:
        """Whether columns that arrive go through the buffer. ``is_ordered``: see ``ReadyEvents``."""

    def _unpack(self) -> None:
        """Let what waits as columns wait as events."""
        if self._columns.count:
            self._duplicates += self._waiting.add(self._columns.spill(), NEVER)[1]

    # -- what the detector does -----------------------------------------------------------------------------------------

    @abstractmethod
    def _has_work(self, ready: ReadyEvents, removed: list[Event]) -> bool:
        """Whether the detector has something to do in this step."""

    def _emit(self, ready: ReadyEvents, removed: list[Event], settled: int) -> list[Delta]:
        """Give the detector what is ready, and learn what it cost. ``settled``: what was final before this step."""
        emitted = len(ready)
        self._emitted += emitted
        self._unpurged += emitted
        if self.halted is not None:
            self._leave_out(ready)
            return []
        counts = self.counts
        rollbacks, executed = counts.rollbacks, counts.executed
        deltas, spent = self._execute(ready, removed, settled)
        corrected = self._count(deltas) if deltas else 0
        if spent is None and counts.rollbacks == rollbacks:
            self.costs.count_uncorrected(emitted)
        else:
            step = Step(spent, emitted, counts.executed - executed, counts.rollbacks - rollbacks, corrected)
            self._unpurged += step.repeated
            self._learn(step)
        return deltas

    @abstractmethod
    def _execute(self, ready: ReadyEvents, removed: list[Event], settled: int) -> tuple[list[Delta], int | None]:
        """Give the detector what is ready; return the changes, in sequence, and the time that they took."""

    def _learn(self, step: Step) -> float | None:
        """Learn from the cost of a step; returns what corrections cost in it, if there were any."""
        return self.costs.learn(step)

    def _count(self, deltas: list[Delta]) -> int:
        """Count the changes that go out; returns how many of them correct earlier ones."""
        before = self._revised + self._retracted
        for out in deltas:
            self._inserted += out.inserted
            self._revised += len(out.revises)
            self._retracted += len(out.retracts)
        return self._revised + self._retracted - before

    # -- halting --------------------------------------------------------------------------------------------------------

    def halt(self, why: str) -> list[Delta]:
        """Stop publishing, since part of the input is missing; returns the retractions of the unit's results."""
        self._halt(why, NOTHING)
        deltas = self._withdrawal(self.watermark)
        self._count(deltas)
        return deltas

    def set_aside(self, why: str) -> list[Delta]:
        """Halt because the detector's state cannot be stored, and drop that state; returns what withdraws the results that were
        not final."""
        deltas = self._set_aside(why, self.timeline.final)
        self._count(deltas)
        return deltas

    def _set_aside(self, why: str, settled: int) -> list[Delta]:
        """Halt and drop the state. ``settled``: the time that was final when the last results went out."""
        deltas: list[Delta] = []
        if self.halted is None:
            self._halt(why, NOTHING)
            deltas = self._withdrawal(self.watermark_at(settled))
        self.quarantine += self._purged(END, everywhere=True)  # the next purge looks at another detector
        self._unused += self.counts.failures
        self._begin()
        return deltas

    def _halt(self, why: str, ready: ReadyEvents) -> None:
        """From now on, events wait until they are final, and are then listed; those withdrawn before that are not."""
        self.halted = why
        self.timeline.emitted = self.timeline.final
        self._unpack()
        self._leave_out(ReadyEvents(self._waiting.add(ready.events(), self.timeline.final)[0], []))

    def _leave_out(self, ready: ReadyEvents) -> None:
        """List events that lead to no result."""
        left_out = [EventResults(event, [], self.halted) for event in ready.events()]
        self.quarantine += left_out
        self._unused += len(left_out)

    @abstractmethod
    def _begin(self) -> None:
        """Begin with a fresh detector."""

    @abstractmethod
    def provisional(self) -> list[Event]:
        """The results that stand, of those that are not final. O(what is kept)."""

    @abstractmethod
    def _withdrawal(self, promised: int) -> list[Delta]:
        """The change that retracts all results later than ``promised``. O(what is kept)."""

    # -- what becomes final ---------------------------------------------------------------------------------------------

    def _end(self, before: int) -> None:
        """All has become final (before: up to ``before``): note the latest time known here."""
        promised = before - self._backdate if before != NEVER else NEVER
        self._newest = max(self._newest, self._latest_result(promised))
        self.reached = max(before, self._newest, self.timeline.newest, self.clock.clk)

    @abstractmethod
    def _latest_result(self, promised: int) -> int:
        """The latest time of all results that are known, later than ``promised`` or forgotten; NEVER if there are none."""

    def _purge(self) -> None:
        """Forget what is final, and list the failures that are."""
        self._unpurged = 0
        final = self.timeline.final
        if self._refused:
            self._refused = {identity: ts for identity, ts in self._refused.items() if ts > final}
        self.quarantine += self._purged(final, everywhere=False)

    @abstractmethod
    def _purged(self, final: int, everywhere: bool) -> list[EventResults]:
        """Forget what is final, in all lanes if ``everywhere``; returns the failures that became final."""

    def _list_failures(self) -> None:
        """List failures that have become final now, however slow the stream is. O(keys)."""
        final, counts = self.timeline.final, self.counts
        self.quarantine += self._purged(final, everywhere=True)
        self._pending_failures.listed(counts.failures + counts.left_out, final)

    def take_listed(self) -> LedgerEntries | None:
        """The events listed since the last call, late and failed ones, if any; ``statistics`` still counts them."""
        if not self.late and not self.quarantine:
            return None
        taken = LedgerEntries(self.name, self.late, self.quarantine)
        self.late, self.quarantine = [], []
        return taken

    # -- what others ask ------------------------------------------------------------------------------------------------

    @abstractmethod
    def _measures(self) -> dict[str, Any]:
        """The statistics of this kind of unit alone."""

    def statistics(self) -> UnitStatistics:
        """The unit's statistics so far."""
        counts, timeline = self.counts, self.timeline
        return UnitStatistics(
            detector=self.name,
            alpha=timeline.alpha,
            k=self.clock.k,
            clk=self.clock.clk,
            final=timeline.final,
            received=self._received,
            emitted=self._emitted,
            waiting=len(self._waiting) + len(self._columns),
            late=self._late,
            inserted=self._inserted,
            revised=self._revised,
            retracted=self._retracted,
            executed=counts.executed,
            duplicates=counts.duplicates + self._duplicates,
            unknown=counts.unknown,
            rollbacks=counts.rollbacks,
            early_stops=counts.stops,
            snapshots=counts.snapshots,
            failures=counts.failures + self._unused,
            spent=self.costs.total,
            corrections=self.costs.correction,
            halted=self.halted,
            **self._measures(),
        )

    def state(self) -> dict[str, Any]:
        """All that the unit needs to resume in another process, as values that can be pickled, except keyed lanes: those come
        from ``part``, as they are now. It shares nothing with the unit that ever changes.

        O(events that wait, and that a detector without a key holds). Raises DetectorError if its results are worth nothing.
        """
        self._unpack()
        detector = self._detector_state()
        own = {name: copy(getattr(self, name)) for name in _STORED}
        return own | {"waiting": self._waiting.events(), "timeline": self.timeline.state(), "detector": detector}

    @abstractmethod
    def _detector_state(self) -> Any:
        """The state of the detector, what is final of it forgotten."""

    @abstractmethod
    def check_state(self) -> None:
        """Raise DetectorError if a snapshot that the unit needs cannot be taken of the detector."""

    @abstractmethod
    def part(self, count: int) -> list[KeyedLane]:
        """The next keyed lanes, at most ``count``, as they were when ``state`` was called, whatever the unit did since."""

    def restore(self, state: dict[str, Any], version: int | None = None) -> None:
        """Become the unit that gave ``state``; only a new unit can. Its parts follow by ``restore_part``.

        ``version``: the detector's version then, if it was another one. Raises DetectorError if the state cannot be migrated.
        """
        for name in _STORED:
            setattr(self, name, state[name])
        self.timeline.restore(state["timeline"])
        self._pending_failures.suppose(max(self.timeline.emitted, self.timeline.final))
        self._waiting.add(state["waiting"], NEVER)
        self._restore_detector(state["detector"], version)

    @abstractmethod
    def _restore_detector(self, state: Any, version: int | None) -> None:
        """Take up the state of the detector. ``version``: see ``restore``."""

    @abstractmethod
    def restore_part(self, part: list[KeyedLane], version: int | None = None) -> None:
        """Add lanes that ``part`` gave."""

    def check(self) -> None:
        """Assert every invariant of the unit and of what it holds."""
        waiting, timeline = self._waiting.events(), self.timeline
        assert arranged(waiting) == (waiting, 0), "waiting events out of order"
        assert not waiting or waiting[0].ts > timeline.emitted, "an event waits that should have been emitted"
        first = self._columns.first()
        assert first is None or first.ts > timeline.emitted, "columns wait that should have been emitted"
        assert timeline.emitted >= timeline.final, "something is final that was never emitted"
