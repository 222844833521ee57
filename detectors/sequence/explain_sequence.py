"""Explains a plan: pattern, partitions, where each condition is checked, what negation looks at, what is kept."""

from __future__ import annotations

from collections.abc import Iterable

from detectors.sequence.grammar.syntax import Strategy
from detectors.sequence.planning.sequence_plan import Condition, PatternStep, SequencePlan
from detectors.sequence.strategies.construction import scheduled
from middleware.model.event import field_names, type_name
from middleware.model.quantities import format_duration


def explain(plan: SequencePlan) -> list[str]:
    """The plan in lines of plain English."""
    lines = [f"query     {plan.query}", f"strategy  {plan.strategy}; a match spans at most {format_duration(plan.within)}"]
    lines.append(f"runs in   native core, {_partitions(plan)}")
    for step in sorted((*plan.steps, *plan.negations), key=lambda step: step.slot):
        lines += _component(plan, step)
    if plan.never is not None:
        lines.append(f"beware    nothing matches: {plan.never} does not hold, whatever comes")
    lines += _checks(plan)
    lines.append(f"result    {type_name(plan.result)}({', '.join(field_names(plan.result))}), {_moment(plan)}")
    lines.append(f"keeps     events until progress is {format_duration(plan.reach)} beyond them")
    if any(step.kleene for step in plan.steps) and plan.strategy is Strategy.ANY:
        lines.append("beware    every subset of a Kleene group may match: 2^n matches of n events; see skip-till-next-match")
    return lines


def _partitions(plan: SequencePlan) -> str:
    keyed = [step for step in (*plan.steps, *plan.negations) if step.key]
    if not keyed:
        return "one partition for all events (no equality covers all components)"
    names = [f"({', '.join(f'{step.variable}.{field}' for field in step.key or ())})" for step in keyed]
    return f"one partition for each value of {' = '.join(names)}"


def _component(plan: SequencePlan, step: PatternStep) -> list[str]:
    kinds = " or ".join(map(type_name, step.types))
    what = f"one or more {kinds}" if step.kleene else kinds
    lines = [
        f"  {step.variable or '-'}: {'no ' if step.negated else ''}{what}{f', {_where(plan, step)}' if step.negated else ''}"
    ]
    if step.filters:
        lines.append(f"      kept only if {_all(step.filters)}")
    if step.conditions:
        lines.append(f"      rules a match out if {_all(step.conditions)}")
    if step.negated and step.key is None:
        lines.append("      belongs to all partitions: it lacks a field that they go by")
    return lines


def _where(plan: SequencePlan, step: PatternStep) -> str:
    """Where a negated component looks."""
    before = plan.steps[step.place - 1] if step.place else None
    after = plan.steps[step.place] if step.place < len(plan.steps) else None
    first, last = plan.steps[0].variable or "the first", plan.steps[-1].variable or "the last"
    if before is None:
        return f"from {format_duration(plan.within)} before {last} until before {first}"
    if after is None:
        return f"after {last} until {format_duration(plan.within)} after {first}"
    return f"between {before.variable or 'the one before'} and {after.variable or 'the one after'}"


def _checks(plan: SequencePlan) -> list[str]:
    if not plan.conditions:
        return []
    if plan.strategy is not Strategy.ANY:
        return [f"checks    as each event is taken: {_all(plan.conditions)}"]
    at, stepwise = scheduled(plan)[-2 if len(plan.steps) > 1 else -1]
    lines = ["checks    of an event in order, from the last component to the first:"]
    for step in reversed(plan.steps):
        found = (*stepwise[step.place], *at[step.place])
        if found:
            lines.append(f"      with {step.variable}: {_all(found)}")
    given = plan.steps[-1]
    rest = [test for test in plan.conditions if not any(test in part for part in (*at, *stepwise))]
    if rest:
        lines.append(f"      with {given.variable}: {_all(rest)}")
    return lines


def _all(tests: Iterable[Condition]) -> str:
    return " AND ".join(map(str, tests))


def _moment(plan: SequencePlan) -> str:
    if plan.trails:
        return "stamped with the end of its window, when that has passed"
    return "stamped with its last event, as soon as it has come"
