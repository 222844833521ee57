"""Patterns over rows, as in MATCH_RECOGNIZE: a regular expression whose letters are conditions, searched with backtracking.

Alternatives are tried from left to right, and quantifiers take as much as they can (with ``?`` behind them as little); the
first way that succeeds is the match, as in SQL. Each row costs its conditions; patterns that backtrack cost more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from detectors.language.query_errors import NOWHERE, QueryError, TextSpan
from middleware.model.event import Event

LONGEST = 1000
"""The most steps of a pattern, with its counted repetitions written out."""


@dataclass(frozen=True, slots=True)
class RowVariable:
    """A row for which the condition of this name holds."""

    name: str


@dataclass(frozen=True, slots=True)
class Chain:
    """One part after the other."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several; those before are preferred."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part ``least`` to ``most`` times (None: any number)."""

    part: Part
    least: int
    most: int | None
    is_greedy: bool = True


Part = RowVariable | Chain | Choice | Repeat


class Take(NamedTuple):
    """Take a row as this variable."""

    variable: int


class Fork(NamedTuple):
    """Go on at one step, and if that fails at the other."""

    first: int
    second: int


Step = Take | Fork | None
"""None: the pattern has matched."""


def variables(part: Part) -> list[str]:
    """The variables of a pattern in the order of the text, each once."""
    if isinstance(part, RowVariable):
        return [part.name]
    parts = (part.part,) if isinstance(part, Repeat) else part.parts
    return list(dict.fromkeys(name for each in parts for name in variables(each)))


def is_endless(part: Part) -> bool:
    """Whether there is no longest match."""
    if isinstance(part, Repeat):
        return part.most is None or is_endless(part.part)
    return not isinstance(part, RowVariable) and any(map(is_endless, part.parts))


def _may_be_empty(part: Part) -> bool:
    match part:
        case RowVariable():
            return False
        case Chain(parts):
            return all(map(_may_be_empty, parts))
        case Choice(parts):
            return any(map(_may_be_empty, parts))
        case Repeat(inner, least):
            return not least or _may_be_empty(inner)


def program(part: Part, span: TextSpan = NOWHERE) -> tuple[Step, ...]:
    """The steps of a pattern. Raises QueryError if it may match no row, or is too long."""
    if _may_be_empty(part):
        raise QueryError("this pattern may match no row at all: omit * or ?, or write +", span)
    steps: list[Step] = []
    _write(part, {name: number for number, name in enumerate(variables(part))}, steps, span)
    return (*steps, None)


def _write(part: Part, numbers: dict[str, int], steps: list[Step], span: TextSpan) -> None:
    if len(steps) > LONGEST:
        raise QueryError(f"this pattern has more than {LONGEST:,} steps: repeat less", span)
    match part:
        case RowVariable(name):
            steps.append(Take(numbers[name]))
        case Chain(parts):
            for each in parts:
                _write(each, numbers, steps, span)
        case Choice(parts):
            _write_choice(parts, numbers, steps, span)
        case Repeat():
            _write_repeat(part, numbers, steps, span)


def _write_choice(parts: Sequence[Part], numbers: dict[str, int], steps: list[Step], span: TextSpan) -> None:
    """A fork before each alternative but the last; behind each a fork to the end, whose ways are one."""
    ends = []
    for each in parts[:-1]:
        fork = len(steps)
        steps.append(None)
        _write(each, numbers, steps, span)
        ends.append(len(steps))
        steps.append(None)
        steps[fork] = Fork(fork + 1, len(steps))
    _write(parts[-1], numbers, steps, span)
    for end in ends:
        steps[end] = Fork(len(steps), -1)


def _write_repeat(part: Repeat, numbers: dict[str, int], steps: list[Step], span: TextSpan) -> None:
    if (part.most is None or part.most > 1) and _may_be_empty(part.part):
        raise QueryError("this repeats what may be no row at all: omit one of the quantifiers", span)
    for _ in range(part.least):
        _write(part.part, numbers, steps, span)
    forks = []
    for _ in range(1 if part.most is None else part.most - part.least):
        forks.append(len(steps))
        steps.append(None)
        _write(part.part, numbers, steps, span)
    if part.most is None:
        steps.append(Fork(forks[0], -1))
    for fork in forks:
        steps[fork] = Fork(fork + 1, len(steps)) if part.is_greedy else Fork(len(steps), fork + 1)


class AttemptResult(NamedTuple):
    """The outcome of an attempt.

    ``length``
        how many rows match; 0 for none; None if that is not known yet, because a row is needed that has not come.
    ``labels``
        the number of the variable of each matching row.
    ``read``
        how many rows the attempt has looked at, from its first on.
    ``is_cut``
        whether it also rests on there being no further row within the limit.
    """

    length: int | None
    labels: list[int]
    read: int
    is_cut: bool


Test = Callable[[Sequence[Event], int, int, list[int]], object]
"""Whether a row may be the variable: (rows, place of the first, place of this one, labels up to its own)."""


def attempt(
    steps: Sequence[Step], tests: Sequence[Test | None], rows: Sequence[Event], start: int, limit: int | None, upto: int
) -> AttemptResult:
    """Match rows from ``start`` on, none later than ``limit``. All rows up to the time ``upto`` are there."""
    labels: list[int] = []
    waiting = [(0, start)]
    read, is_cut = 0, False
    while waiting:
        number, at = waiting.pop()
        del labels[at - start :]
        while True:
            step = steps[number]
            if step is None:
                return AttemptResult(at - start, labels, read, is_cut)
            if isinstance(step, Fork):
                if step.second >= 0:
                    waiting.append((step.second, at))
                number = step.first
                continue
            if at == len(rows) or (limit is not None and rows[at].ts > limit):
                if at == len(rows) and (limit is None or limit > upto):
                    return AttemptResult(None, labels, read, is_cut)
                is_cut = True
                break
            read = max(read, at - start + 1)
            labels.append(step.variable)
            test = tests[step.variable]
            if test is not None and not test(rows, start, at, labels):
                break
            number, at = number + 1, at + 1
    return AttemptResult(0, [], read, is_cut)
