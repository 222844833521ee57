"""The ordering unit: gives one detector its input in order, early, and corrects it (DEBS'13, section 4).

What has not been emitted yet waits in one sorted buffer; what has been emitted lives in lanes (one, or one for each key)
until it is final. ``emitted`` is the AEP: everything at or below it has been given to the detector.
"""

from __future__ import annotations

import math
from copy import copy
from itertools import compress
from typing import Any

from middleware.model.change import Delta, composed, some_inserts
from middleware.model.detector import Detector, constants, key_function
from middleware.model.errors import DetectorError, LateEventError
from middleware.model.event import END, IDENTITY, NEVER, ORDER, TS, Event, Identity, type_name
from middleware.model.held import HeldColumns
from middleware.model.interleaved import Columns, together
from middleware.model.operator import Operator
from middleware.native import Waiting, split
from middleware.ordering.buffer import arranged
from middleware.ordering.costs import Costs, RetractionChoice, Step, Timer
from middleware.ordering.failing import Failing
from middleware.ordering.kslack import LocalClock
from middleware.ordering.lane import SPACING, LaneState, Settings
from middleware.ordering.lanes import (
    BatchLanes,
    KeyedLane,
    LanesState,
    lanes_for,
    migrated_lanes,
    migrated_state,
    unused_lane,
    withdrawal,
)
from middleware.ordering.measuring import Survey, measure, measure_columns, measure_singly, measure_surveyed, survey, told
from middleware.ordering.operation import OperatorLane, Ready
from middleware.ordering.policies import Policies
from middleware.ordering.records import Late, Listed, UnitStatistics
from middleware.ordering.retraction import Published, Retraction
from middleware.ordering.robust import RobustSlack
from middleware.ordering.runs import RUN, Runs

_PURGE_EVERY = 1024  # events that a unit runs, again or for the first time, between two purges
_LOOK_EVERY = 65_536  # most events that a unit emits between two checks that its detector's shared state is unchanged

_NOTHING = Ready([], [])

_AS_THEY_ARE = ("alpha", "final", "emitted", "quarantine", "halted", "reached", "_top", "_newest", "_refused")
_STATE = {name: name for name in _AS_THEY_ARE} | {"ledger": "late"}
"""The stored attributes of a unit, besides its clock and lanes: by the name in a checkpoint, which stays, the name here.
Counts and measured costs last for one life only."""


