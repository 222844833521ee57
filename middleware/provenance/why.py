"""Why a result came: the chain of causes down to raw events, and each correction with its late events. Pure.

The causes of a result are found by running its detector again, over ever fewer of its inputs, as long as they still give the
same result with the same content. So detectors need no support for this, and it costs nothing before a question is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from middleware.model.change import Insert, Retract, Revise
from middleware.model.detector import Detector, backdate_of, key_function
from middleware.model.errors import ENDING, DetectorError
from middleware.model.event import IDENTITY, ORDER, Event, Identity, derived_id, field_names, timed_id, type_name
from middleware.model.identity import origin_of
from middleware.model.quantities import spoken_duration, spoken_time
from middleware.model.values.state import alike
from middleware.provenance.known_past import Arrival, NodeStep, Past, ResultChange, about, changed
from middleware.provenance.rerun import Rerun, ResultOrigin
from middleware.provenance.smallest import smallest

BUDGET = 200_000
"""Detector calls that one question may cost, besides running them once over all events before the result."""

MOST_LISTED = 8
"""Causes of one result that are named one by one; if there are more, all but the trigger are summed up."""

_ORDINALS = 8
"""Results of one cause that are tried to find the key of a withdrawn result."""

_ANY = object()


class Bunch(msgspec.Struct):
    """Causes that are summed up: the number of events of a type, and their first and last time (ns)."""

    type: str
    count: int
    first: int
    last: int


class Cause(msgspec.Struct):
    """An event and its causes: ``of``, with the trigger first; ``more``, summed up.

    ``detector``
        that made it; empty for an event from outside. ``step``: the step in which that event came.
    ``exact``
        whether none of its causes can be omitted; else they are sufficient, but some may not be needed.
    """

    event: Event
    detector: str = ""
    of: list[Cause] = []
    more: list[Bunch] = []
    exact: bool = True
    step: NodeStep | None = None


class Why(msgspec.Struct):
    """The answer.

    ``event``
        the result, as published last. ``stands``: whether it follows from all that came.
    ``made_by``
        the code that published it last, in words, if the present code comes to something else; else empty. Finals from before
        the code changed stay as they were delivered. ``instead``: what the present code comes to; None if nothing.
    ``cause``
        its causes; None if it does not stand.
    ``raw``
        the raw events that it depends on in the end, in total order, as far as they are named.
    ``before``, ``after``
        attributes of its detector around the event that triggered it.
    ``notes``
        what is unknown, and why.
    """

    event: Event
    stands: bool
    history: list[ResultChange]
    made_by: str = ""
    instead: Event | None = None
    cause: Cause | None = None
    raw: list[Event] = []
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    notes: list[str] = []

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, state: bool = False) -> list[str]:
        """The answer for people, line by line. ``state``: with the detector's state before and after."""
        verdict = f"made by former code ({self.made_by})" if self.made_by else "stands" if self.stands else "does not stand"
        found = [about(self.event), f"  {verdict}; id {self.event.id} of {self.event.source}"]
        found += ["history:", *(f"  {line}" for moment in self.history for line in _of_moment(moment))] if self.history else []
        if self.cause is not None:
            found += ["rests on:", *_tree(self.cause, 1, set())]
        if state and (self.before or self.after):
            found += ["state of its detector, before -> after:", *(f"  {line}" for line in _changes(self.before, self.after))]
        return [*found, *self.notes]


def explain(event: Event, past: Past, late: Mapping[str, Collection[Identity]] | None = None) -> Why:
    """Why a result came, or went. ``late``: by detector, the raw events that it reported as late, and so skipped.

    O(n log n) for n raw events of the relevant types, up to the result, and at most about BUDGET detector calls.
    """
    slowest = sum(backdate_of(detector) for detector in past.detectors.values())
    rerun = Rerun(past.detectors, list(past.raw.values()), late or {}, event.ts + slowest, past.kept())
    return _Question(past, rerun).answer(event)


