"""A plan in the form for the native matcher: plain tuples and dicts, with conditions on plain fields as expressions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from detectors.language.aggregate_functions import SYNONYMS
from detectors.language.tree import (
    COMPARISONS,
    Between,
    Binary,
    Call,
    In,
    IsNull,
    Junction,
    Literal,
    Name,
    SyntaxNode,
    Unary,
    children,
    names,
)
from detectors.language.value_types import INTEGERS, Type
from detectors.sequence.grammar.syntax import FieldReference, Index, Strategy
from detectors.sequence.planning.field_kinds import common_columns
from detectors.sequence.planning.sequence_expressions import is_group, variable_of
from detectors.sequence.planning.sequence_plan import Condition, PatternStep, SequencePlan
from detectors.sequence.strategies.construction import due, scheduled
from detectors.sequence.strategies.sequence_columns import gives, layout
from middleware.model.columns.making import recipe
from middleware.model.event import stable_hash

if TYPE_CHECKING:
    from middleware.native._core import SequenceSpecification, StepSpecification

Written = tuple[Any, ...]
"""A condition as nested tuples: an operator and its operands."""

_WRITTEN = {Index.EACH: "field", Index.PREVIOUS: "before", Index.FIRST: "first"}
"""How fields of single events of a Kleene component are written."""

_AGGREGATES = frozenset({"count", "sum", "avg", "min", "max", "first", "last"})
"""Aggregates of a group that the core knows."""

_OPERATORS = COMPARISONS | {"+", "-", "*", "/", "%"}


def specification(plan: SequencePlan, source: str, level: int) -> SequenceSpecification:
    """A plan as ``native.SequenceMatcher`` and ``native.SequenceRuns`` take it; results get ``source`` and ``level``."""
    return _Specification(plan).of(source, level)


class _Specification:
    def __init__(self, plan: SequencePlan) -> None:
        self._plan = plan
        self._all = sorted((*plan.steps, *plan.negations), key=lambda step: step.slot)
        self._slots = {step.variable: step.slot for step in self._all if step.variable}
        self._fields: list[list[str]] = [[] for _ in self._all]
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
        is_plain = len(condition.compiled.each) <= 1 and self._is_plain(condition.expression)
        return self._written(condition.expression) if is_plain else None

    @staticmethod
    def _group(condition: Condition) -> tuple[int, bool] | None:
        """The Kleene component of which a condition must hold for every event, and whether it reads the one before each."""
        for slot in condition.compiled.each:
            return slot, slot in condition.compiled.previous
        return None

    def _is_plain(self, node: SyntaxNode) -> bool:
        match node:
            case FieldReference(name, variable, index):
                step = self._all[self._slots[variable or ""]]
                return index in (None, *_WRITTEN) and common_columns(step.types)[name].kind.type is not Type.ANY
            case Binary(operator, left, right):
                is_of_fields = bool(names(node))  # otherwise it is an Int, which overflows where a Long does not
                return operator in _OPERATORS and is_of_fields and self._is_plain(left) and self._is_plain(right)
            case Unary(operator, _):
                return operator in ("NOT", "-") and all(map(self._is_plain, children(node)))
            case Call(name, (Name() as read,), is_star=False, is_distinct=False):
                return self._is_plain_aggregate(SYNONYMS.get(name, name), read)
            case Literal() | Junction() | Between() | In() | IsNull():
                return all(map(self._is_plain, children(node)))
        return False

    def _is_plain_aggregate(self, name: str, read: Name) -> bool:
        """Whether the core knows this aggregate of a plain field of all events of a Kleene component, or of these events."""
        if name not in _AGGREGATES or is_group(read):
            return name == "count"
        if not isinstance(read, FieldReference) or read.index is not Index.ALL:
            return False
        kind = common_columns(self._all[self._slots[read.variable]].types)[read.name].kind.type
        return kind in INTEGERS if name in ("sum", "avg") else kind is not Type.ANY

    def _at(self, slot: int, name: str) -> int:
        """Which of the values that are taken of a component's events is that field."""
        if name not in self._fields[slot]:
            self._fields[slot].append(name)
        return self._fields[slot].index(name)

    def _written(self, node: SyntaxNode) -> Written:
        if isinstance(node, Call):
            (read,) = node.arguments
            assert isinstance(read, Name)
            slot = self._slots[variable_of(read)]
            return (
                "aggregate",
                SYNONYMS.get(node.name, node.name),
                slot,
                None if is_group(read) else self._at(slot, read.name),
            )
        below = tuple(map(self._written, children(node)))
        match node:
            case Literal(value):
                return ("constant", value)
            case FieldReference(name, variable, index):
                slot = self._slots[variable or ""]
                return ("field" if index is None else _WRITTEN[index], slot, self._at(slot, name))
            case Binary(operator):
                return (operator, *below)
            case Unary("-"):
                return ("-", ("constant", 0), *below)
            case Junction(operator):
                return ("all" if operator == "AND" else "any", *below)
            case Between(_, _, _, negated):
                operand, low, high = below
                return _negated(("all", (">=", operand, low), ("<=", operand, high)), negated)
            case In(_, _, negated):
                return _negated(("in", *below), negated)
            case IsNull(_, negated):
                return _negated(("null", *below), negated)
        return ("not", *below)


def _negated(written: Written, negated: bool) -> Written:
    return ("not", written) if negated else written
