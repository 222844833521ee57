"""Says why an event is in no match: how far partial matches with it get, and which condition fails, with its values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from detectors.language.tree import names
from detectors.sequence.grammar.syntax import FieldReference, Strategy
from detectors.sequence.planning.field_kinds import columns, own_fields
from detectors.sequence.planning.sequence_plan import Condition, PatternStep, SequencePlan
from detectors.sequence.strategies.matches import Match, Part, Roles, first_of, key_maker, last_of
from middleware.model.event import Event, Key, Value, type_name
from middleware.model.quantities import format_duration

_TRIED = 20_000
"""How many combinations are tried."""

_SHOWN = 3


def why_not(plan: SequencePlan, events: Iterable[Event], event: Event) -> list[str]:
    """Lines of plain English about an event in each component that it may stand for."""
    near = [each for each in events if abs(each.ts - event.ts) <= plan.reach]
    steps = plan.roles.get(event.__class__, ())
    if not steps:
        return [f"the query does not read {type_name(event.__class__)}; it reads {', '.join(map(type_name, plan.types))}"]
    if plan.never is not None:
        return [f"nothing matches: {plan.never} does not hold, whatever comes"]
    lines = []
    for step in steps:
        lines.append(f"as {_name(step)}:")
        lines += [f"  {line}" for line in _Inquiry(plan, near, event, step).lines()]
    return lines


class _Inquiry:
    """One event as one component."""

    def __init__(self, plan: SequencePlan, near: list[Event], event: Event, step: PatternStep) -> None:
        self._plan = plan
        self._event = event
        self._step = step
        self._roles = Roles(plan)
        self._near = sorted(near, key=lambda each: each.ts)

    def lines(self) -> list[str]:
        failed = [test for test in self._step.filters if not test.test(self._alone(self._step, self._event))]
        if failed:
            return [f"it is not kept: {self._values(test, {self._step.slot: self._event})}" for test in failed]
        roles = {step.slot: key for step, key in self._roles(self._event) if step is not None}
        if self._step.slot not in roles:
            return [f"it has no key: {', '.join(self._step.key or ())} is NULL"]
        if self._step.negated:
            return ["it is of a negated component: it can only rule matches out"]
        return self._around(roles[self._step.slot])

    def _alone(self, step: PatternStep, event: Event) -> Part:
        return (event,) if step.kleene else event

    def _around(self, key: Key) -> list[str]:
        """The candidates for every other step near the event, and what becomes of their combinations."""
        candidates: list[list[Event]] = []
        for step in self._plan.steps:
            found = [self._event] if step is self._step else self._candidates(step, key)
            if not found:
                return self._missing(step, key)
            candidates.append(found)
        combinations = list(islice(self._combinations(candidates, ()), _TRIED))
        if not combinations:
            return ["there is something for every component, but never in order and within the window"]
        return self._judged(combinations)

    def _candidates(self, step: PatternStep, key: Key) -> list[Event]:
        """Events that fit a step by type, filters, key, and time."""
        ts, within = self._event.ts, self._plan.within
        low, high = (ts + 1, ts + within) if step.place > self._step.place else (ts - within, ts - 1)
        return [e for e in self._near if low <= e.ts <= high and (step, key) in self._roles(e)]

    def _missing(self, step: PatternStep, key: Value) -> list[str]:
        """Which of type, filter, key and time leaves no candidate for a step."""
        later = step.place > self._step.place
        others = [each for each in self._near if each.__class__ in step.types and each is not self._event]
        of_type = [each for each in others if (each.ts > self._event.ts if later else each.ts < self._event.ts)]
        where = f"within {format_duration(self._plan.within)} {'after' if later else 'before'} it"
        kinds = " or ".join(map(type_name, step.types))
        in_time = [each for each in of_type if abs(each.ts - self._event.ts) <= self._plan.within]
        if not in_time:
            same = sum(each.ts == self._event.ts for each in others)
            more = f"; {same} at the same time, which is not in sequence" if same else ""
            return [f"there is no {kinds} for {_name(step)} {where}{more}"]
        key_of = key_maker(step)
        of_key = [each for each in in_time if key_of is None or key_of(each) == key]
        if not of_key:
            fields = " and ".join(f"{name} = {value!r}" for name, value in zip(step.key or (), key or (), strict=False))
            return [f"{len(in_time)} {kinds} {where}, but none with {fields}"]
        lines = [f"{len(of_key)} {kinds} {where} could be {_name(step)}, but:"]
        for each in of_key[:_SHOWN]:
            failed = [test for test in step.filters if not test.test(self._alone(step, each))]
            lines += [f"  {_event(each)} fails {self._values(test, {step.slot: each})}" for test in failed]
        return lines

    def _combinations(self, candidates: list[list[Event]], chosen: Match) -> Iterator[Match]:
        place = len(chosen)
        if place == len(candidates):
            yield chosen
            return
        for event in candidates[place]:
            if not chosen or last_of(chosen).ts < event.ts <= first_of(chosen).ts + self._plan.within:
                yield from self._combinations(candidates, (*chosen, self._alone(self._plan.steps[place], event)))

    def _judged(self, combinations: list[Match]) -> list[str]:
        """The combinations that fail the fewest conditions, and what rules out those that fail none."""
        judged = [(self._failed(match), match) for match in combinations]
        fewest = min(len(failed) for failed, _ in judged)
        best = [(failed, match) for failed, match in judged if len(failed) == fewest]
        alone = " with one event in each group (larger ones are not tried)" if any(s.kleene for s in self._plan.steps) else ""
        lines = [f"{len(combinations)} combinations in order within the window{alone}"]
        if fewest:
            lines.append(f"each fails at least {fewest} condition{'s' * (fewest > 1)}; the closest:")
            for failed, match in best[:_SHOWN]:
                lines.append(f"  {_shown(match)}")
                lines += [f"    fails {self._values(test, self._bound(match))}" for test in failed]
            return lines
        ruled = [(self._ruled_out(match), match) for _, match in best]
        valid = [match for by, match in ruled if by is None]
        if valid:
            found = f"{len(valid)} of them match, such as {_shown(valid[0])}"
            if self._plan.strategy is Strategy.ANY:
                return [*lines, found]
            return [*lines, f"{found}; but under {self._plan.strategy} a run takes what comes first"]
        for by, match in ruled[:_SHOWN]:
            lines += [f"  {_shown(match)}", f"    is ruled out by {by!r}"]
        return lines

    def _failed(self, match: Match) -> list[Condition]:
        places = self._plan.place_of_slot
        return [test for test in self._plan.conditions if not test.test(*[match[places[slot]] for slot in test.slots])]

    def _bound(self, match: Match) -> dict[int, Part]:
        return {step.slot: match[step.place] for step in self._plan.steps}

    def _ruled_out(self, match: Match) -> Event | None:
        first, last, within = first_of(match).ts, last_of(match).ts, self._plan.within
        for step in self._plan.negations:
            low = last_of(match[: step.place]).ts + 1 if step.place else last - within
            high = first_of(match[step.place :]).ts - 1 if step.place < len(match) else first + within
            key = dict(self._roles(self._event)).get(self._step) if step.key is not None else None
            for event in self._near:
                bound = {**self._bound(match), step.slot: event}
                fits = low <= event.ts <= high and (step, key) in self._roles(event)
                if fits and all(test.test(*[bound[slot] for slot in test.slots]) for test in step.conditions):
                    return event
        return None

    def _values(self, test: Condition, bound: dict[int, Part]) -> str:
        """A condition with the values of its fields."""
        slots = {step.variable: step.slot for step in (*self._plan.steps, *self._plan.negations) if step.variable}
        found: dict[str, Value] = {}
        for node in [name for name in names(test.expression) if isinstance(name, FieldReference)]:
            own = slots.get(node.variable)
            for slot in test.slots if own is None else (own,):
                part = bound[slot]
                events = part if isinstance(part, tuple) else (part,)
                if all(node.name in columns(each.__class__) for each in events):
                    several = [getattr(each, node.name) for each in events]
                    found.setdefault(str(node), several if len(events) > 1 else several[0])
        values = ", ".join(f"{name} is {value!r}" for name, value in found.items())
        return f"{test} ({values})" if values else str(test)


def _name(step: PatternStep) -> str:
    kinds = " or ".join(map(type_name, step.types))
    return f"{kinds} {step.variable}".rstrip()


def _shown(match: Match) -> str:
    return ", ".join(_event(part[0]) + " ..." if isinstance(part, tuple) else _event(part) for part in match)


def _event(event: Event) -> str:
    values = ", ".join(f"{name}={getattr(event, name)!r}" for name in own_fields(event.__class__))
    return f"{event.__class__.__name__}({values}, ts={event.ts})"
