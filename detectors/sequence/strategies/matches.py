"""Matches, their changes, and the roles of events in them: shared by all strategies."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from detectors.sequence.planning.sequence_plan import PatternStep, SequencePlan
from middleware.model.event import Event, Key, Value

Part = Event | tuple[Event, ...]
"""The part of a match for one step: its event, or all events of a Kleene step, oldest first."""

Match = tuple[Part, ...]
"""The parts of the positive steps in order."""

Identify = Callable[[Match], int]
Fail = Callable[[Event, str], None]


def first_of(match: Match) -> Event:
    """The oldest event of a match."""
    part = match[0]
    return part[0] if isinstance(part, tuple) else part


def last_of(match: Match) -> Event:
    """The newest event of a match."""
    part = match[-1]
    return part[-1] if isinstance(part, tuple) else part


class MatchChanges:
    """The net change of one step, by identity: matches that stand now, and matches that stood before."""

    __slots__ = ("_identify", "made", "withdrawn")

    def __init__(self, identify: Identify) -> None:
        self._identify = identify
        self.made: dict[int, Match] = {}
        self.withdrawn: dict[int, Match] = {}

    def make(self, match: Match) -> None:
        self.made[self._identify(match)] = match

    def withdraw(self, match: Match) -> None:
        identity = self._identify(match)
        if self.made.pop(identity, None) is None:
            self.withdrawn[identity] = match


class Roles:
    """The roles of an event in a pattern: the steps whose filters it passes, and its partition's key as each of them.

    An event without a key matches nothing, except in a pattern of one step; there, nothing can rule it out either.
    """

    def __init__(self, plan: SequencePlan) -> None:
        self._roles = {
            event_type: [(step, key_maker(step), [test.test for test in step.filters]) for step in steps]
            for event_type, steps in plan.roles.items()
        }
        self._alone = len(plan.steps) == 1
        self._kleene = {step.slot for step in plan.steps if step.kleene}

    def __call__(self, event: Event, every: bool = False) -> list[tuple[PatternStep | None, Key]]:
        """The steps that an event fits by itself, each with a key (None: that of all partitions).

        With ``every``, also its keys for steps whose filters it fails, with None as the step. Raises TypeError if a key cannot
        be hashed.
        """
        found: list[tuple[PatternStep | None, Key]] = []
        for step, key_of, filters in self._roles.get(event.__class__, ()):
            key = key_of(event) if key_of is not None else None
            if key is not None and not all(map(_equals_itself, key)):
                if step.negated or not self._alone:  # NULL and NaN equal nothing
                    continue
                key = tuple(value if _equals_itself(value) else None for value in key)
            hash(key)
            alone: Part = (event,) if step.slot in self._kleene else event
            if all(test(alone) for test in filters):
                found.append((step, key))
            elif every:
                found.append((None, key))
        return found


def _equals_itself(value: object) -> bool:
    """Whether a value is neither NULL nor NaN."""
    return value is not None and bool(value == value)  # noqa: PLR0124


def key_maker(step: PatternStep) -> Callable[[Event], tuple[Value, ...]] | None:
    """A function that gives the key of an event as this component; None if the event belongs to all partitions."""
    if step.key is None:
        return None
    if not step.key:
        return lambda _: ()
    get = attrgetter(*step.key)
    return get if len(step.key) > 1 else lambda event: (get(event),)
