"""Random expressions over one event type, by the type that they are to have."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from detectors.language.tree import (
    Between,
    Binary,
    Call,
    Case,
    Cast,
    In,
    IsNull,
    Junction,
    Literal,
    Name,
    SyntaxNode,
    TextMatch,
    Unary,
    literal,
)
from detectors.language.value_types import Type
from middleware.model.event import Event


class T(Event):
    x: int
    y: int | None
    w: float
    v: float | None
    name: str | None
    flag: bool | None


TYPES = {"x": "Long", "y": "Long", "w": "Double", "v": "Double", "name": "String", "flag": "Boolean"}
WHOLE = [0, 1, -1, 2, 7, -7, 2**31 - 1, -(2**31), 2**53 + 1, 2**62, 2**63 - 1, -(2**63)]
REAL = [0.0, -0.0, 0.5, -2.5, 3.0, 1e300, -1e300, 5e-324, math.inf, math.nan]
TEXTS = ["", "ab", "a%", "BA", "b_a", "é"]


def rows(random: Random, count: int) -> list[T]:
    """Events with hard values, each at a time of its own."""

    def of(values: list[Any], nullable: bool) -> Any:
        return None if nullable and random.random() < 0.25 else random.choice(values)

    return [
        T(of(WHOLE, False), of(WHOLE, True), of(REAL, False), of(REAL, True), of(TEXTS, True), of([True, False], True),
          ts=number + 1, id=number, source="s")
        for number in range(count)
    ]  # fmt: skip


class Drawn:
    """Draws expressions; names are written ``t.x``."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def of(self, kind: str, depth: int) -> SyntaxNode:
        """An expression of a type: Long (or Int), Double, String or Boolean."""
        if depth == 0:
            return self.leaf(kind)
        return {"Long": self.whole, "Double": self.real, "String": self.text, "Boolean": self.condition}[kind](depth - 1)

    def leaf(self, kind: str) -> SyntaxNode:
        names = [name for name, own in TYPES.items() if own == kind]
        if self.random.random() < 0.6:
            return Name(self.random.choice(names), "t")
        values: dict[str, list[Any]] = {"Long": WHOLE[:10], "Double": REAL[:8], "String": TEXTS, "Boolean": [True, False]}
        return literal(self.random.choice(values[kind]))

    def whole(self, depth: int) -> SyntaxNode:
        one, other = self.of("Long", depth), self.of("Long", depth)
        match self.random.randrange(9):
            case 0:
                return Unary(self.random.choice("-~+"), one)
            case 1:
                return self.choice("Long", depth)
            case 2:
                return Call("length", (self.of("String", depth),))
            case 3:
                return Call(self.random.choice(["floor", "ceil"]), (self.of("Double", depth),))
            case 4:
                source = self.of(self.random.choice(["Double", "Boolean"]), depth)
                return Cast(source, self.random.choice([Type.INT, Type.LONG]))
            case 5:
                return Binary(self.random.choice(["<<", ">>"]), one, literal(self.random.randrange(5)))
        return Binary(self.random.choice("+-*/%/%&|^"), one, other)

    def real(self, depth: int) -> SyntaxNode:
        kinds = self.random.choice([("Double", "Double"), ("Double", "Long"), ("Long", "Double")])
        one, other = (self.of(kind, depth) for kind in kinds)
        match self.random.randrange(6):
            case 0:
                return Unary("-", self.of("Double", depth))
            case 1:
                return self.choice("Double", depth)
            case 2:
                return Call(self.random.choice(["round", "sqrt"]), (self.of(self.random.choice(["Long", "Double"]), depth),))
            case 3:
                return Cast(self.of("Long", depth), Type.DOUBLE)
        return Binary(self.random.choice("+-*/%"), one, other)

    def text(self, depth: int) -> SyntaxNode:
        match self.random.randrange(4):
            case 0:
                return self.choice("String", depth)
            case 1:
                return Call("upper", (self.of("String", depth),))
            case 2:
                return Cast(self.of(self.random.choice(["Long", "Boolean"]), depth), Type.STRING)
        return Binary("||", self.of("String", depth), self.of("String", depth))

    def choice(self, kind: str, depth: int) -> SyntaxNode:
        one, other = self.of(kind, depth), self.of(kind, depth)
        match self.random.randrange(4):
            case 0:
                branches = tuple((self.of("Boolean", depth), each) for each in (one, other))
                return Case(branches, self.of(kind, depth) if self.random.random() < 0.7 else None)
            case 1:
                return Call("nullif", (one, other))
            case 2 if kind == "Long":
                return Call(self.random.choice(["greatest", "least"]), (one, other))
        return Call("coalesce", (one, other, Literal(None, Type.NULL)))

    def condition(self, depth: int) -> SyntaxNode:
        kind = self.random.choice(["Long", "Double", "String"])
        one, other, third = (self.of(kind, depth) for _ in range(3))
        negated = self.random.random() < 0.4
        match self.random.randrange(8):
            case 0:
                return Unary("NOT", self.of("Boolean", depth))
            case 1 | 2:
                return Junction(self.random.choice(["AND", "OR"]), tuple(self.of("Boolean", depth) for _ in range(2)))
            case 3:
                return In(one, (other, third, *([Literal(None, Type.NULL)] if self.random.random() < 0.2 else [])), negated)
            case 4:
                return Between(one, other, third, negated)
            case 5:
                return IsNull(one, negated)
            case 6:
                pattern = self.random.choice(["a%", "%b%", "_", "%", "BA"])
                return TextMatch("LIKE", self.of("String", depth), literal(pattern), negated)
        return Binary(self.random.choice(["=", "<>", "<", "<=", ">", ">="]), one, other)
