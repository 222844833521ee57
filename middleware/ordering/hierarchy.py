"""The detectors of one node: their units run in order of level, so that one step carries a batch all the way up."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import astuple

from middleware.model.change import Batch, Delta, by_time, combined
from middleware.model.code_identity import code_identity, written
from middleware.model.detector import Detector, backdate_of, code_of, is_unchanging, takes_batches
from middleware.model.errors import ENDING, DetectorError, SlacklineError, UnsavedError, last_line
from middleware.model.event import END, NEVER, Event, EventTypes, type_name
from middleware.model.identity import levels, named
from middleware.model.operator import Operator, described
from middleware.model.values.user_code import know_local
from middleware.ordering.alpha.adaptation import Alpha
from middleware.ordering.alpha.budget import Budget, Load
from middleware.ordering.alpha.costs import Timer
from middleware.ordering.alpha.gain import Gain
from middleware.ordering.arrival import in_order
from middleware.ordering.detector_unit import DetectorUnit
from middleware.ordering.lanes.lanes import KeyedLane
from middleware.ordering.lanes.runs import RUN
from middleware.ordering.operator_unit import OperatorUnit
from middleware.ordering.policies import Policies
from middleware.ordering.records import LedgerEntries, UnitStatistics
from middleware.ordering.unit import Unit

Parts = dict[str, list[Delta]]
"""Changes of one round by type name."""


_NOTHING = Delta()


class Adaptation(StrEnum):
    """How alpha is steered at run time."""

    NONE = "none"
    EACH = "adaptive"
    WEIGHTED = "weighted"
    GAIN = "gain"


def unit_for(
    name: str,
    detector: Detector,
    level: int = 1,
    policies: Policies | None = None,
    timer: Timer | None = None,
    resumes: bool = False,
    run: int = RUN,
) -> Unit:
    """A new unit, of the kind that the detector is; ``resumes`` and ``run``: see ``OperatorUnit`` and ``DetectorUnit``."""
    if isinstance(detector, Operator):
        return OperatorUnit(name, detector, level, policies, timer, resumes)
    return DetectorUnit(name, detector, level, policies, timer, run)


class Readers:
    """The indexes of units by the types that they read. ``reads``: the types of each unit, lowest level first."""

    def __init__(self, reads: Iterable[Sequence[str]]) -> None:
        self._indexes: dict[str, list[int]] = {}
        for index, names in enumerate(reads):
            for name in names:
                self._indexes.setdefault(name, []).append(index)

    def of(self, news: list[str]) -> Iterator[int]:
        """The indexes of the units that read any of these types, lowest level first, each once. O(those).

        The owner may add types to ``news`` between two steps of the iteration, of units above the one just given.
        """
        due: list[int] = []
        known, last = 0, -1
        while True:
            for name in news[known:]:
                for index in self._indexes.get(name, ()):
                    heappush(due, index)
            known = len(news)
            while due and due[0] == last:
                heappop(due)
            if not due:
                return
            last = heappop(due)
            yield last


class UnitEntry(msgspec.Struct):
    """A unit of a hierarchy: the names of the types it reads and publishes, and the state of its alpha adaptation.

    ``final`` is the unit's ``final`` when the watermarks of its types were last updated. ``local``: whether units of this node
    alone publish all that it reads.
    """

    unit: Unit
    reads: tuple[str, ...]
    publishes: tuple[str, ...]
    adaptation: Alpha
    local: bool = False
    final: int = NEVER
    spent: float = 0.0
    worked: float = 0.0
    results: int = 0

    @classmethod
    def of(
        cls, name: str, detector: Detector, level: int, policies: Policies | None, timer: Timer | None, resumes: bool
    ) -> UnitEntry:
        unit = unit_for(name, detector, level, policies, timer, resumes)
        reads, publishes = (tuple(map(type_name, types)) for types in (detector.subscribes, detector.publishes))
        return cls(unit, reads, publishes, Alpha(unit.alpha))


class Hierarchy:
    """The units of a node. A pure processor of batches: it reads no clock and does no I/O.

    ``detectors``
        all detectors of the application by name: they determine the levels and the set of derived types.
    ``here``
        the names of those that run on this node (None: all).
    ``policies``
        how units behave: one policy for all, or by detector name, with "" for the others.
    ``adaptation``
        how ``adapt`` sets the units' alphas: not at all, each by Algorithm 3 from the busy factor, or all by one budget,
        weighted by subscriptions, that Algorithm 3 or ``Gain`` controls.
    ``timer``
        a clock in nanoseconds that measures the cost of work; without one, detector calls are counted.
    ``resumes``
        streams that have ended may resume, as they may at a node: costs a copy of the operators' state at each end. False
        where the end is the end, as in a run.
    ``settings``
        the arguments with which detectors were made, by name and as text, where they are known: state that was made with others
        is refused, unless their attributes are ``unchanging``, and so no state.
    ``backdate``
        how much earlier than raw events results may be stamped, over all levels of the application, ns.
    """

    def __init__(
        self,
        detectors: Iterable[Detector] | Mapping[str, Detector],
        here: Collection[str] | None = None,
        policies: Policies | Mapping[str, Policies] | None = None,
        adaptation: Adaptation = Adaptation.NONE,
        timer: Timer | None = None,
        resumes: bool = True,
        settings: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> None:
        everything = named(detectors)
        self._settings = settings
        level = levels(everything)
        know_local(kind for each in everything.values() for kind in (type(each), *each.subscribes, *each.publishes))
        self.adaptation = adaptation
        self.budget = Budget(Gain() if adaptation is Adaptation.GAIN else None)
        self.clock: int | None = None
        self._is_timed = timer is not None
        self._outside: dict[str, int] = {}
        self._faults: dict[str, str] = {}  # by unit that is to be set aside in the next step, why
        self._stopped = 0  # number of types whose end readers have been sent
        self._entries = [
            UnitEntry.of(name, everything[name], level[name], _policy(policies, name), timer, resumes)
            for name in sorted(everything, key=lambda name: (level[name], name))
            if here is None or name in here
        ]
        backdates: dict[int, int] = {}
        for name, detector in everything.items():
            backdates[level[name]] = max(backdate_of(detector), backdates.get(level[name], 0))
        self.backdate = sum(backdates.values())
        local = {entry.unit.name for entry in self._entries}
        self._types = [kind for each in everything.values() for kind in (*each.subscribes, *each.publishes)]
        self._derived = frozenset(type_name(t) for detector in everything.values() for t in detector.publishes)
        self._away = frozenset(type_name(t) for name, d in everything.items() if name not in local for t in d.publishes)
        self._publishers: dict[str, list[Unit]] = {}
        for entry in self._entries:
            for name in entry.publishes:
                self._publishers.setdefault(name, []).append(entry.unit)
        for entry in self._entries:
            entry.local = all(name in self._publishers and name not in self._away for name in entry.reads)
        self._readers = Readers(entry.reads for entry in self._entries)
        self._lagging = False  # whether the last step was partial
        self._visited = self._entries  # the units that may have listed something since that was last asked
        self._promised: dict[str, int] = dict.fromkeys(self._publishers, NEVER)
        self._watermarks = self._promised.copy()  # of each type, by the units here that publish it
        self.subscriptions = frozenset(name for entry in self._entries for name in entry.reads)
        self.publications = frozenset(self._publishers)
        self.derivations = {name: self._resting_on(name) for name in self.subscriptions}
        """By type read, the publications of this node that depend on it, at whatever level."""

    @property
    def types(self) -> EventTypes:
        """The event types that the detectors of the application read and publish. O(types)."""
        return EventTypes(dict.fromkeys(self._types))

    @property
    def units(self) -> list[Unit]:
        """The units of this node, lowest level first."""
        return [entry.unit for entry in self._entries]

    def _resting_on(self, name: str) -> frozenset[str]:
        found = {name}
        for entry in self._entries:  # lowest level first
            if not found.isdisjoint(entry.reads):
                found.update(entry.publishes)
        return frozenset(found - {name})

    def process(self, batch: Batch, finals: Mapping[str, int | None] | None = None) -> list[Batch]:
        """Take what arrived at this node; return what its detectors publish, in sequence.

        ``batch.watermarks`` holds all watermarks from outside: a raw type that is missing is open. More than one batch comes
        out only where results are withdrawn and published again (full retraction).

        ``finals``: in a replay, ``final`` of each named unit after this step; the other units keep theirs. So a replayed
        step admits the same events, even if alpha, K or the batches of watermarks have changed. None for a unit: it was not
        there then, so it is as in life, and waits for nothing: all that has come is to reach the units above, whose final is
        known, before they get there.
        """
        self._outside = batch.watermarks
        is_partial = batch.is_partial and finals is None and not self._stopped
        former, self._lagging = self.clock if self._lagging else None, is_partial
        if batch.clock is not None:
            self.clock = batch.clock if self.clock is None else max(self.clock, batch.clock)
        arrived: list[Parts] = [{name: [delta] for name, delta in batch.deltas.items()}]
        published: list[Parts] = []
        came, news = set(batch.deltas), list(batch.deltas)
        moved: dict[str, int] = {}
        halted: dict[str, str] = {}  # by type, why no more events of it come
        clock, is_usual = self.clock, finals is None and batch.floor is None and not self._faults
        for entry in self._concerned(news) if is_partial else self._entries:
            unit, resumed = entry.unit, None
            if former is not None:
                unit.catch_up(former)
            if is_usual and came.isdisjoint(entry.reads) and unit.is_idle and not (halted and self._why(entry, halted)):
                unit.pass_time(clock, *self._promised_to(entry))  # all that most units are given in most steps
            else:
                resumed = unit.resume(batch.floor) if batch.floor is not None and unit.final == END else None
                withdrawn = (resumed or []) + self._halt(entry, halted)
                names = _add(withdrawn + self._step(entry, arrived, finals), arrived, published)
                came |= names
                news += names
                if unit.halted is not None:
                    halted |= dict.fromkeys(entry.publishes, f"{unit.name} has stopped: {last_line(unit.halted)}")
                    news += entry.publishes
            if (final := unit.timeline.final) != entry.final or resumed is not None:
                self._advance(entry, final, resumed is not None, moved)
        if not is_partial:
            self._visited = self._entries
        out = self._published(published, moved)
        if len(halted) > self._stopped:
            self._stopped = len(halted)
            promised = out[-1].watermarks if out else {}
            if out:
                out[-1].watermarks = {}  # no watermark goes out before readers know of the halt
            out.append(Batch({}, promised, self.clock, sorted(halted)))
        return out

    def _concerned(self, news: list[str]) -> Iterator[UnitEntry]:
        """The units that read any of these types, lowest level first; the owner may add types. O(units concerned)."""
        for place in self._readers.of(news):
            entry = self._entries[place]
            if self._visited is not self._entries:
                self._visited.append(entry)
            yield entry

    def set_aside(self, faults: Mapping[str, str]) -> list[Batch]:
        """Stop units for these reasons, by name, and drop their state; returns what is published of that."""
        self._faults = dict(faults)
        return self.process(Batch({}, self._outside))

    def halt(self, names: Collection[str]) -> list[Delta]:
        """Halt these units, as they had halted in the step about to be replayed; returns the retractions of their results."""
        why = "it had stopped before this node was started again"
        self._visited = self._entries
        units = [entry.unit for entry in self._entries if entry.unit.name in names and entry.unit.halted is None]
        return [delta for unit in units for delta in unit.halt(why)]

    def _halt(self, entry: UnitEntry, halted: Mapping[str, str]) -> list[Delta]:
        """Halt a unit that is to be set aside, or one that reads a type that has halted: results from an input with missing
        events would stay wrong for ever."""
        if (fault := self._faults.pop(entry.unit.name, None)) is not None:
            return entry.unit.set_aside(fault)
        why = self._why(entry, halted) if halted else None
        return entry.unit.halt(why) if why is not None and entry.unit.halted is None else []

    @staticmethod
    def _why(entry: UnitEntry, halted: Mapping[str, str]) -> str | None:
        return next((halted[name] for name in entry.reads if name in halted), None)

    @property
    def halted(self) -> dict[str, str]:
        """The reason for each halted unit, by name: the traceback of its operator, or the name of what halted below it."""
        return {entry.unit.name: entry.unit.halted for entry in self._entries if entry.unit.halted is not None}

    @property
    def halted_at(self) -> dict[str, int]:
        """The watermark of each halted unit, by name."""
        return {entry.unit.name: entry.unit.watermark for entry in self._entries if entry.unit.halted is not None}

    def _step(self, entry: UnitEntry, arrived: list[Parts], finals: Mapping[str, int | None] | None) -> list[Delta]:
        """Run one unit, round by round, so that retractions come before the results that are published again."""
        unit = entry.unit
        rounds = ([d for t in entry.reads for d in r.get(t, ())] for r in arrived)
        inputs = [in_order(parts, unit.min_rows_for_columns) for parts in rounds if parts]
        outputs: list[Delta] = []
        for delta in inputs[:-1]:
            outputs += unit.push(delta, promised=NEVER, is_open=False, more=True)
        last = inputs[-1] if inputs else _NOTHING
        if finals is None:
            return outputs + unit.push(last, self.clock, *self._promised_to(entry))
        if (final := finals.get(unit.name, unit.final)) is not None:
            return outputs + unit.push(last, self.clock, final, False)
        alpha, unit.alpha = unit.alpha, 0.0
        outputs += unit.push(last, self.clock, *self._promised_to(entry))
        unit.alpha = alpha
        return outputs

    def _promised_to(self, entry: UnitEntry) -> tuple[int, bool]:
        """The smallest watermark of the types a unit reads (END if there is none), and whether any of them is open."""
        reads = entry.reads
        if entry.local:  # nearly all, where a node runs a whole hierarchy
            watermarks = self._watermarks
            return watermarks[reads[0]] if len(reads) == 1 else min(map(watermarks.__getitem__, reads)), False
        if len(reads) == 1:
            promise = self._promise(reads[0])
            return (END, True) if promise is None else (promise, False)
        promises = [self._promise(name) for name in reads]
        is_open = None in promises
        return min((promise for promise in promises if promise is not None), default=END), is_open

    def _promise(self, name: str) -> int | None:
        """Watermark of the stream of a type as this node sees it; None for a raw type that is open."""
        own = self._watermarks.get(name)
        if own is not None and name not in self._away:
            return own
        promise = self._outside.get(name, NEVER if name in self._derived else None)
        return promise if own is None else min(own, NEVER if promise is None else promise)

    def _advance(self, entry: UnitEntry, final: int, resumed: bool, moved: dict[str, int]) -> None:
        """A unit's ``final`` has moved, or it resumed after its end: note the new watermarks of its types in ``moved``."""
        watermarks, promised, lowest = self._watermarks, self._promised, entry.unit.watermark_at(final)
        entry.final = final
        for name in entry.publishes:
            own = lowest
            if len(units := self._publishers[name]) > 1:
                own = min([each.watermark for each in units])
            watermarks[name] = own
            if own > promised[name] or resumed:
                promised[name] = moved[name] = own

    def _published(self, rounds: list[Parts], moved: dict[str, int]) -> list[Batch]:
        """The batches that leave the node; the last one has all new watermarks."""
        batches = [Batch({name: combined(deltas) for name, deltas in parts.items()}, {}, self.clock) for parts in rounds]
        if moved and not batches:
            batches.append(Batch({}, {}, self.clock))
        if moved:
            batches[-1].watermarks = moved
        if END in moved.values():
            batches[-1].reached = self.reached
        return batches

    def adapt(self, busy: float, subscribed: Collection[str] | None = None, behind: float = 0.0, work: float = 0.0) -> None:
        """Adapt the units' alphas to the node's busy factor of the last interval (every ``alpha.INTERVAL``).

        ``subscribed`` are the types with subscribers other than this node's detectors (None: all that are published);
        ``behind``: the share of the interval in which the node could not take all that had come; ``work``: what ``process``
        took in it, ns (looked at if there is a timer: else units count calls).
        """
        self.price()
        if self.adaptation is Adaptation.EACH:
            for entry in self._entries:
                entry.adaptation = entry.adaptation.adapted(busy)
                entry.unit.alpha = entry.adaptation.alpha
        elif self.adaptation is not Adaptation.NONE:
            loads, units = self._loads(self.publications if subscribed is None else frozenset(subscribed))
            alphas = self.budget.adapt(busy, loads, units, behind, work if self._is_timed else 0.0)
            for entry in self._entries:
                entry.unit.alpha = alphas[entry.unit.name]

    def _loads(self, subscribed: frozenset[str]) -> tuple[list[Load], frozenset[str]]:
        """The units' loads since the last call, and the names of those that subscribed results depend on. O(units * types)."""
        results: dict[str, float] = {}
        needed: set[str] = set()
        by_type: dict[str, float] = {}
        reached: set[str] = set()
        loads = []
        for entry in reversed(self._entries):
            unit, published = entry.unit, entry.unit.published
            own = published - entry.results if subscribed & set(entry.publishes) else 0
            name = unit.name
            results[name] = own + max((by_type.get(each, 0.0) for each in entry.publishes), default=0.0)
            if subscribed & set(entry.publishes) or reached & set(entry.publishes):
                needed.add(name)
                reached.update(entry.reads)
            for each in entry.reads:
                by_type[each] = by_type.get(each, 0.0) + results[name]
            spent, worked = unit.costs.correction, unit.costs.total
            loads.append(Load(name, unit.clock.k, spent - entry.spent, results[name], worked - entry.worked))
            entry.spent, entry.worked, entry.results = spent, worked, published
        return loads, frozenset(needed)

    def price(self) -> None:
        """Tell each unit what a change of its results costs its readers on this node, all the way up. O(units * types)."""
        by_type: dict[str, float] = {}
        for entry in reversed(self._entries):
            unit = entry.unit
            unit.costs.downstream = unit.costs.sending + max((by_type.get(each, 0.0) for each in entry.publishes), default=0.0)
            if unit.received:
                own = unit.costs.total / unit.received + unit.published / unit.received * unit.costs.downstream
                for each in entry.reads:
                    by_type[each] = by_type.get(each, 0.0) + own

    def inputs(self, unit: Unit) -> dict[str, int | None]:
        """The watermark of each input of a unit of this node, by type; None where the input is open."""
        entry = next(each for each in self._entries if each.unit is unit)
        return {name: self._promise(name) for name in entry.reads}

    def provisional(self) -> list[Event]:
        """The results of all units that are provisional, subscribed or not. O(what is kept)."""
        return [event for entry in self._entries for event in entry.unit.provisional()]

    def finals(self) -> dict[str, int]:
        """``final`` of each unit: what it derived from events at or below that time never changes again."""
        return {entry.unit.name: entry.unit.final for entry in self._entries}

    @property
    def reached(self) -> int:
        """The latest ``reached`` of the units whose input has ended; NEVER if there are none. O(units)."""
        return max((entry.unit.reached for entry in self._entries if entry.unit.final == END), default=NEVER)

    @property
    def promised(self) -> dict[str, int]:
        """The watermark of each type published here."""
        return self._promised

    def promised_without(self, names: Collection[str]) -> dict[str, int]:
        """Return the watermarks without these units; NEVER for types that only they publish."""
        promised = dict(self._promised)
        for name, units in self._publishers.items():
            if any(unit.name in names for unit in units):
                promised[name] = min((unit.watermark for unit in units if unit.name not in names), default=NEVER)
        return promised

    @property
    def code(self) -> dict[str, Any]:
        """The code that the units run: stored state depends on it."""
        return {entry.unit.name: (*code_of(entry.unit.detector), _definition(entry.unit)) for entry in self._entries}

    @property
    def code_identities(self) -> dict[str, str]:
        """The code of each unit in words, as the log notes it."""
        units = (entry.unit for entry in self._entries)
        return {unit.name: code_identity(unit.detector, self._settings.get(unit.name, {})) for unit in units}

    def state(self) -> dict[str, Any]:
        """All that the units need to resume in another process, except keyed lanes: those come from ``parts``, as they are
        now. See ``Unit.state``. Raises UnsavedError if some of them have no state that is worth saving."""
        units, faults = dict[str, Any](), dict[str, str]()
        for entry in self._entries:
            try:
                units[entry.unit.name] = entry.unit.state(), astuple(entry.adaptation)
            except ENDING:
                raise
            except BaseException as error:
                faults[entry.unit.name] = f"{type(error).__name__}: {error}"
        if faults:
            raise UnsavedError(faults)
        backdates = {entry.unit.name: backdate_of(entry.unit.detector) for entry in self._entries}
        return {
            "units": units,
            "code": self.code,
            "backdates": backdates,
            "settings": {name: dict(self._settings[name]) for name in backdates if name in self._settings},
            "clock": self.clock,
            "promised": dict(self._promised),
        }

    def parts(self, count: int) -> dict[str, list[KeyedLane]]:
        """The next keyed lanes by unit, at most ``count`` in all, as they were at the call of ``state``; empty at the end."""
        parts = {}
        for entry in self._entries:
            if part := entry.unit.part(count):
                parts[entry.unit.name] = part
                count -= len(part)
        return parts

    def restore(self, state: Mapping[str, Any], parts: Iterable[Mapping[str, list[KeyedLane]]]) -> None:
        """Become the hierarchy that gave ``state`` and these ``parts``: the detectors resume where they were.

        A detector of another version migrates its state. Raises DetectorError if it cannot, if a detector is new (it would
        start in the middle), if its event types have changed, or if one with stored state is gone: no state is dropped unasked;
        or if its ``backdate`` has changed, by which it has promised what is final; or, of the same version, its settings.
        """
        self._check_names(state["units"].keys())
        self._check_backdates(state["backdates"])
        self._check_settings(state["settings"], state["code"])
        self.clock = state["clock"]
        units = {entry.unit.name: entry.unit for entry in self._entries}
        versions = {name: _checked(unit, *state["code"][name]) for name, unit in units.items()}
        for entry in self._entries:
            unit = entry.unit
            kept, adaptation = state["units"][unit.name]
            with _taking_up(unit, versions[unit.name]) as version:
                unit.restore(kept, version)
            entry.adaptation = Alpha(*adaptation)
            if self.adaptation is Adaptation.NONE:  # alpha is the one configured now
                unit.alpha = unit.policies.initial_alpha
        for part in parts:
            for name, lanes in part.items():
                with _taking_up(units[name], versions[name]) as version:
                    units[name].restore_part(lanes, version)
        self._stopped = len({name for entry in self._entries if entry.unit.halted is not None for name in entry.publishes})
        self._promised |= {name: until for name, until in state["promised"].items() if name in self._promised}
        self._watermarks = {name: min(unit.watermark for unit in own) for name, own in self._publishers.items()}

    def _check_names(self, stored: Collection[str]) -> None:
        present = {entry.unit.name for entry in self._entries}
        if gone := sorted(set(stored) - present):
            raise DetectorError(
                f"the stored state has detectors that do not run here any more: {', '.join(gone)}; "
                "put them back, or start the node with --rebuild to do without them"
            )
        if new := sorted(present - set(stored)):
            raise DetectorError(
                f"detectors are new here: {', '.join(new)}; they would begin in the middle, and what they make of it be final: "
                "start the node with --rebuild to run all detectors over the whole log again, or, if the log does not reach "
                "back to its beginning, in a new state folder"
            )

    def _check_backdates(self, stored: Mapping[str, int]) -> None:
        for entry in self._entries:
            name, backdate = entry.unit.name, backdate_of(entry.unit.detector)
            if stored.get(name, backdate) != backdate:
                raise DetectorError(
                    f"{name}.backdate was {stored[name]} ns when its state was stored, and is {backdate}: what is final was "
                    "promised by it; put it back, give the detector another name, or start the node in a new state folder"
                )

    def _check_settings(self, stored: Mapping[str, Mapping[str, str]], code: Mapping[str, Any]) -> None:
        for entry in self._entries:
            name, detector = entry.unit.name, entry.unit.detector
            before, now = stored.get(name), self._settings.get(name)
            if before is None or now is None:
                continue
            changed = [key for key in sorted({**before, **now}) if before.get(key) != now.get(key)]
            entry.unit.changed_settings = frozenset(changed)
            in_state = [key for key in changed if not is_unchanging(detector, key)]
            if in_state and code[name][0] == detector.version:
                was, present = written(before) or "none", written(now) or "none"
                raise DetectorError(
                    f"settings.{name} were {was} when its state was stored, and are {present} now: that state came of the "
                    f"former. Put them back; or name {', '.join(in_state)} in unchanging, if the detector only reads an "
                    "attribute of that name; or raise its version and give it migrate(state, version); or start the node with "
                    "--rebuild"
                )

    def take_listed(self) -> list[LedgerEntries]:
        """The events that units have listed since the last call, late and failed ones. O(units that took a step since)."""
        visited, self._visited = self._visited, []
        return [listed for entry in visited if (listed := entry.unit.take_listed()) is not None]

    def statistics(self) -> list[UnitStatistics]:
        """The statistics of each unit so far."""
        return [entry.unit.statistics() for entry in self._entries]


