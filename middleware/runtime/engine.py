"""A whole scenario in one process, without sockets or Spark: for tests, notebooks and debugging."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from numbers import Integral
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

import msgspec
from msgspec.structs import replace

from middleware.broker.ingress.seen import SeenIds
from middleware.model.change import Batch, Delta, grouped
from middleware.model.detector import Detector
from middleware.model.errors import DetectorError, LateEventError, RunError
from middleware.model.event import END, IDENTITY, ORDER, Event, EventType, Identity, check_one_class_a_name, type_name
from middleware.model.identity import clashing, named, published_types
from middleware.model.operator import Operator
from middleware.model.quantities import format_duration
from middleware.model.words import shown
from middleware.native import span
from middleware.ordering.alpha.costs import Timer
from middleware.ordering.hierarchy import Adaptation, Hierarchy
from middleware.ordering.lanes.retraction import SKIPPED
from middleware.ordering.policies import BUFFERING, Policies
from middleware.ordering.records import Late, LateSummary, UnitStatistics
from middleware.ordering.unit import Unit
from middleware.provenance.known_past import NodeStep, Past
from middleware.provenance.why import Why, explain
from middleware.runtime.failures import DetectorFailedError, Failure, failure_of
from middleware.runtime.local.arrivals import Arrivals, ArrivedColumns, ArrivedEvents
from middleware.runtime.local.final_results import FinalResults
from middleware.runtime.local.in_order import run_in_order, take_single_events
from middleware.runtime.local.intake import prepare_events
from middleware.runtime.local.showing import drawing, frame, page, results_of, table

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from matplotlib.axes import Axes

Result = TypeVar("Result", bound=Event)

_PRICE_EVERY = 64
"""After this many batches, units learn again what changes of their results cost readers."""


_IN_ORDER = 16_384
"""Events of a step where all arrive in order: a step costs as much as some hundreds of them."""

_NONE_PROMISED: Mapping[str, int] = MappingProxyType({})

_NAMED = 3
"""The number of detectors that the ``repr`` of a run names."""


class Run(msgspec.Struct, dict=True):  # the dict is for what ``why`` needs, which is no part of the result
    """The result of a run.

    ``finals``
        final results by detector name, in total order: lists of events, or ``Block``, where operators over tables give
        columns, which make their events when they are looked at.
    ``late``
        by detector name, the ledger of events that came beyond the allowed lateness and were skipped.
    ``duplicates``
        how many arrivals repeated an earlier (source, id); ``clashes``: how many of those had another content, so that an event
        was skipped.
    ``published``, ``corrected``
        results published early, and how many of those publications were revised or withdrawn later: none where all arrived in
        order, so that all is final as it comes.
    ``failures``
        by detector name, the events at which it failed, and which it was run without; empty unless ``failing="skip"``.
    ``halted``
        by detector that stopped, the reason: its finals are right, but none is later than the time at which it stopped.
    ``broken``, ``lost_cells``
        the number of rows of files or tables that do not fit, and were skipped (``broken="skip"``); and of cells that could not
        be read, of fields that may be missing, and are None.
    ``rejected``
        events of types that detectors of the run derive: only detectors make these, as on nodes, so they were skipped.
    """

    finals: dict[str, Sequence[Any]]  # no type checker knows of what class they are by a detector's name: see ``of``
    late: dict[str, list[Late]]
    statistics: list[UnitStatistics]
    events: int = 0
    duplicates: int = 0
    published: int = 0
    corrected: int = 0
    failures: dict[str, list[Failure]] = {}
    halted: dict[str, str] = {}
    clashes: int = 0
    rejected: list[Event] = []
    broken: int = 0
    lost_cells: int = 0

    def __repr__(self) -> str:
        finals = {name: len(events) for name, events in self.finals.items()}
        parts = [f"{self.events:,} events", f"{sum(finals.values()):,} finals{_counted(finals)}"]
        skipped = {
            "late": {name: len(ledger) for name, ledger in self.late.items()},
            "failures": {name: len(failures) for name, failures in self.failures.items()},
        }
        parts += [
            f"{sum(counts.values()):,} {what}{_counted(counts)}" for what, counts in skipped.items() if any(counts.values())
        ]
        parts += [f"{self.duplicates - self.clashes:,} repeats"] * (self.duplicates > self.clashes)
        parts += [f"{self.clashes:,} skipped: source and id of others"] * bool(self.clashes)
        if self.rejected:
            names = Counter(type_name(event.__class__) for event in self.rejected)
            parts.append(f"{len(self.rejected):,} rejected, as detectors derive their type{_counted(names)}")
        parts += [f"{self.broken:,} broken rows skipped"] * bool(self.broken)
        parts += [f"{self.lost_cells:,} cells lost"] * bool(self.lost_cells)
        parts += [f"{name} stopped" for name in self.halted]
        return f"<Run: {'; '.join(parts)}>"

    def _repr_html_(self) -> str:
        """The display in a notebook: the results of each detector, and their distribution over time."""
        late = {name: len(ledger) for name, ledger in self.late.items()}
        skipped = {name: late.get(name, 0) + len(self.failures.get(name, ())) for name in self.finals}
        return page(repr(self)[1:-1], self.finals, skipped)

    def of(self, event_type: type[Result]) -> list[Result]:
        """Final results of one type, of all detectors that publish it, in total order; empty if there are none. O(results)."""
        return list(cast("Sequence[Result]", results_of(self.finals, event_type)[0]))

    def table(self, of: str | type[Event]) -> pyarrow.Table:
        """Final results in total order as a pyarrow.Table: their fields, then ts, id and source. O(results).

        ``ts`` is a timestamp (UTC, ns) where the event time of the run is Unix time, else a whole number of ns, as events have
        it; ``run`` and publishers read both back without loss. ``of``: an event type, its name or the last part of it ("Pass"
        for soccer.Pass), or the name of a detector. Raises EventError if it is none of these, SlacklineError without pyarrow
        (extra ``tables``).
        """
        arrived: Arrivals | None = self.__dict__.get("_arrived")
        return table(self.finals, of, self.__dict__.get("_published"), arrived is not None and arrived.is_wall_clock())

    @overload
    def frame(self, of: str | type[Event]) -> pandas.DataFrame: ...
    @overload
    def frame(self, of: str | type[Event], library: Literal["pandas"]) -> pandas.DataFrame: ...
    @overload
    def frame(self, of: str | type[Event], library: Literal["polars"]) -> polars.DataFrame: ...
    def frame(self, of: str | type[Event], library: Literal["pandas", "polars"] = "pandas") -> Any:
        """Final results as a frame of pandas or polars: the columns of ``table``.

        Raises EventError like ``table``, and SlacklineError if the library is not installed.
        """
        return frame(self.table(of), library)

    def plot(self) -> Axes:
        """Draw each detector's results over time; returns the axes. SlacklineError without matplotlib (extra ``evaluate``)."""
        return drawing(self.finals)

    def why(self, event: Event) -> Why:
        """Why a result came: its causes, down to raw events, and each correction with the late events that led to it.

        ``print(result.why(event))`` tells it in words. The first question about a type repeats the run, so that a run that
        is never asked costs nothing; its events and detectors must not have changed since.
        """
        again: Callable[[type[Event]], Past] | None = getattr(self, "_again", None)
        if again is None:
            raise RunError("why: only the result of run(...) can be asked, and only in the process that ran it")
        pasts: dict[type[Event], Past] = self.__dict__.setdefault("_pasts", {})
        if not isinstance(event, Event):
            raise RunError(f"why: ask about an event of the result, such as result.finals[name][0], not about {shown(event)}")
        if event.__class__ not in pasts:
            pasts.clear()  # keep one only: each may be as large as the recording
            pasts[event.__class__] = again(event.__class__)
        return explain(event, pasts[event.__class__], self.late_identities())

    def check_nothing_late(self) -> None:
        """Raise LateEventError if events were skipped as late: then the finals are those of the other events only.

        A test of a detector calls it after ``run``, whose warning it would not see.
        """
        if summary := LateSummary.of(self.late):
            raise LateEventError(late_message(summary))

    def late_identities(self) -> dict[str, set[Identity]]:
        """The ledgers as the oracle takes them: by detector, the identities of the raw events that came too late."""
        return {name: {IDENTITY(entry.event) for entry in ledger} for name, ledger in self.late.items()}