class _Question:
    """One question, with the findings on the way to its answer."""

    def __init__(self, past: Past, rerun: Rerun) -> None:
        self._past, self._rerun = past, rerun
        self._causes: dict[Identity, Cause] = {}
        self._raw: dict[Identity, Event] = {}

    def answer(self, event: Event) -> Why:
        made = self._rerun.made.get(IDENTITY(event))
        history = self._past.moments(IDENTITY(event))
        stands = made is not None and alike(made.event, event) and not (history and isinstance(history[-1].change, Retract))
        why = Why(event, stands, [self._with_reason(moment, index) for index, moment in enumerate(history)])
        why.notes += [f"{name} stopped when it was run again: {raised}" for name, raised in self._rerun.stopped.items()]
        if made is not None and stands:
            why.cause = self._cause(made.event)
            why.raw = sorted(self._raw.values(), key=ORDER)
            why.before, why.after = self._rerun.states(made)
        elif not history:
            why.notes.append("nothing like it follows from what is known, and it was never published")
        elif not isinstance(history[-1].change, Retract) and (former := self._former_code(history[-1].step)):
            why.made_by, why.instead = former, made.event if made is not None else None
            comes_to = f"comes to another content: {about(made.event)}" if made is not None else "makes no such result"
            why.notes.append(f"the present code {comes_to}; finals from before the change stay as they were delivered")
        elif not isinstance(history[-1].change, Retract):
            why.notes.append(
                "run again over what is known, its detector does not come to this: what came before is not kept any more, "
                "what it rests on has not all come, or its code has changed"
            )
        return why

    def _former_code(self, step: NodeStep) -> str:
        """The code that the detectors of the result ran in a step, in words: of those that run another now, as far as known."""
        now, then = self._past.code, step.code
        changed_since = [name for name in sorted(then.keys() & now.keys()) if then[name] != now[name]]
        return "; ".join(f"{name}: {then[name]}; now {now[name]}" for name in changed_since)

    # -- what it rests on ---------------------------------------------------------------------------------------------

    def _cause(self, event: Event) -> Cause:
        identity = IDENTITY(event)
        if identity in self._causes:
            return self._causes[identity]
        made = self._rerun.made.get(identity)
        if made is None:
            self._raw[identity] = event
            found = self._causes[identity] = Cause(event, step=self._past.arrival(identity))
            return found
        found = self._causes[identity] = Cause(event, made.detector)
        needed, found.exact = self._needed(made)
        listed = needed if len(needed) <= MOST_LISTED else [made.trigger] if made.trigger is not None else []
        if made.trigger is not None:
            listed = [made.trigger, *(each for each in listed if each is not made.trigger)]
        named = {IDENTITY(each) for each in listed}
        found.more = _bunches([each for each in needed if IDENTITY(each) not in named])
        found.of = [self._cause(each) for each in listed]
        return found

    def _needed(self, made: ResultOrigin) -> tuple[list[Event], bool]:
        """Inputs that are sufficient for the result, and whether none of them can be omitted."""
        rerun, inputs = self._rerun, made.inputs
        last = [made.trigger] if made.trigger is not None else []
        size, whole = 1, len(inputs)
        while size < whole and not (rerun.calls < BUDGET and rerun.holds(made, inputs[whole - size :])):
            size *= 2
        part = list(inputs[max(0, whole - size) :])
        others = part[: len(part) - len(last)]
        attempts = max(0, BUDGET - rerun.calls) // max(1, len(part))
        tried = 0

        def holds(some: list[Event]) -> bool:
            nonlocal tried
            tried += 1
            return rerun.holds(made, [*some, *last])

        if others and attempts and holds([]):
            return last, True
        kept = smallest(others, holds, attempts)
        return [*kept, *last], tried < attempts or not others

    # -- what corrected it --------------------------------------------------------------------------------------------

    def _with_reason(self, moment: ResultChange, index: int) -> ResultChange:
        """A moment with the late arrivals that caused it; the first moment has some only if it came late."""
        event, step = moment.change.event, moment.step
        if not index and event.ts >= step.clock:  # it came as soon as it could
            return moment
        found = {IDENTITY(each.event): each for each in self._late(event, step, set())}
        if not found and index:
            found = {IDENTITY(each.event): each for each in self._behind(event, step)}
        return ResultChange(moment.change, step, sorted(found.values(), key=lambda each: ORDER(each.event), reverse=True))

    def _late(self, event: Event, step: NodeStep, met: set[Identity]) -> Iterator[Arrival]:
        """Find the late arrivals below a result, through the changes of a step."""
        detector = self._past.detectors.get(event.source)
        if detector is None or IDENTITY(event) in met:
            return
        met.add(IDENTITY(event))
        key, own_key = key_function(detector), self._key_of(event, detector)
        latest = event.ts + backdate_of(detector)
        for each in changed(step):
            if each.__class__ not in detector.subscribes or each.ts > latest:
                continue
            if key is not None and own_key is not _ANY and _applied(key, each) != own_key:
                continue
            if each.__class__ not in self._past.roots:
                if (made_in := self._made_in(each, step)) is not None:
                    yield from self._late(each, made_in, met)
            elif each.ts < step.clock:
                yield Arrival(each, step.clock - each.ts)

    def _made_in(self, event: Event, step: NodeStep) -> NodeStep | None:
        """The step that made this version of an event: this one, or, if it came from another node, one of that node."""
        moments = self._past.moments(IDENTITY(event))
        if not moments or any(moment.step is step for moment in moments):
            return step
        return next((each.step for each in reversed(moments) if alike(each.change.event, event)), None)

    def _behind(self, event: Event, step: NodeStep) -> list[Arrival]:
        """If a log lacks the levels in between: all events that came late in the step and are no later than the result."""
        late = [each for each in changed(step) if each.__class__ in self._past.roots and each.ts < step.clock]
        return [Arrival(each, step.clock - each.ts) for each in late if each.ts <= event.ts]

    def _key_of(self, event: Event, detector: Detector) -> Any:
        """The key of a result, even of a withdrawn one; _ANY if it is unknown."""
        made = self._rerun.made.get(IDENTITY(event))
        if made is not None:
            return made.key
        key = key_function(detector)
        if key is None:
            return _ANY
        for cause in self._past.at(event.ts):
            if cause.__class__ in detector.subscribes and (value := _applied(key, cause)) is not _ANY:
                origin = _origin(event.source, value)
                timed = detector.identity == "time"
                if any(
                    event.id == (timed_id(origin, event.ts, ordinal) if timed else derived_id(origin, cause, ordinal))
                    for ordinal in range(_ORDINALS)
                ):
                    return value
        return _ANY


