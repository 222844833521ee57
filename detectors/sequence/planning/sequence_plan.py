"""The plan of a sequence query, which the operator runs and ``--explain`` shows. ``analysis`` makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from detectors.language.code import Made
from detectors.language.tree import SyntaxNode
from detectors.sequence.grammar.syntax import QueryTree, Strategy
from detectors.sequence.planning.sequence_expressions import CompiledExpression
from middleware.model.event import EventType, Value


@dataclass(frozen=True, eq=False)
class Condition:
    """One conjunct of WHERE.

    ``compiled``
        the test: the condition holds for a match if this is true. It reads the components in ``slots``.
    """

    expression: SyntaxNode
    compiled: CompiledExpression

    @property
    def test(self) -> Made:
        return self.compiled.call

    @property
    def slots(self) -> tuple[int, ...]:
        return self.compiled.slots

    def is_stepwise(self, slot: int) -> bool:
        """Whether it can be checked for each event of a Kleene component and the one before, when the event is taken."""
        return slot in self.compiled.each and slot not in self.compiled.whole

    def __str__(self) -> str:
        text = str(self.expression)
        return text[1:-1] if text.startswith("(") and text.endswith(")") and text.count("(") == 1 else text


@dataclass(frozen=True)
class PatternStep:
    """A component of the pattern.

    ``slot``, ``place``
        its place in SEQ, and among the positive components, from 0. For a negated one ``place`` is the number of positive
        ones before it: it rules out events between ``place - 1`` and ``place``.
    ``filters``
        conditions on its event alone: events that fail them are not kept.
    ``conditions``
        conditions on it and others: for a negated one, those under which an event rules out a match.
    ``key``
        the fields whose values place its events in a partition; None for a negated one that belongs to all of them.
    """

    slot: int
    place: int
    variable: str
    types: tuple[EventType, ...]
    kleene: bool = False
    negated: bool = False
    filters: tuple[Condition, ...] = ()
    conditions: tuple[Condition, ...] = ()
    key: tuple[str, ...] | None = ()


@dataclass(frozen=True)
class SequencePlan:
    """Everything needed to run a query.

    ``steps``, ``negations``
        its positive and its negated components, each in the order of SEQ.
    ``within``
        the length of its window, ns: a match spans at most that, both ends included.
    ``conditions``
        conditions on two or more positive components (and on all events of a Kleene component).
    ``result``, ``values``
        the type of the results, and a function that makes the values of its own fields from the matched events, by step.
    ``fields``
        the same values as (place, field) pairs, if all are plain fields; else None.
    ``never``
        a condition that reads no event and does not hold: nothing matches, whatever comes.
    """

    query: QueryTree
    name: str
    strategy: Strategy
    within: int
    steps: tuple[PatternStep, ...]
    negations: tuple[PatternStep, ...]
    conditions: tuple[Condition, ...]
    result: EventType
    values: Callable[..., tuple[Value, ...]]
    fields: tuple[tuple[int, str], ...] | None
    never: Condition | None = None

    @cached_property
    def types(self) -> tuple[EventType, ...]:
        """Every event type that the query reads."""
        return tuple(dict.fromkeys(t for step in (*self.steps, *self.negations) for t in step.types))

    @cached_property
    def place_of_slot(self) -> dict[int, int]:
        """The place of a slot's positive component among the positive ones."""
        return {step.slot: step.place for step in self.steps}

    @cached_property
    def trails(self) -> bool:
        """Whether a match must wait for its window to pass: a negated component stands at the end."""
        return any(step.place == len(self.steps) for step in self.negations)

    @cached_property
    def leads(self) -> bool:
        """Whether a negated component stands at the start."""
        return any(step.place == 0 for step in self.negations)

    @cached_property
    def reach(self) -> int:
        """How far (ns) behind the watermark an event can still matter: those with ts <= watermark - reach are forgotten.

        A match can change while its window is open, and rests on negatives before it that lie up to a window behind its
        last event. If negation stands at both ends, both come together.
        """
        return self.within * (2 if self.leads and self.trails else 1)

    @cached_property
    def roles(self) -> dict[EventType, tuple[PatternStep, ...]]:
        """For each event type, the components that its events may stand for."""
        return {t: tuple(s for s in (*self.steps, *self.negations) if t in s.types) for t in self.types}