def late_message(summary: LateSummary) -> str:
    """The text on events that a run skipped as late, and what to do about it."""
    return (
        f"{summary}; result.late has them. A lateness of {format_duration(summary.lateness)} takes all: "
        f"run(..., policies=Policies(lateness=Lateness(floor={summary.lateness:_})))"
    )


def run(
    events: Iterable[Event] | ArrivedColumns,
    detectors: Iterable[Detector] | Mapping[str, Detector],
    *,
    policies: Policies | Mapping[str, Policies] | None = None,
    batch: int = 256,
    watch: Callable[[Batch], None] | None = None,
    timer: Timer | None = None,
    failing: Literal["raise", "skip"] = "raise",
) -> Run:
    """``slackline.run`` for events: see there. Raises EventError, DetectorError, DetectorFailedError."""
    by_name = named(detectors)
    known = [kind for detector in by_name.values() for kind in (*detector.subscribes, *detector.publishes)]
    if isinstance(events, ArrivedColumns):
        arrived: Arrivals = events
        check_one_class_a_name((*known, *events.types))
    else:
        arrived = ArrivedEvents(prepare_events(events, known))
    result = _run(arrived, by_name, policies, batch, watch, timer, failing)

    def again(result_type: type[Event]) -> Past:
        return recorded(result_type, arrived.events(), by_name, policies=policies, batch=batch, timer=timer)[0]

    result.__dict__.update(
        _again=again, _arrived=arrived, _published={name: detector.publishes for name, detector in by_name.items()}
    )
    return result