class Unit:
    """The ordering unit of one detector.

    ``push`` takes what has arrived; only the unit's calls move it. It reads no clock and does no I/O.
    ``final``: what it derives from events at or below it never changes again, and events there are late. Its ``watermark``
    says the same of what it publishes, which may be stamped earlier than the event that caused it.
    ``halted`` is why it publishes nothing more, None while it runs: its operator raised, or a type it reads has halted. Results
    that were not final then are withdrawn. Events of the batch at which its operator raised, and all later ones, are listed as
    failed once they are final. ``final`` still moves: nothing is left that could become wrong.
    ``late`` and ``quarantine`` hold the events that are listed, as late or as failed, until the owner takes them.
    ``reached`` is, once all input has ended, the latest time known here: of an event taken or published, of clk, or ``final``.
    ``resumes``: a stream that has ended may resume (``go_on``).
    ``few``: fewer events of several types than this are to be pushed as objects. ``run``: how many a detector gets at once.
    """

    def __init__(
        self,
        name: str,
        detector: Detector,
        level: int = 1,
        policies: Policies | None = None,
        timer: Timer | None = None,
        resumes: bool = False,
        run: int = RUN,
    ) -> None:
        self.name = name
        self.level = level
        self.detector = detector
        self.policies = policies if policies is not None else Policies()
        self.alpha = self.policies.alpha
        slack = self.policies.slack
        self.clock = LocalClock(slack() if slack is not None else RobustSlack(self.policies.lateness))
        self.final = NEVER
        self.emitted = NEVER
        self.late: list[Late] = []
        self.quarantine: list[Published] = []
        self.halted: str | None = None
        self.reached = NEVER
        self._top = self._newest = NEVER  # the latest event; the latest result that was forgotten
        self._backdate, self._ticking = detector.backdate, frozenset(detector.clock) or None
        self.costs = Costs(timer)
        is_auto = self.policies.retraction is Retraction.AUTO
        self._settings = Settings(
            Retraction.ON_DEMAND if is_auto else self.policies.retraction,
            self.policies.spacing or SPACING,
            self.policies.failing == "stop",
        )
        self._resumes = resumes
        self._begin_lanes()
        self._choice = RetractionChoice() if is_auto and self._operator is None else None  # operators replay nothing
        self._runs = Runs.of(detector, run)
        self._is_single = self._operator is None and (key_function(detector) is None or self._runs.most is None)
        self._prompt = isinstance(detector, Operator) and detector.prompt
        self.few = detector.few if isinstance(detector, Operator) else END
        self._constants = constants(detector)
        self._look_at = 1 if self._operator is None else END
        self._waiting = Waiting()
        self._columns = HeldColumns()  # the same: what came as columns
        self._reached, self._lateness = 0, self.policies.lateness.of(0)  # computed anew when the reach changes
        self._failing = Failing()
        self._refused: dict[Identity, int] = {}  # events whose last revision was too late, and its time: later ones rest on it
        self._late = self._received = self._emitted = self._unpurged = self._duplicates = self._unused = 0
        self._inserted = self._revised = self._retracted = 0

    def _begin_lanes(self) -> None:
        self._lanes = lanes_for(self.name, self.detector, self.level, self._settings, self._resumes)
        self._operator = self._lanes if isinstance(self._lanes, OperatorLane) else None
        self._batches = self._lanes if isinstance(self._lanes, BatchLanes) else None

    @property
    def watermark(self) -> int:
        """No further change that this unit publishes will have ts <= this."""
        return self._promised_at(self.final)

    def _promised_at(self, final: int) -> int:
        return final - self._backdate if NEVER < final < END else final

    @property
    def lateness(self) -> int:
        """How far behind clk results may still change where an input is open, ns."""
        return self.policies.lateness.of(self.clock.policy.reach)

    @property
    def received(self) -> int:
        """Events taken in so far."""
        return self._received

    @property
    def published(self) -> int:
        """Changes given out so far."""
        return self._inserted + self._revised + self._retracted

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
        settled = self.final  # what is admitted now may be older than what is final when it is emitted
        if not delta and not more and not self._waiting and not self._columns:
            self.pass_time(mark, promised, is_open)
            if self._operator is None:
                return []
            self._reach()
            deltas = self._emit(_NOTHING, [], self.final) if self._is_due() else []
            if self.final == END != settled:
                self._end(settled)
            if self.final >= self._failing.since:
                self._list_failures()
            return deltas
        again, removed = self._withdraw(delta) if delta.retracts or delta.revises else ([], [])
        arrived = self._admitted(delta, mark, more)
        if not more:
            self.clock.release()
        if mark is not None and self._ticking is None:
            self.clock.mark(mark)
        self._settle(promised, is_open)
        ready = self._ready(arrived, again)
        deltas = self._emit(ready, removed, settled) if self._is_due() or ready or removed else []
        if self.final == END != settled:
            self._end(settled)
        if self.final == END or self._unpurged >= _PURGE_EVERY:
            self._purge()
        if self.final >= self._failing.since:
            self._list_failures()
        return deltas

    def _is_due(self) -> bool:
        """Tell an operator what time it is; returns whether it has yet to act on that. Detectors know no time."""
        if self._operator is None or self.halted is not None:
            return False
        self._operator.advance(self.emitted, self.final)
        return self._operator.is_due

    @property
    def is_idle(self) -> bool:
        """Whether no event waits here: then, if nothing has arrived, ``pass_time`` does all that ``push`` would do."""
        return not self._waiting and not self._columns and self._operator is None and self.halted is None

    def catch_up(self, mark: int) -> None:
        """Take the clock mark of steps that left this unit out: what arrives now has come after it."""
        if mark > self.clock.clk and self._ticking is None:
            self.clock.mark(mark)

    def pass_time(self, mark: int | None, promised: int, is_open: bool) -> None:
        """Move only the clock and ``final``: nothing has come and nothing waits. The usual case for most units of a node."""
        clock, before = self.clock, self.final
        clock.release()
        if self._ticking is None and mark is not None and mark > clock.clk:
            clock.mark(mark)
        if is_open or clock.within != END:
            self._settle(promised, is_open)
        elif promised > before:
            self.final = promised
        final = self.final
        if final == before:
            return
        self.emitted = max(self.emitted, final)
        if final == END:
            if self._operator is None:
                self._end(before)
            self._purge()
        elif final >= self._failing.since:
            self._list_failures()

    def _end(self, before: int) -> None:
        """All has become final (before: up to ``before``): note the latest time known here."""
        promised = before - self._backdate if before != NEVER else NEVER
        latest = map(TS, self._lanes.standing(promised)) if self._operator is None else [self._operator.latest(promised)]
        self._newest = max(self._newest, self._lanes.newest, *latest)
        self.reached = max(before, self._newest, self._top, self.clock.clk)

    def go_on(self, ground: int) -> list[Delta]:
        """Resume after the end: up to ``ground``, no less than ``reached``, all stays final, and events there are late.

        Detectors resume from their present state, operators from the one before the end, which for them is an event like
        others; returns the early results that still hold.
        """
        self.final = self.emitted = ground + self._backdate if ground != NEVER else NEVER  # so all new results are later
        deltas = self._operator.go_on(ground) if self._operator is not None and self.halted is None else []
        self._count(deltas)
        return deltas

    def _admitted(self, delta: Delta, mark: int | None, more: bool) -> Ready:
        """Measure delays, move the clock, and list what is late; returns the rest."""
        columns = self._columns_of(delta) if self.halted is None else None
        is_plain = self._ticking is None and not delta.is_early
        arrived: list[Event] | Columns = delta.inserts if columns is None else columns
        if not len(arrived):
            return _NOTHING
        if columns is None and not is_plain:
            return self._admit(delta, mark, more)
        clock, final, top = self.clock, self.final, self._top
        seen = survey(arrived, top, clock.clk, clock.policy.only_earliest)
        if not is_plain or seen.earliest <= final or (mark is not None and seen.newest > mark):
            return self._admit(delta, mark, more) if columns is None else self._admit_columns(delta, columns, seen, mark, more)
        self._received += len(arrived)
        self._top = seen.newest
        measure_surveyed(clock, arrived, seen, more)
        if columns is not None:
            return Ready([], [], columns)
        if self.alpha or (self._operator is not None and not self._waiting):  # put in order as they wait, or not at all
            return Ready([], delta.inserts.copy())
        return Ready(*split(delta.inserts, top)) if seen.delayed else Ready(delta.inserts, [])

    def _columns_of(self, delta: Delta) -> Columns | None:
        """New events that stay columns; for a detector not beside rows: of an event that comes twice the first counts."""
        if self._operator is not None:
            return delta.given
        keeps = self._runs.keep_columns(delta, self._waiting, self._columns)
        if not keeps and delta.inserted:
            self._unpack()
        return delta.columns if keeps else None

    def _admit(self, delta: Delta, mark: int | None, more: bool) -> Ready:
        """Measure delays, move the clock, and list what is late."""
        inserts = delta.inserts
        self._received += len(inserts)
        ahead, behind = split(inserts, self._top)
        if ahead:
            self._top = ahead[-1].ts
        earliest = ahead[0].ts if ahead else self._top
        if behind:
            earliest = min(earliest, min(behind, key=TS).ts)
        late = [event for event in inserts if event.ts <= self.final] if earliest <= self.final else []
        measured, early, behind_clock = delta, ahead, behind
        if late:
            ahead = [event for event in ahead if event.ts > self.final]
            behind = [event for event in behind if event.ts > self.final]
            if not self.clock.policy.counts_late:
                self.clock.miss(late, inserts)
                measured = some_inserts(delta, [event.ts > self.final for event in inserts])
                early, behind_clock = ahead, behind
        is_foretold = mark is not None and early and early[-1].ts > mark and early[-1].level > 0
        if measured.k_plus is None and self._ticking is None and not is_foretold:
            measure(self.clock, measured.inserts, early, behind_clock, more)
        else:
            measure_singly(self.clock, self._ticking, measured, mark, more)
        if late:
            self._list_late(late, "insert")
        return Ready(ahead, behind)

    def _admit_columns(self, delta: Delta, columns: Columns, seen: Survey, mark: int | None, more: bool) -> Ready:
        """``_admit`` for columns: they stay what they are."""
        self._received += len(columns)
        top, late, measured, less = self._top, list[Event](), columns, told(delta, columns)
        self._top = seen.newest
        if seen.earliest <= self.final:
            in_time = columns.times > self.final
            late, columns = columns.filter(~in_time).events(), columns.filter(in_time)
            if not self.clock.policy.counts_late:
                self.clock.miss(late, measured)
                measured, seen = columns, survey(columns, top, self.clock.clk, self.clock.policy.only_earliest)
                less = None if less is None else less[in_time]
        measure_columns(self.clock, self._ticking, measured, seen, less, mark, more, top)
        if late:
            self._list_late(late, "insert")
        return Ready([], [], columns if len(columns) else None)

    def _settle(self, promised: int, is_open: bool) -> None:
        """Move ``final`` as far as the watermarks and the allowed lateness allow; never back."""
        if is_open:
            clock = self.clock
            if clock.policy.reach != self._reached:
                self._reached = clock.policy.reach
                self._lateness = self.lateness
            if clock.clk != NEVER and self._lateness:
                self.final = max(self.final, min(promised, clock.clk - self._lateness))
                clock.within = self._lateness
        else:
            self.clock.within = END
            self.final = max(self.final, promised)

    def _reach(self) -> None:
        """Move the AEP to the last time where e.ts + alpha * K <= clk, and at least to ``final``."""
        emitted, clk = max(self.emitted, self.final), self.clock.clk
        if clk > emitted and self.halted is None:
            emitted = max(emitted, clk - math.ceil(self.alpha * self.clock.k)) if self.alpha else clk
        self.emitted = emitted

    def _ready(self, arrived: Ready, again: list[Event]) -> Ready:
        """The events to emit now: those with e.ts + alpha * K <= clk, final ones, and those behind the AEP. The rest wait."""
        before = self.emitted
        self._reach()
        ahead, behind, columns = arrived.ahead, arrived.behind, arrived.columns
        if again:
            behind = behind + again
            self._top = max(self._top, max(again, key=TS).ts)
        if self._prompt and self.alpha == 0 and self.halted is None:  # emit all that has come, without waiting for the clock
            self.emitted = max(self.emitted, self._top)
        if self._columns or (columns is not None and (self._top > self.emitted or self._operator is None)):
            for piece in columns.pieces if columns is not None else ():
                self._columns.put(piece)
            columns = together([*self._columns.released(self.emitted).values()])
            arrived = Ready(ahead, behind, columns)
        waiting = self._waiting
        if not waiting and (not ahead or ahead[-1].ts <= self.emitted) and (self._top <= self.emitted or not behind):
            return Ready(ahead, behind, columns) if again else arrived
        if ahead:
            waiting.add(ahead, NEVER)
        if behind:
            behind, repeats = waiting.add(behind, before)
            self._duplicates += repeats
        return Ready(waiting.take(self.emitted), behind, columns)

    def _unpack(self) -> None:
        """Let what waits as columns wait as events."""
        if self._columns:
            self._duplicates += self._waiting.add(self._columns.spill(), NEVER)[1]

    def _emit(self, ready: Ready, removed: list[Event], settled: int) -> list[Delta]:
        """Give the detector what is ready, in the mode that costs least, and learn what it cost."""
        emitted = len(ready)
        self._emitted += emitted
        self._unpurged += emitted
        if self.halted is not None:
            self._leave_out(ready)
            return []
        timer, counts, settings = self.costs.timer, self._lanes.counts, self._settings
        if self._choice is not None and settings.retraction is not (mode := self._choice.choose()):
            settings.retraction = mode
            self._lanes.configure(settings)
        rollbacks, executed = counts.rollbacks, counts.executed
        deltas, spent = self._runs.emit(self._lanes, ready, removed, self.clock, settled, self.final, timer)
        if (fault := self._fault()) is not None:
            deltas += self.set_aside(fault, settled)
        deltas = self._netted(deltas) if len(deltas) > 1 else deltas
        has_more = self._operator is not None and self._operator.has_failed
        self._failing.note(counts.failures + counts.left_out, max(self.emitted, self.final), has_more)
        if self._operator is not None and self._operator.stopped is not None:
            self._halt(self._operator.stopped, ready)
        corrected = self._count(deltas) if deltas else 0
        if spent is None and counts.rollbacks == rollbacks:
            self.costs.calm(emitted)
        else:
            self._learn(Step(spent, emitted, counts.executed - executed, counts.rollbacks - rollbacks, corrected))
        return deltas

    def _netted(self, deltas: list[Delta]) -> list[Delta]:
        """The net effect of several, unless results are to be withdrawn first."""
        if self._settings.retraction is not Retraction.ON_DEMAND:
            return deltas
        return list(filter(None, [composed(deltas)]))

    def _fault(self) -> str | None:
        """Why the results of the detector are worth nothing. What its instances share is looked at often at first, and at the
        end."""
        if self._batches is not None and self._batches.fault is not None:
            return self._batches.fault
        return self._look() if self._emitted >= self._look_at or self.final == END else None

    def _look(self) -> str | None:
        """The fault, if the detector has changed a value that its instances share."""
        if self._operator is not None or self.halted is not None:
            return None
        self._look_at = self._emitted + min(3 * self._emitted, _LOOK_EVERY)
        try:
            self._constants.check(self.name)
        except DetectorError as error:
            return str(error)
        return None

    def standing(self) -> list[Event]:
        """The results that stand, of those that are not final. O(what is kept)."""
        return [] if self.halted is not None else self._lanes.standing(self.watermark)

    def halt(self, why: str) -> list[Delta]:
        """Stop publishing, since part of the input is missing; returns the retractions of the unit's results."""
        self._halt(why, _NOTHING)
        deltas = withdrawal(self._lanes, self.watermark)
        self._count(deltas)
        return deltas

    def set_aside(self, why: str, settled: int | None = None) -> list[Delta]:
        """Halt because the detector's state cannot be stored, or its results are worth nothing, and drop that state.

        Returns what withdraws the results that were not final; ``settled``: what was final before this step, if another time.
        """
        deltas: list[Delta] = []
        if self.halted is None:
            self._halt(why, _NOTHING)
            deltas = withdrawal(self._lanes, self._promised_at(self.final if settled is None else settled))
            self._count(deltas)
        self.quarantine += self._lanes.purge(END, everywhere=True)  # no later purge sees these lanes
        self._newest = max(self._newest, self._lanes.newest)
        self._unused += self._lanes.counts.failures
        self._begin_lanes()
        return deltas

    def _halt(self, why: str, ready: Ready) -> None:
        """From now on, events wait until they are final, and are then listed; those withdrawn before that are not."""
        self.halted, self.emitted = why, self.final
        self._unpack()
        self._leave_out(Ready(self._waiting.add(ready.events(), self.final)[0], []))

    def _leave_out(self, ready: Ready) -> None:
        """List events that lead to no result."""
        left_out = [Published(event, [], self.halted) for event in ready.events()]
        self.quarantine += left_out
        self._unused += len(left_out)

    def _count(self, deltas: list[Delta]) -> int:
        """Count the changes that go out; returns how many of them correct earlier ones."""
        before = self._revised + self._retracted
        for out in deltas:
            self._inserted += out.inserted
            self._revised += len(out.revises)
            self._retracted += len(out.retracts)
        return self._revised + self._retracted - before

    def _learn(self, step: Step) -> None:
        """Learn the cost of a step, in the mode in which it ran."""
        cost = self.costs.learn(step)
        self._unpurged += step.repeated
        if self._choice is not None and cost is not None:
            mode = self._settings.retraction
            # full retraction publishes again what it withdraws, which is as much work downstream
            changes = step.affected * 2 if mode is Retraction.FULL else step.affected
            self._choice.learn(mode, (cost + changes * self.costs.downstream) / step.rollbacks)

    def _withdraw(self, delta: Delta) -> tuple[list[Event], list[Event]]:
        """Remove events withdrawn or revised; returns what these have become, and old events that the detector has."""
        self._unpack()
        final, gone, revises = self.final, delta.retracts, delta.revises
        if any(event.ts <= final for event in gone):
            self._list_late([event for event in gone if event.ts <= final], "retract")
            gone = [event for event in gone if event.ts > final]
        if any(min(old.ts, new.ts) <= final for old, new in revises):  # late as a whole: the old content stands
            self._refuse([(old, new) for old, new in revises if min(old.ts, new.ts) <= final])
            revises = [(old, new) for old, new in revises if min(old.ts, new.ts) > final]
        if self._refused or revises:
            gone, revises = self._standing(gone, revises)
        again = [new for _, new in revises]
        return again, self._waiting.remove(gone + [old for old, _ in revises])

    def _standing(self, gone: list[Event], revises: list[tuple[Event, Event]]) -> tuple[list[Event], list[tuple[Event, Event]]]:
        """The changes without those to content that is not there: it came too late itself, or the publisher is wrong."""
        refused, waiting, holds = self._refused, self._waiting, self._lanes.holds
        late = [event for event in gone if IDENTITY(event) in refused]
        if late:
            self._list_late(late, "retract")
            gone = [event for event in gone if IDENTITY(event) not in refused]
        stand = [IDENTITY(old) not in refused and (waiting.holds(old) or holds(old)) for old, _ in revises]
        if not all(stand):
            self._refuse([pair for pair, is_there in zip(revises, stand, strict=True) if not is_there])
            revises = list(compress(revises, stand))
        return gone, revises

    def _refuse(self, revises: list[tuple[Event, Event]]) -> None:
        """List revisions as late as a whole: the old content stands, and later revisions that rest on them are late, too."""
        self._list_late([new for _, new in revises], "revise")
        for old, new in revises:
            self._refused[IDENTITY(new)] = max(old.ts, new.ts)

    def _list_late(self, events: list[Event], change: str) -> None:
        """List events as late, or raise LateEventError if that is the policy."""
        if events and self.policies.late == "error":
            event = events[0]
            raise LateEventError(
                f"{self.name}: {type_name(event.__class__)} of {event.source!r} with ts={event.ts} came when everything up to "
                f"{self.final} was final already; raise lateness, or set the policy for late events to ledger"
            )
        self.late += [Late(event, change, self.clock.clk, self.clock.k, self.final) for event in events]
        self._late += len(events)

    @property
    def first_waiting(self) -> Event | None:
        """The first event in the buffer that waits to be given to the detector."""
        firsts = (self._waiting.first(), self._columns.first())
        return min((event for event in firsts if event is not None), key=ORDER, default=None)

    def take_listed(self) -> Listed | None:
        """The events listed since the last call, late and failed ones, if any; ``statistics`` still counts them."""
        if not self.late and not self.quarantine:
            return None
        taken = Listed(self.name, self.late, self.quarantine)
        self.late, self.quarantine = [], []
        return taken

    def _purge(self) -> None:
        self._unpurged = 0
        if self.final == END and (fault := self._look()) is not None:
            self.set_aside(fault)
        if self._refused:
            self._refused = {identity: ts for identity, ts in self._refused.items() if ts > self.final}
        if self.policies.spacing is None and self.final != END and self._operator is None:
            self._space()
        self.quarantine += self._lanes.purge(self.final, everywhere=self._is_single)

    def _list_failures(self) -> None:
        """List failures that have become final now, however slow the stream is. O(keys)."""
        counts = self._lanes.counts
        self.quarantine += self._lanes.purge(self.final, everywhere=True)
        self._failing.listed(counts.failures + counts.left_out, self.final)

    def _space(self) -> None:
        """Set the distance between snapshots that costs least."""
        self.costs.measure_snapshot(self._lanes.snapshot)
        best = self.costs.spacing()
        if best is not None and not 0.7 < best / self._settings.spacing < 1.4:  # small moves are not worth it
            self._settings.spacing = best
            self._lanes.configure(self._settings)

    def statistics(self) -> UnitStatistics:
        """The unit's statistics so far."""
        counts = self._lanes.counts
        return UnitStatistics(
            detector=self.name,
            alpha=self.alpha,
            k=self.clock.k,
            clk=self.clock.clk,
            final=self.final,
            received=self._received,
            emitted=self._emitted,
            waiting=len(self._waiting) + len(self._columns),
            held=self._lanes.held,
            late=self._late,
            keys=len(self._lanes),
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
            spacing=self._settings.spacing,
            retraction=self._settings.retraction if self._choice is None else self._choice.mode,
            switches=self._choice.switches if self._choice else 0,
            spent=self.costs.total,
            corrections=self.costs.correction,
            halted=self.halted,
        )

    def state(self) -> dict[str, Any]:
        """All that the unit needs to resume in another process, as values that can be pickled, except keyed lanes: those come
        from ``part``, as they are now. It shares nothing with the unit that ever changes.

        O(events that wait, and that a detector without a key holds). Raises DetectorError if its results are worth nothing.
        """
        if (fault := self._look()) is not None:
            raise DetectorError(fault)
        self._unpack()
        self.quarantine += self._lanes.purge(self.final, everywhere=self._is_single)
        self._newest = max(self._newest, self._lanes.newest)
        own = {stored: copy(getattr(self, name)) for stored, name in _STATE.items()}
        lanes = self._lanes.state(self.final)
        if self._is_single:
            only = [(key, LaneState(*lane)) for key, lane in self._lanes.part(1)] or [unused_lane(self.detector)]
            lanes = LanesState(only, *lanes[1:])  # it goes with the rest
        return own | {"_waiting": self._waiting.events(), "clock": self.clock.state(), "lanes": lanes}

    def part(self, count: int) -> list[KeyedLane]:
        """The next keyed lanes, at most ``count``, as they were when ``state`` was called, whatever the unit did since."""
        return self._lanes.part(count)

    def restore(self, state: dict[str, Any], version: int | None = None) -> None:
        """Become the unit that gave ``state``; only a new unit can. Its parts follow by ``restore_part``.

        ``version``: the detector's version then, if it was another one. Raises DetectorError if the state cannot be migrated.
        """
        for stored, name in _STATE.items():
            setattr(self, name, state.get(stored, NEVER))  # "reached" was not there in former versions
        self._failing.suppose(max(self.emitted, self.final))
        self._waiting.add(state["_waiting"], NEVER)
        self.clock.restore(state["clock"])
        self._lanes.restore(state["lanes"] if version is None else migrated_state(state["lanes"], self.detector, version))

    def restore_part(self, part: list[KeyedLane], version: int | None = None) -> None:
        """Add lanes that ``part`` gave."""
        self._lanes.restore_part(part if version is None else migrated_lanes(part, self.detector, version))

    def check(self) -> None:
        """Assert every invariant of the unit and its lanes."""
        waiting = self._waiting.events()
        assert arranged(waiting) == (waiting, 0), "waiting events out of order"
        assert not waiting or waiting[0].ts > self.emitted, "an event waits that should have been emitted"
        first = self._columns.first()
        assert first is None or first.ts > self.emitted, "columns wait that should have been emitted"
        assert self.emitted >= self.final, "something is final that was never emitted"
        self._lanes.check()