def _add(deltas: list[Delta], arrived: list[Parts], published: list[Parts]) -> set[str]:
    """Add what a unit gave, round by round, to what came and to what goes out; returns the types."""
    names: set[str] = set()
    for index, delta in enumerate(deltas):
        # a keyed unit gives its results key by key: without sorting, simultaneous ones look late to the unit above
        parts = by_time(delta).by_type()
        names |= parts.keys()
        for rounds in (arrived, published):
            rounds += [{} for _ in range(index + 1 - len(rounds))]
            for name, part in parts.items():
                rounds[index].setdefault(name, []).append(part)
    return names


def _definition(unit: Unit) -> str:
    """The function of a unit, as far as that can be seen from outside."""
    detector = unit.detector
    if isinstance(detector, Operator):
        return detector.definition
    return f"keyed by {described(type(detector).key)}{', on columns' if takes_batches(type(detector)) else ''}"


@contextmanager
def _taking_up(unit: Unit, version: int) -> Iterator[int | None]:
    """A context in which a unit restores stored state; gives the version of the detector that stored it, if it differs."""
    try:
        yield version if version != unit.detector.version else None
    except SlacklineError:
        raise
    except ENDING:
        raise
    except BaseException as error:
        if isinstance(unit.detector, Operator):
            raise DetectorError(
                f"{unit.name} cannot take up its stored state, which is in another form ({error!r}): another release stored "
                "it; start the node with --rebuild to run it over the log again"
            ) from error
        raise DetectorError(
            f"{unit.name}, of version {unit.detector.version}, cannot take up its stored state of version {version}: "
            f"{error!r}; raise its version and give it migrate(self, state, version), or start the node with --rebuild "
            "to run it over the log again"
        ) from error


def _checked(unit: Unit, version: int, schema: str, definition: str) -> int:
    """The version of the detector that stored a state. Raises DetectorError if the present one cannot resume from it."""
    _, fields = code_of(unit.detector)
    if schema != fields:
        raise DetectorError(
            f"events that {unit.name} reads or publishes have changed since its state was stored: were {schema}; "
            f"are {fields}; give changed events new names"
        )
    if definition != _definition(unit):
        raise DetectorError(
            f"{unit.name} computes something else since its state was stored: was {definition}; is {_definition(unit)}; "
            "start the node with --rebuild to run it over the whole log, or give it another name"
        )
    return version


def _policy(policies: Policies | Mapping[str, Policies] | None, name: str) -> Policies | None:
    if policies is None or isinstance(policies, Policies):
        return policies
    return policies.get(name, policies.get(""))
