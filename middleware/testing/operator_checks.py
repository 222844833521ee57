"""The conformance suite for operators, as checks with verdicts: drawn input and histories, the smallest failing example."""

from __future__ import annotations

import random
from collections.abc import Callable

from msgspec.structs import replace

from middleware.model.detector import check_declaration
from middleware.model.errors import DetectorError
from middleware.model.event import Event
from middleware.model.operator import Operator
from middleware.provenance.smallest import smallest
from middleware.testing.conformance import Sequences, Verdict
from middleware.testing.examples import draw_events
from middleware.testing.operators import ApplyCall, history, in_order, play

_HISTORIES = 5
"""The number of histories tried for each sequence."""

Find = Callable[[Operator, list[Event]], str]


def check_operator(operator: Operator, *, count: int = 30, length: int = 60, seed: int = 0) -> list[Verdict]:
    """Run the suite on an operator: ``count`` drawn sequences of up to ``length`` events, the same for the same seed.

    Raises EventError if no input can be drawn.
    """
    try:
        check_declaration(operator)
    except DetectorError as error:
        return [Verdict("declaration", "fail", str(error)), *(Verdict(name, "skip") for name, _, _ in CHECKS)]
    inputs = [
        draw_events(operator.subscribes, max(1, length * (number + 1) // count), random.Random(seed * 1_000_003 + number))
        for number in range(count)
    ]
    verdicts = [Verdict("declaration", "pass")]
    for name, find, advice in CHECKS:
        verdicts.append(_verdict(name, find, advice, operator, inputs))
        if verdicts[-1].state == "fail":
            return [*verdicts, *(Verdict(name, "skip") for name, _, _ in CHECKS[len(verdicts) - 1 :])]
    return [*verdicts, _exercised(operator, inputs)]


def _takes_its_input(operator: Operator, events: list[Event]) -> str:
    play(operator, in_order(events))
    return ""


def _any_history(operator: Operator, events: list[Event]) -> str:
    expected = play(operator, in_order(events))
    for number in range(_HISTORIES):
        found = play(operator, _drawn(operator, events, number))
        if found != expected:
            return _difference(expected, found)
    return ""


def _snapshots(operator: Operator, events: list[Event]) -> str:
    for number in range(_HISTORIES):
        moments = _drawn(operator, events, number)
        expected = play(operator, moments)
        found = play(operator, moments, restarts=range(1, len(moments), 2))
        if found != expected:
            return _difference(expected, found)
    return ""


def _drawn(operator: Operator, events: list[Event], number: int) -> list[ApplyCall]:
    """A history of these events: every third one is revised in between, and some other events come and go."""
    generator = random.Random(number)
    kept = [event for index, event in enumerate(events) if index % 3]
    others = draw_events(operator.subscribes, max(1, len(events) // 4), generator)
    passing = [_renumbered(event, 1_000_000 + event.id, event.source) for event in others]
    revised = [(_renumbered(generator.choice(others), event.id, event.source), event) for event in events[::3]]
    return history(kept, generator, passing, revised)


CHECKS: list[tuple[str, Find, str]] = [
    ("takes its input", _takes_its_input, "apply() must take any events of the types in subscribes, and keep what it promises"),
    ("any history", _any_history, "what is published in all, net, may depend only on the events that are there in the end"),
    ("snapshot: round trip", _snapshots, "snapshot() must hold all that apply() reads and changes, and restore() put it back"),
]


def _renumbered(event: Event, number: int, source: str) -> Event:
    return replace(event, id=number, source=source)


def _difference(expected: list[Event], found: list[Event]) -> str:
    missing = [event for event in expected if event not in found]
    added = [event for event in found if event not in expected]
    return f"missing: {missing[:3]}; not in the results of the events in order: {added[:3]}"


def _problem(find: Find, operator: Operator, events: list[Event]) -> str:
    try:
        return find(operator, events)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _verdict(name: str, find: Find, advice: str, operator: Operator, inputs: Sequences) -> Verdict:
    for events in inputs:
        if _problem(find, operator, events):
            example = smallest(events, lambda part: bool(part and _problem(find, operator, part)), 300)
            return Verdict(name, "fail", _problem(find, operator, example), list(map(repr, example)), advice)
    return Verdict(name, "pass")


def _exercised(operator: Operator, inputs: Sequences) -> Verdict:
    if any(play(operator, in_order(events)) for events in inputs):
        return Verdict("exercised", "pass")
    return Verdict("exercised", "warn", "no drawn events led to a result, so that the checks above say little")
