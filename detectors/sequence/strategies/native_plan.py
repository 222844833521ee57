"""A plan in the form for the native matcher: plain tuples and dicts, with conditions on plain fields as expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from detectors.language.value_types import Type
from detectors.language.written import ExpressionWriter, NotPlainError, Written
from detectors.sequence.grammar.syntax import Index, Strategy
from detectors.sequence.planning.field_kinds import common_columns
from detectors.sequence.planning.sequence_expressions import event_name
from detectors.sequence.planning.sequence_plan import Condition, PatternStep, SequencePlan
from detectors.sequence.strategies.construction import due, scheduled
from detectors.sequence.strategies.sequence_columns import gives, layout
from middleware.model.block.recipe import recipe
from middleware.model.event import stable_hash

if TYPE_CHECKING:
    from middleware.native._core import SequenceSpecification, StepSpecification

    Reads = Mapping[Index | None, str]

_SINGLE: Reads = {None: "field"}
_GROUP: Reads = {Index.EACH: "field", Index.PREVIOUS: "before", Index.FIRST: "first", Index.ALL: "aggregate"}
"""The core's words for reading events of a component, by index."""


def specification(plan: SequencePlan, source: str, level: int) -> SequenceSpecification:
    """A plan as ``native.SequenceMatcher`` and ``native.SequenceRuns`` take it; results get ``source`` and ``level``."""
    return _Specification(plan).of(source, level)


class _Specification:
    def __init__(self, plan: SequencePlan) -> None:
        self._plan = plan
        self._all = sorted((*plan.steps, *plan.negations), key=lambda step: step.slot)
        words = [(step.slot, index, word) for step in self._all for index, word in (_GROUP if step.kleene else _SINGLE).items()]
        self._writer = ExpressionWriter({event_name(slot, index): (word, slot) for slot, index, word in words})
        self._fields = self._writer.fields
        self._conditions: list[Condition] = []

    def of(self, source: str, level: int) -> SequenceSpecification:
        plan = self._plan
        components = [self._component(step) for step in self._all]
        schedules = [tuple([list(map(self._numbers, part)) for part in parts]) for parts in scheduled(plan)]
        dues = [tuple([self._numbers(part) for part in due(plan, step.place)]) for step in plan.steps]
        return {
            "schedules": schedules,
            "conditions": [(list(each.slots), self._compiled(each), each.test, self._group(each)) for each in self._conditions],
            "components": components,
            "roles": [(event_type, self._roles(steps)) for event_type, steps in plan.roles.items()],
            "columns": [layout(plan, event_type, self._fields) for event_type in plan.roles],
            "gives": gives(plan, source, level),
            "within": plan.within,
            "reach": plan.reach,
            "trails": plan.trails,
            "values": plan.values,
            "plain": plan.fields,
            "recipe": recipe(plan.result),
            "source": source,
            "level": level,
            "seed": stable_hash(source),
            "strict": plan.strategy is Strategy.STRICT,
            "dues": dues,
        }

    def _component(self, step: PatternStep) -> StepSpecification:
        return {
            "slot": step.slot,
            "place": step.place,
            "kleene": step.kleene,
            "negation": self._plan.negations.index(step) if step.negated else None,
            "key": list(step.key) if step.key is not None else None,
            "fields": self._fields[step.slot],  # filled in as conditions are compiled
            "filters": self._numbers(step.filters),
            "conditions": self._numbers(step.conditions),
        }

    def _roles(self, steps: Iterable[PatternStep]) -> list[int]:
        return [step.slot for step in sorted(steps, key=lambda step: not step.negated)]

    def _numbers(self, conditions: Iterable[Condition]) -> list[int]:
        numbers = []
        for condition in conditions:
            if condition not in self._conditions:
                self._conditions.append(condition)
            numbers.append(self._conditions.index(condition))
        return numbers

    def _compiled(self, condition: Condition) -> Written | None:
        """A condition as nested tuples; None if only Python can evaluate it."""
        if len(condition.compiled.each) > 1:
            return None
        counts = list(map(len, self._fields))
        with suppress(NotPlainError):
            written = self._writer.written(condition.compiled.code.holds)
            if all(self._are_plain(step) for step in self._all):
                return written
        for fields, count in zip(self._fields, counts, strict=True):
            del fields[count:]
        return None

    def _are_plain(self, step: PatternStep) -> bool:
        """Whether the language has types for all fields that are read of a component."""
        known = common_columns(step.types)
        return all(known[field].kind.type is not Type.ANY for field in self._fields[step.slot])

    @staticmethod
    def _group(condition: Condition) -> tuple[int, bool] | None:
        """The Kleene component of which a condition must hold for every event, and whether it reads the one before each."""
        for slot in condition.compiled.each:
            return slot, slot in condition.compiled.previous
        return None