def _applied(key: Any, event: Event) -> Any:
    try:
        return key(event)
    except ENDING:
        raise
    except BaseException:  # user code: such an event is in no lane
        return _ANY


def _origin(name: str, key: Any) -> int:
    try:
        return origin_of(name, key)
    except DetectorError:
        return 0


def _bunches(events: Sequence[Event]) -> list[Bunch]:
    by_type: dict[str, list[int]] = {}
    for event in events:
        by_type.setdefault(type_name(event.__class__), []).append(event.ts)
    return [Bunch(name, len(times), min(times), max(times)) for name, times in sorted(by_type.items())]


# -- in words ---------------------------------------------------------------------------------------------------------


def name_step(step: NodeStep) -> str:
    """A step in words: its node, its number, and its time."""
    at = f", after {spoken_duration(step.at)} of running" if step.at is not None else ""
    return f"{f'{step.node}, ' if step.node else ''}step {step.number}{at}"


def _of_moment(moment: ResultChange) -> Iterator[str]:
    change = moment.change
    if isinstance(change, Insert):
        yield f"{name_step(moment.step)}: published: {about(change.event)}"
    elif isinstance(change, Revise):
        yield f"{name_step(moment.step)}: revised: {', '.join(_changes(_values(change.old), _values(change.event)))}"
    else:
        yield f"{name_step(moment.step)}: withdrawn"
    for late in moment.by[:MOST_LISTED]:
        behind = spoken_duration(late.behind)
        yield f"  because this came late, by {behind}: {about(late.event)} (of {late.event.source})"
    if len(moment.by) > MOST_LISTED:
        yield f"  and {len(moment.by) - MOST_LISTED:,} more that came late in this step"


def _values(event: Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in (*field_names(event.__class__), "ts")}


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The differences, name by name; equal values are skipped."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return [f"{name} {_cut(before.get(name, '-'))} -> {_cut(after.get(name, '-'))}" for name in names] or [
        "nothing has changed"
    ]


def _cut(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:199]}…"


def _tree(cause: Cause, depth: int, shown: set[Identity]) -> Iterator[str]:
    """The causes of a cause, indented below it."""
    for each in cause.of:
        margin, by = "  " * depth, f" (by {each.detector})" if each.detector else f" (of {each.event.source}"
        if not each.detector:
            by += f", came in {name_step(each.step)})" if each.step is not None else ")"
        again = IDENTITY(each.event) in shown and (each.of or each.more)
        yield f"{margin}{about(each.event)}{by}{', see above' if again else ''}"
        if not again:
            shown.add(IDENTITY(each.event))
            yield from _tree(each, depth + 1, shown)
    for bunch in cause.more:
        span = spoken_time(bunch.first) + (f" to {spoken_time(bunch.last)}" if bunch.last != bunch.first else "")
        yield f"{'  ' * depth}and {bunch.count:,} {bunch.type} of {span}"
    if not cause.exact and (cause.of or cause.more):
        yield f"{'  ' * depth}(these are enough; to find out whether all are needed would take too long)"
