"""Sequence patterns matched by brute force, straight from their definition: what the sequence operator is held against.

It knows nothing of queries, plans or stacks: a pattern is made of plain Python functions. Exponential; for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any, Literal

from middleware.model.event import ORDER, Event

Bound = Mapping[str, Any]
"""The event of each variable; for a Kleene variable the tuple of its events, oldest first."""

Match = tuple[Any, ...]
"""The events of the positive parts in order; for a Kleene part the tuple of its events."""


@dataclass(frozen=True)
class Part:
    """A component of a pattern: ``fits`` says whether an event is of its type; all else is for rules."""

    variable: str
    fits: Callable[[Any], bool]
    negated: bool = False
    kleene: bool = False


@dataclass(frozen=True)
class Rule:
    """A condition on the events of one part or of several.

    ``each``
        the Kleene variables of which it can be asked event by event: it holds for all events if it holds for every one, and
        for every two that follow each other.
    """

    variables: frozenset[str]
    holds: Callable[[Bound], Any]
    each: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Pattern:
    """Parts in order, rules, the window (ns, both ends included), and the selection strategy.

    ``key``
        for strict contiguity: the key of an event as each variable, so that only events of one key are neighbours.
    """

    parts: Sequence[Part]
    rules: Sequence[Rule] = ()
    within: int = 0
    strategy: Literal["any", "next", "strict"] = "any"
    key: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

    @property
    def positive(self) -> list[Part]:
        return [part for part in self.parts if not part.negated]


def brute_force(pattern: Pattern, events: Iterable[Event]) -> list[Match]:
    """All matches of a pattern among events, by definition."""
    ordered = sorted(events, key=ORDER)
    candidates = _combinations(pattern, ordered) if pattern.strategy == "any" else _runs(pattern, ordered)
    return [match for match in candidates if not _is_ruled_out(pattern, match, ordered)]


def match_ts(pattern: Pattern, match: Match) -> int:
    """When a match is known: at its last event, or, where negation comes last, at the end of its window."""
    events = flat(match)
    return events[0].ts + pattern.within if pattern.parts[-1].negated else events[-1].ts


def flat(match: Match) -> list[Event]:
    """The events of a match, oldest first."""
    return [event for part in match for event in (part if isinstance(part, tuple) else (part,))]


def _bound(pattern: Pattern, match: Match) -> dict[str, Any]:
    return {part.variable: value for part, value in zip(pattern.positive, match, strict=False)}


def _combinations(pattern: Pattern, ordered: list[Event]) -> Iterator[Match]:
    """Skip-till-any-match: whatever is in order, within the window, and keeps every rule."""
    positive = pattern.positive
    rules = [rule for rule in pattern.rules if rule.variables <= {part.variable for part in positive}]

    def extended(match: Match) -> Iterator[Match]:
        if len(match) == len(positive):
            if all(rule.holds(_bound(pattern, match)) for rule in rules):
                yield match
            return
        part, before = positive[len(match)], flat(match)
        later = [
            event
            for event in ordered
            if part.fits(event) and (not before or before[-1].ts < event.ts <= before[0].ts + pattern.within)
        ]
        if not part.kleene:
            for event in later:
                yield from extended((*match, event))
            return
        for size in range(1, len(later) + 1):
            for group in combinations(later, size):
                rises = all(one.ts < other.ts for one, other in pairwise(group))
                if rises and group[-1].ts - (before or group)[0].ts <= pattern.within:
                    yield from extended((*match, group))

    return extended(())


def _runs(pattern: Pattern, ordered: list[Event]) -> Iterator[Match]:
    """The other strategies: each event that fits the first part begins one run, which takes what fits as it comes."""
    for start, event in enumerate(ordered):
        first = pattern.positive[0]
        begun: Match = ((event,),) if first.kleene else (event,)
        if first.fits(event) and _may_take(pattern, begun, first):
            yield from _run(pattern, begun, ordered[start + 1 :])


def _run(pattern: Pattern, match: Match, later: list[Event]) -> Iterator[Match]:
    positive = pattern.positive
    start = flat(match)[0]
    yield from _completed(pattern, match)
    if len(match) == len(positive) and not positive[-1].kleene:
        return
    for event in later:
        if event.ts > start.ts + pattern.within:
            return
        if pattern.strategy == "strict" and not _is_neighbour(pattern, start, event):
            continue
        taken = _taken(pattern, match, event) if event.ts > flat(match)[-1].ts else None
        if taken is None:
            if pattern.strategy == "strict":
                return
            continue
        match = taken
        yield from _completed(pattern, match)
        if len(match) == len(positive) and not positive[-1].kleene:
            return


def _taken(pattern: Pattern, match: Match, event: Event) -> Match | None:
    """The match with one more event: as the next part if it fits that, else as one more of a Kleene part."""
    positive = pattern.positive
    if len(match) < len(positive):
        part = positive[len(match)]
        grown = (*match, (event,) if part.kleene else event)
        if part.fits(event) and _group_is_complete(pattern, match) and _may_take(pattern, grown, part):
            return grown
    part = positive[len(match) - 1]
    if part.kleene and part.fits(event):
        grown = (*match[:-1], (*match[-1], event))
        if _may_take(pattern, grown, part):
            return grown
    return None


def _may_take(pattern: Pattern, match: Match, part: Part) -> bool:
    """Whether the rules that are due when an event is taken for ``part`` (the last one bound) hold."""
    bound = _bound(pattern, match)
    due = [rule for rule in pattern.rules if part.variable in rule.variables and rule.variables <= bound.keys()]
    return all(rule.holds(bound) for rule in due if not part.kleene or part.variable in rule.each)


def _group_is_complete(pattern: Pattern, match: Match) -> bool:
    """Whether the rules hold that need all events of the last part bound, a Kleene one."""
    part = pattern.positive[len(match) - 1]
    bound = _bound(pattern, match)
    due = [rule for rule in pattern.rules if part.variable in rule.variables and rule.variables <= bound.keys()]
    return not part.kleene or all(rule.holds(bound) for rule in due)


def _completed(pattern: Pattern, match: Match) -> Iterator[Match]:
    if len(match) == len(pattern.positive) and _group_is_complete(pattern, match):
        yield match


def _is_neighbour(pattern: Pattern, start: Event, event: Event) -> bool:
    """Whether an event is of the stream that a run goes through: of the same key, as whatever it may be."""
    if not any(part.fits(event) for part in pattern.parts):
        return False
    if not pattern.key:
        return True
    key = pattern.key[pattern.positive[0].variable](start)
    return any(part.fits(event) and pattern.key[part.variable](event) == key for part in pattern.parts)


def _is_ruled_out(pattern: Pattern, match: Match, ordered: list[Event]) -> bool:
    """Whether there is an event of a negated part in its place. At either end the place reaches as far as the window."""
    events, bound = flat(match), _bound(pattern, match)
    place = 0
    for part in pattern.parts:
        if not part.negated:
            place += 1
            continue
        rules = [rule for rule in pattern.rules if part.variable in rule.variables]
        for event in ordered:
            if not (part.fits(event) and _is_between(pattern, match, place, events, event)):
                continue
            if all(rule.holds({**bound, part.variable: event}) for rule in rules):
                return True
    return False


def _is_between(pattern: Pattern, match: Match, place: int, events: list[Event], event: Event) -> bool:
    if place == 0:
        return events[-1].ts - pattern.within <= event.ts < events[0].ts
    if place == len(match):
        return events[-1].ts < event.ts <= events[0].ts + pattern.within
    return flat(match[:place])[-1].ts < event.ts < flat(match[place:])[0].ts
