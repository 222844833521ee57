"""Random sequence queries, each as text and, independently of it, as a brute-force pattern; and events to run them on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations, pairwise, product
from random import Random
from typing import Any

from middleware.model.event import Event
from tests.property.sequence.brute_force import Part, Pattern, Rule


class A(Event):
    k: int
    x: int
    y: int | None = None
    name: str = ""
    w: float | None = 0.0


class B(Event):
    k: int
    x: int
    y: int | None = None
    name: str = ""
    w: float | None = 0.0


class C(Event):
    k: int
    x: int
    y: int | None = None
    name: str = ""
    w: float | None = 0.0


class D(Event):
    k: int
    x: int
    y: int | None = None
    name: str = ""
    w: float | None = 0.0


TYPES = (A, B, C, D)
NAMES = ("ab", "b", "ba", "")
REALS = (None, 0.0, -0.0, 1.0, 2.5, math.nan)
STRATEGIES = {"any": "skip-till-any-match", "next": "skip-till-next-match", "strict": "strict-contiguity"}


@dataclass
class Drawn:
    """A query: its text, what it means, and for each positive variable whether it is a Kleene one."""

    text: str
    pattern: Pattern
    kleene: dict[str, bool]


@dataclass
class _Query:
    random: Random
    components: list[tuple[str, tuple[type[Event], ...], bool, bool]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    equal: list[tuple[tuple[str, str], tuple[str, str]]] = field(default_factory=list)

    def is_kleene(self, variable: str) -> bool:
        return next(kleene for name, _, _, kleene in self.components if name == variable)

    def path(self, variable: str, attribute: str) -> str:
        return f"{variable}[i].{attribute}" if self.is_kleene(variable) else f"{variable}.{attribute}"

    def rule(self, variables: tuple[str, ...], test: Callable[..., bool | None]) -> Rule:
        """A rule that holds if the test is True for each choice of one event of each variable."""
        several = [variable for variable in variables if self.is_kleene(variable)]

        def holds(bound: Any) -> bool:
            groups = [bound[v] if isinstance(bound[v], tuple) else (bound[v],) for v in variables]
            return all(test(*events) is True for events in product(*groups))

        return Rule(frozenset(variables), holds, frozenset(several))


def query(
    seed: int, strategies: tuple[str, ...] = ("any", "next", "strict"), kleene: bool = True, keyed: bool = False
) -> Drawn:
    """The query of a seed."""
    random = Random(seed)
    drawn = _Query(random)
    count = random.choice([1, 2, 2, 3, 3, 3, 4])
    positive = random.randrange(count)
    for number in range(count):
        types = tuple(random.sample(TYPES, random.choice([1, 1, 1, 2])))
        is_negated = number != positive and random.random() < 0.35
        is_kleene = kleene and not is_negated and random.random() < 0.2
        drawn.components.append((f"v{number}", types, is_negated, is_kleene))
    names = [name for name, *_ in drawn.components]
    for _ in range(random.choice([0, 0, 1, 1, 2, 3])):
        _condition(drawn, names)
    if keyed or random.random() < 0.4:
        _all_equal(drawn, names, random.choice(["k", "k", "x", "y", "w", "name"]))
    within = random.choice([0, 3, 7, 12])
    strategy = random.choice(strategies)
    if random.random() < 0.1:
        drawn.texts.insert(random.randint(0, len(drawn.texts)), random.choice(["TRUE", "1 = 1", "NOT 2 < 1"]))
    return Drawn(_text(drawn, within, strategy), _pattern(drawn, within, strategy), _kinds(drawn))


def _kinds(drawn: _Query) -> dict[str, bool]:
    return {name: is_kleene for name, _, is_negated, is_kleene in drawn.components if not is_negated}


def _text(drawn: _Query, within: int, strategy: str) -> str:
    components = []
    for name, types, is_negated, is_kleene in drawn.components:
        kinds = types[0].__name__ if len(types) == 1 else f"ANY({', '.join(each.__name__ for each in types)})"
        components.append(f"!({kinds} {name})" if is_negated else f"{kinds}+ {name}[]" if is_kleene else f"{kinds} {name}")
    where = f" WHERE {' AND '.join(drawn.texts)}" if drawn.texts else ""
    values = []
    for name, is_kleene in _kinds(drawn).items():
        values += [f"count({name}) AS {name}_n", f"sum({name}[].x) AS {name}_x"] if is_kleene else [f"{name}.x AS {name}_x"]
    using = f" USING {STRATEGIES[strategy]}" if strategy != "any" or drawn.random.random() < 0.2 else ""
    return f"EVENT SEQ({', '.join(components)}){using}{where} WITHIN {within} ns RETURN {', '.join(values)}"


def _pattern(drawn: _Query, within: int, strategy: Any) -> Pattern:
    parts = [
        Part(name, lambda event, types=types: isinstance(event, types), is_negated, is_kleene)
        for name, types, is_negated, is_kleene in drawn.components
    ]
    negated = {name for name, _, is_negated, _ in drawn.components if is_negated}
    rules, keys, kinds = list(drawn.rules), [], _kinds(drawn)
    for nodes in _classes(drawn.equal):
        positive = [node for node in nodes if node[0] not in negated]
        for (one, first), (other, second) in combinations(positive, 2):
            if one == other:
                rules.append(drawn.rule((one,), lambda e, f=first, g=second: _equal(getattr(e, f), getattr(e, g))))
                continue
            rules.append(drawn.rule((one, other), lambda a, b, f=first, g=second: _equal(getattr(a, f), getattr(b, g))))
        for name, attribute in positive:
            if kinds[name] and len({other for other, _ in positive}) > 1:
                rules.append(_uniform(name, attribute))
        lone = [name for name in kinds if len(kinds) == 1 and kinds[name]]
        if lone and not any((node, node) in drawn.equal for node in nodes if node[0] == lone[0]):
            continue
        if {name for name, *_ in drawn.components} <= {name for name, _ in nodes}:
            keys.append({name: next(f for v, f in nodes if v == name) for name, *_ in drawn.components})
    key = {
        name: lambda event, name=name: tuple(getattr(event, fields[name]) for fields in keys) for name, *_ in drawn.components
    }
    return Pattern(parts, rules, within, strategy, key if keys else {})


def _classes(equal: list[tuple[tuple[str, str], tuple[str, str]]]) -> list[list[tuple[str, str]]]:
    classes: list[list[tuple[str, str]]] = []
    for pair in equal:
        touching = [each for each in classes if pair[0] in each or pair[1] in each]
        merged = list(dict.fromkeys([node for each in touching for node in each] + list(pair)))
        classes = [each for each in classes if each not in touching] + [merged]
    return classes


def _equal(one: Any, other: Any) -> bool | None:
    return None if one is None or other is None else one == other


def _below(one: Any, other: Any) -> bool | None:
    return None if one is None or other is None else one < other


def _all_equal(drawn: _Query, names: list[str], attribute: str) -> None:
    drawn.texts.append(f"[{attribute}]")
    positive = [name for name, _, is_negated, _ in drawn.components if not is_negated]
    ends = [*pairwise(positive), *((positive[0], name) for name in names if name not in positive)]
    for one, other in ends:
        drawn.equal.append(((one, attribute), (other, attribute)))
        test = lambda a, b: _equal(getattr(a, attribute), getattr(b, attribute))  # noqa: E731
        drawn.rules.append(drawn.rule((one, other), test))
    if len(positive) == 1 and drawn.is_kleene(positive[0]):
        _rises(drawn, positive[0], attribute, text=False, same=True)


def _condition(drawn: _Query, names: list[str]) -> None:
    random = drawn.random
    positive = [name for name, _, is_negated, _ in drawn.components if not is_negated]
    one = random.choice(names)
    others = [name for name in (names if one in positive else positive) if name != one]
    if others and random.random() < 0.6:
        _pair(drawn, one, random.choice(others))
    elif drawn.is_kleene(one) and random.random() < 0.7:
        _of_group(drawn, one, [name for name in positive if not drawn.is_kleene(name)])
    else:
        _alone(drawn, one)


def _alone(drawn: _Query, one: str) -> None:
    n, x, y, name = drawn.random.randrange(5), drawn.path(one, "x"), drawn.path(one, "y"), drawn.path(one, "name")
    choices: list[tuple[str, Callable[[Any], bool | None]]] = [
        (f"{x} >= {n}", lambda e: e.x >= n),
        (f"{x} IN ({n}, {n + 2})", lambda e: e.x in (n, n + 2)),
        (f"{x} NOT BETWEEN {n} AND {n + 1}", lambda e: not n <= e.x <= n + 1),
        (f"{y} IS NULL", lambda e: e.y is None),
        (f"NOT {y} = {n}", lambda e: None if e.y is None else e.y != n),
        (f"({y} > 1 OR {x} = {n})", lambda e: True if e.x == n else None if e.y is None else e.y > 1),
        (f"{name} LIKE 'b%'", lambda e: e.name.startswith("b")),
        (f"{x} % 2 = {n % 2}", lambda e: e.x % 2 == n % 2),
        (f"6 / {x} < {n}", lambda e: None if e.x == 0 else 6 // e.x < n),
    ]
    text, test = drawn.random.choice(choices)
    drawn.texts.append(text)
    drawn.rules.append(drawn.rule((one,), test))


def _pair(drawn: _Query, one: str, other: str) -> None:
    n, path = drawn.random.randrange(9), drawn.path
    first, second = drawn.random.choice("kkxyw"), drawn.random.choice("kkxyw")
    if drawn.random.random() < 0.1:
        first = second = "name"
    choices: list[tuple[str, Callable[[Any, Any], bool | None]]] = [
        (f"{path(one, 'x')} < {path(other, 'x')}", lambda a, b: a.x < b.x),
        (f"{path(one, 'x')} + {path(other, 'k')} > {n}", lambda a, b: a.x + b.k > n),
        (f"{path(one, 'y')} < {path(other, 'x')}", lambda a, b: _below(a.y, b.x)),
        (f"{path(one, 'w')} * 2 >= {path(other, 'x')}", lambda a, b: None if a.w is None else a.w * 2 >= b.x),
        (f"{path(one, 'name')} <> {path(other, 'name')}", lambda a, b: a.name != b.name),
        (f"abs({path(one, 'ts')} - {path(other, 'ts')}) <= {n}", lambda a, b: abs(a.ts - b.ts) <= n),
        ("", lambda a, b: _equal(getattr(a, first), getattr(b, second))),
        ("", lambda a, b: _equal(getattr(a, first), getattr(b, second))),
    ]
    text, test = drawn.random.choice(choices)
    if not text:
        text = f"{path(one, first)} = {path(other, second)}"
        drawn.equal.append(((one, first), (other, second)))
    drawn.texts.append(text)
    drawn.rules.append(drawn.rule((one, other), test))


def _of_group(drawn: _Query, one: str, single: list[str]) -> None:
    n = drawn.random.randrange(4)
    choices: list[tuple[str, Callable[[Any], bool]]] = [
        (f"count({one}[]) > {n}", lambda events: len(events) > n),
        (f"count({one}) <= {n + 1}", lambda events: len(events) <= n + 1),
        (f"sum({one}[].x) < {n * 3}", lambda events: sum(e.x for e in events) < n * 3),
        (f"{one}[1].x >= {n}", lambda events: events[0].x >= n),
        (f"last({one}[].x) <> {n}", lambda events: events[-1].x != n),
        (f"max({one}[].y) < {n}", lambda events: max([e.y for e in events if e.y is not None], default=99) < n),
    ]
    kind = drawn.random.randrange(3)
    if kind == 0:
        _rises(drawn, one, "x", text=True, same=drawn.random.random() < 0.3)
    elif kind == 1 and single:
        other = drawn.random.choice(single)
        drawn.texts.append(f"avg({one}[].x) <= {other}.x")
        drawn.rules.append(
            Rule(frozenset((one, other)), lambda bound: sum(e.x for e in bound[one]) / len(bound[one]) <= bound[other].x)
        )
    else:
        text, test = drawn.random.choice(choices)
        drawn.texts.append(text)
        drawn.rules.append(Rule(frozenset((one,)), lambda bound: test(bound[one])))


def _uniform(one: str, attribute: str) -> Rule:
    """The events of a group have one value, where it equals that of another component."""

    def holds(bound: Any) -> bool:
        values = [getattr(event, attribute) for event in bound[one]]
        return all(_equal(one, other) for one, other in pairwise(values))

    return Rule(frozenset((one,)), holds, frozenset((one,)))


def _rises(drawn: _Query, one: str, attribute: str, text: bool, same: bool) -> None:
    if text:
        drawn.texts.append(f"{one}[i-1].{attribute} {'=' if same else '<='} {one}[i].{attribute}")

    if same:
        drawn.equal.append(((one, attribute), (one, attribute)))

    def holds(bound: Any) -> bool:
        pairs = pairwise(bound[one])
        values = [(getattr(a, attribute), getattr(b, attribute)) for a, b in pairs]
        return all(None not in pair and (pair[0] == pair[1] if same else pair[0] <= pair[1]) for pair in values)

    drawn.rules.append(Rule(frozenset((one,)), holds, frozenset((one,))))


def events(seed: int, most: int = 14, span: int = 30) -> list[Event]:
    """Events of a seed, with ties, NULLs, and several sources."""
    random = Random(seed)
    return [
        random.choice(TYPES)(
            random.randrange(2),
            random.randrange(4),
            random.choice([None, 0, 1, 2]),
            random.choice(NAMES),
            random.choice(REALS),
            ts=random.randrange(span),
            id=number,
            source=random.choice("pq"),
        )
        for number in range(random.randrange(most + 1))
    ]