def recorded(
    result_type: type[Event],
    events: list[Event],
    detectors: Mapping[str, Detector],
    *,
    policies: Policies | Mapping[str, Policies] | None = None,
    batch: int = 256,
    timer: Timer | None = None,
) -> tuple[Past, Run]:
    """Run again, and record all that ``explain`` needs for results of one type."""
    past, steps = Past(result_type, detectors), count(1)

    def note(arrived: list[Event], published: list[Batch]) -> None:
        deltas = [delta for one in published for delta in one.deltas.values()]
        past.take([NodeStep(next(steps), [Delta(arrived)], deltas)])

    return past, _run(ArrivedEvents(events), detectors, policies, batch, None, timer, "skip", note)


def _run(
    arrived: Arrivals,
    detectors: Mapping[str, Detector],
    policies: Policies | Mapping[str, Policies] | None,
    batch: int,
    watch: Callable[[Batch], None] | None,
    timer: Timer | None,
    failing: Literal["raise", "skip"],
    step: Callable[[list[Event], list[Batch]], None] | None = None,
) -> Run:
    """See ``run``; ``step`` is called with what arrived in each step (none of columns), and what was published then."""
    if not isinstance(batch, Integral) or batch < 1:
        raise ValueError(f"batch={batch!r}: say how many events arrive at once, at least 1")
    if not (watch is None or callable(watch)):
        raise ValueError(f"watch={watch!r}: give a function, which is called with each batch of changes")
    if failing not in ("raise", "skip"):
        raise ValueError(f'failing must be "raise" or "skip", not {failing!r}')
    _check_policies(policies)
    arrived, rejected = _accepted(arrived, published_types(detectors))
    stepper = Stepper(detectors, policies, timer)
    result = None
    if watch is None and timer is None and step is None:  # these ask for steps, or what they cost
        result = _in_order(arrived, detectors, stepper.hierarchy.units)
    if result is None:
        result = _in_steps(stepper, arrived, batch, watch, failing, step)
    result.rejected = rejected
    return result


