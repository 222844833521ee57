"""Every function and every conversion, over the hardest values of each type: none raises, and all results are of their type."""

import itertools
import math
from contextlib import suppress

import pytest

from detectors.cql import compile_cql
from detectors.cql.partitions.trees import tree_plan
from detectors.language.aggregate_functions import NAMES, aggregate
from detectors.language.code import Code
from detectors.language.conversions import caster
from detectors.language.expression import Variable
from detectors.language.functions import FUNCTIONS, NUMBER, SAME
from detectors.language.query_errors import QueryError, TextSpan
from detectors.language.value_types import LIMITS, PYTHON, REALS, Type, ValueKind

WHOLE = [0, 1, -1, 7, 400, -400, 0xD800]
VALUES = {
    Type.BOOLEAN: [True, False],
    Type.CHAR: ["a", "\ue000", "", "ab"],  # the last two are none, but others may send them
    Type.BYTE: [0, -128, 127],
    Type.SHORT: [0, 32767, -32768],
    Type.INT: [*WHOLE, 2**31 - 1, -(2**31)],
    Type.LONG: [*WHOLE, 2**63 - 1, -(2**63), 253_402_300_799],
    Type.FLOAT: [0.0, -0.0, 3e38, math.inf, math.nan],
    Type.DOUBLE: [0.0, -0.0, 1.5, -2.5, 1.7e308, -1.7e308, 5e-324, 1e20, math.inf, -math.inf, math.nan],
    Type.STRING: [
        "",
        "a",
        "%",
        "(",
        "nan",
        "1e999",
        "9" * 50,
        "2015-02-30",
        "9999-12-31",
        "0001-01-01",
        "MM%Y\0",
        "month",
        "day",
        "٣",
    ],
    Type.DATETIME: [0, -30_610_224_000, 253_402_300_799, 253_402_300_800, 10**17, -(10**17)],
}


def assert_of(kind, value, where):
    if value is None:
        return
    assert type(value) is PYTHON[kind], where
    if kind in LIMITS:
        assert -LIMITS[kind] <= value < LIMITS[kind], where
    if isinstance(value, str):
        assert value.encode() or not value, where
        assert kind is not Type.CHAR or len(value) == 1, where


@pytest.mark.parametrize("source", VALUES)
@pytest.mark.parametrize("target", VALUES)
def test_conversions(source, target):
    convert = caster(source, target)
    for value in VALUES[source] if convert is not None else []:
        assert_of(target, convert(value), (value, source, target))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", [Type.LONG, Type.DOUBLE, Type.STRING])
def test_functions(name, kind):
    function = FUNCTIONS[name]
    if kind is Type.STRING and NUMBER in function.parameters:
        return
    kinds = [kind if parameter in (SAME, NUMBER) else Type(parameter) for parameter in function.parameters]
    result = kind if function.result in (SAME, NUMBER) else Type(function.result)
    for count in range(len(kinds) - function.optional, len(kinds) + 1 + function.is_variadic):
        given = (kinds + kinds[-1:])[:count]
        for arguments in itertools.product(*(VALUES[each] for each in given)):
            found = function.call(*arguments)
            if name != "abs" or kind in REALS:  # of the least Long it is sealed where it is called
                assert_of(result, found, (name, arguments))


@pytest.mark.parametrize("name", sorted(NAMES))
@pytest.mark.parametrize("kind", [Type.INT, Type.LONG, Type.DOUBLE, Type.STRING, Type.BOOLEAN])
def test_aggregates(name, kind):
    second = [Code(Variable("w"), ValueKind(Type.DOUBLE))]
    try:
        chosen = aggregate(name, [Code(Variable("v"), ValueKind(kind))], False, TextSpan(0, 1))
        contents = [list(values) for count in (1, 2) for values in itertools.product(VALUES[kind], repeat=count)]
    except QueryError:
        try:
            chosen = aggregate(name, [Code(Variable("v"), ValueKind(kind)), *second], False, TextSpan(0, 1))
        except QueryError:
            return  # of numbers alone
        pairs = list(itertools.product(VALUES[kind], VALUES[Type.DOUBLE]))
        contents = [[one] for one in pairs] + [list(each) for each in itertools.product(pairs[::3], repeat=2)]
    for values in contents:
        assert_of(chosen.kind.type, chosen.fold(values), (name, values))


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_tree_serves_each_aggregate_over_windows_that_overlap(name):
    plans = []
    for arguments in ("x", "x, 0.5"):
        with suppress(QueryError):
            query = f"SELECT {name}({arguments}) AS a FROM A [SIZE 10 seconds EVERY 1] INTO R"
            (operator,) = compile_cql(f"CREATE STREAM A (x Double); {query}").operators
            plans.append(tree_plan(operator.plan))
    assert plans, f"{name} takes neither one argument nor two"
    assert all(plan is not None and plan.parts for plan in plans) or name.endswith("distinct")
