"""Expressions go between processes: pickled, copied, or sent to an executor, a tree is what it was."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import cloudpickle
import pytest

from detectors.language import expression
from detectors.language.expression import (
    NULL,
    Arithmetic,
    Assignment,
    Comparison,
    Conditional,
    Conjunction,
    ConstantValue,
    Disjunction,
    ElementRead,
    Expression,
    FalseTest,
    FieldRead,
    FunctionCall,
    GroupAggregate,
    Membership,
    Negation,
    NullableOperand,
    NullTest,
    Parenthesis,
    RangeTest,
    SealedValue,
    SignedValue,
    StrictOperation,
    ValueTuple,
    Variable,
)
from detectors.language.written import ExpressionWriter, NotPlainError, tuples_named

X, KEPT = FieldRead("e", "x"), Variable("t1")
NODES: list[Expression] = [
    Expression("anything(e)"), ConstantValue("c0", "two"), X, ElementRead("a", 2), KEPT, Assignment(KEPT, X), Parenthesis(X),
    SignedValue("-", X), Arithmetic("+", X, ConstantValue("1", 1)), Comparison("=", X, NULL),
    RangeTest(Assignment(KEPT, X), 2**31),
    NullTest(X, True), FalseTest(X), Negation(X), Conjunction([Negation(X), X]), Disjunction([X]), Conditional(X, X, NULL),
    FunctionCall("quotient", [X, Conjunction([X])]), Membership(X, ConstantValue("c1", frozenset({1})), False),
    ValueTuple([X, X]), SealedValue(Parenthesis(X), X, 2**63), NullableOperand(X),
    StrictOperation(Parenthesis(X), SignedValue("-", NullableOperand(X)), NULL),
    GroupAggregate(FunctionCall("len", [X]), "sum", "e0", "x"),
]  # fmt: skip


def parts(node: Any) -> Any:
    """A node with all that is below it, by class and name."""
    if isinstance(node, Expression):
        return type(node), str(node), [parts(getattr(node, name)) for name in type(node).__slots__]
    return list(map(parts, node)) if isinstance(node, tuple) else node


def test_every_node_is_here() -> None:
    kinds = {each for each in vars(expression).values() if isinstance(each, type) and issubclass(each, Expression)}
    assert kinds == set(map(type, NODES))


@pytest.mark.parametrize("node", NODES, ids=lambda node: type(node).__name__)
def test_a_node_that_travels_is_what_it_was(node: Expression) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert parts(pickle.loads(pickle.dumps(node, protocol))) == parts(node)
    assert parts(cloudpickle.loads(cloudpickle.dumps(node))) == parts(node)
    assert parts(copy.deepcopy(node)) == parts(node)


def test_half_a_surrogate_pair_is_no_text_of_the_cores() -> None:
    with pytest.raises(NotPlainError):
        ExpressionWriter(tuples_named("e")).written(Comparison("<>", X, ConstantValue("c0", "\ud800")))