def _accepted(arrived: Arrivals, derived: frozenset[EventType]) -> tuple[Arrivals, list[Event]]:
    """The events of types that only come from outside, and the others, which are rejected: only detectors make these."""
    if derived.isdisjoint(arrived.types):
        return arrived, []
    rows = arrived.events()
    accepted = ArrivedEvents([each for each in rows if each.__class__ not in derived])
    return accepted, [each for each in rows if each.__class__ in derived]


def _in_order(arrived: Arrivals, detectors: Mapping[str, Detector], units: list[Unit]) -> Run | None:
    """Run events that arrive in order: each step ends with a time, and all up to it is final, so units keep no history.

    None if some arrive out of order, or a detector fails: to leave an event out, one must go back. ``units``: new ones, which
    have the policies that were asked for.
    """
    ordered = arrived.in_total_order()
    if ordered is None or (ordered[1] and not all(unit.lateness for unit in units)):
        return None  # without lateness, the second of one time is late if it comes in another batch
    if len(arrived) and take_single_events(units):
        return _at_once(ordered[0], units, len(arrived))
    final_as_it_comes = {unit.name: replace(unit.policies, alpha=BUFFERING, failing="stop") for unit in units}
    stepper = Stepper(detectors, final_as_it_comes)
    hierarchy = stepper.hierarchy
    for unit, asked in zip(hierarchy.units, units, strict=True):
        unit.alpha = asked.alpha
    try:
        for deltas, newest in ordered[0].steps(_IN_ORDER):
            stepper.give(deltas, newest, dict.fromkeys(hierarchy.subscriptions, newest))
            _raise_failure(hierarchy)
        stepper.end()
        _raise_failure(hierarchy)
        for unit in hierarchy.units:
            unit.check_state()
    except DetectorError:  # in the steps that were asked for, it may fail elsewhere, or skip an event
        return None
    return stepper.run()


def _at_once(arrived: Arrivals, units: list[Unit], count: int) -> Run | None:
    """Run detectors that take event after event over all events, level by level."""
    found = run_in_order(arrived, units)
    if found is None:
        return None
    published = sum(map(len, found.finals.values()))
    return Run(dict(found.finals), {name: [] for name in found.finals}, found.statistics, count, published=published)


def _in_steps(
    stepper: Stepper,
    arrivals: Arrivals,
    batch: int,
    watch: Callable[[Batch], None] | None = None,
    failing: Literal["raise", "skip"] = "raise",
    step: Callable[[list[Event], list[Batch]], None] | None = None,
) -> Run:
    hierarchy = stepper.hierarchy
    for number, (arrived, published) in enumerate(stepper.steps(arrivals, batch), 1):
        _report(arrived, published, watch, step)
        if failing == "raise":
            _raise_failure(hierarchy)
        if number % _PRICE_EVERY == 0:
            hierarchy.price()
    _report([], stepper.end(), watch, step)
    if failing == "raise":
        _raise_failure(hierarchy)
    result = stepper.run()
    if result.duplicates:
        result.clashes = len(clashing(arrivals.events()))
    return result


def _report(
    fresh: list[Event],
    published: list[Batch],
    watch: Callable[[Batch], None] | None,
    step: Callable[[list[Event], list[Batch]], None] | None,
) -> None:
    if watch is not None:
        for batch in published:
            watch(batch)
    if step is not None:
        step(fresh, published)


class Stepper:
    """A run, step by step, for those who do something between two steps: ``take`` what arrives, at last ``end``, then ``run``.

    ``hierarchy``, ``seen``: its units, and the identities that have come. Its events are of no type that the detectors derive.
    Raises DetectorError.
    """

    def __init__(
        self,
        detectors: Mapping[str, Detector],
        policies: Policies | Mapping[str, Policies] | None = None,
        timer: Timer | None = None,
        adaptation: Adaptation = Adaptation.NONE,
    ) -> None:
        policies = policies if policies is not None else Policies(alpha=0.0)
        self.hierarchy = Hierarchy(detectors, None, policies, adaptation, timer, resumes=False)
        names = [unit.name for unit in self.hierarchy.units]
        if isinstance(policies, Mapping) and (stray := sorted(policies.keys() - {"", *names})):
            raise DetectorError(f"policies are given for {', '.join(stray)}: there is no such detector")
        self.seen = SeenIds()
        units = self.hierarchy.units
        self._finals = FinalResults({unit.name: list(map(type_name, unit.detector.publishes)) for unit in units})
        self._run = Run({}, {}, [])

    def steps(self, arrivals: Arrivals, size: int) -> Iterator[tuple[list[Event], list[Batch]]]:
        """Take all that arrives, so many at a time, as ``take`` does; columns have no repeats, and are not given as events."""
        if isinstance(arrivals, ArrivedColumns):
            for deltas, newest in arrivals.batches(size):
                yield [], self.give(deltas, newest)
            return
        events = arrivals.events()
        for at in range(0, len(events), size):
            yield self.take(events[at : at + size])

    def take(self, arrived: list[Event]) -> tuple[list[Event], list[Batch]]:
        """Take what arrives at once; returns what of it is no repeat, and what is published."""
        fresh = self.seen.take_new(list(arrived))
        self._run.duplicates += len(arrived) - len(fresh)
        return fresh, self.give(grouped(fresh), span(fresh)[1] if fresh else None)

    def give(self, deltas: dict[str, Delta], newest: int | None, watermarks: Mapping[str, int] = _NONE_PROMISED) -> list[Batch]:
        """Take what arrives at once and is no repeat: its latest time is ``newest``. Returns what is published."""
        self._run.events += sum(map(len, deltas.values()))
        return self._delivered(Batch(deltas, dict(watermarks), newest))

    def end(self) -> list[Batch]:
        """All streams end; returns what is published then."""
        return self._delivered(Batch({}, dict.fromkeys(self.hierarchy.subscriptions, END)))

    def run(self) -> Run:
        """The result, once it has ended."""
        result, units, finals = self._run, self.hierarchy.units, self._finals
        if finals.violations:
            raise AssertionError(f"final results were changed, which must never happen: {finals.violations} of them")
        result.finals = {unit.name: finals.of(unit.name) for unit in units}
        result.failures = {unit.name: _failures(unit) for unit in units if unit.quarantine}
        result.late = {unit.name: unit.late for unit in units}
        result.statistics = self.hierarchy.statistics()
        result.halted = self.hierarchy.halted
        return result

    def _delivered(self, batch: Batch) -> list[Batch]:
        published = self.hierarchy.process(batch)
        for each in published:
            for delta in each.deltas.values():
                self._run.published += delta.inserted
                self._run.corrected += len(delta.revises) + len(delta.retracts)
            self._finals.take(each)
        return published


def _check_policies(policies: object) -> None:
    each = policies.values() if isinstance(policies, Mapping) else () if policies is None else (policies,)
    if stray := [policy for policy in each if not isinstance(policy, Policies)]:
        raise DetectorError(f"policies are Policies(...), for all or by name of the detector, not {stray[0]!r}")


def _failures(unit: Unit) -> list[Failure]:
    """The events at which a detector failed for good, in total order."""
    failed = sorted(unit.quarantine, key=lambda each: ORDER(each.cause))
    return [failure_of(unit.name, unit.detector, each.cause, each.failure) for each in failed]


def _raise_failure(hierarchy: Hierarchy) -> None:
    """Raise the first failure, if there is one: at the lowest level, since others may follow from it."""
    for unit in hierarchy.units:
        if unit.halted is not None and not isinstance(unit.detector, Operator):
            raise DetectorError(unit.halted)
        if unit.quarantine:
            failures = _failures(unit)
            raise DetectorFailedError(next((each for each in failures if each.traceback != SKIPPED), failures[0]))
        if unit.halted is not None:
            raise DetectorError(f"{unit.name} raised, and nothing more comes of it\n\n{unit.halted}")


def _counted(counts: Mapping[str, int]) -> str:
    """Counts by detector, as many as fit on a short line."""
    some = [f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda item: -item[1])[:_NAMED] if count]
    rest = sum(map(bool, counts.values())) - len(some)
    return f" ({', '.join(some)}{f' and {rest} more' if rest else ''})" if some else ""
