"""Queries tuple by tuple: schemas, selections, conversions, splits, merges, closure; identities; EXPLAIN; what it all costs."""

import random

import pytest

from detectors.cql import compile_cql
from detectors.cql.grammar.cql_parser import parse_statements
from detectors.cql.planning.explain_statement import explained
from detectors.cql.query_operators.join_operator import FACTORS
from detectors.language import Attributes, Code, CodeFrame, Type, ValueKind, analyse, parse_expression
from detectors.language.expression import Variable
from detectors.language.value_types import CONVERTIBLE
from middleware import native
from middleware.model.change import Delta
from middleware.model.event import END, ORDER
from middleware.model.time import SECOND
from middleware.runtime.engine import run
from tests.oracles.pairs import Pairs

TICK = "CREATE STREAM Tick (symbol String, price Double, quantity Int, c Char, day Datetime);"
KNOWN = "CREATE STREAM Tick (symbol String, price Double NOT NULL, quantity Int);"


def value(text, **attributes):
    """The value of an expression over attributes given as (type, value)."""
    frame = CodeFrame()
    codes = {name: Code(Variable(name), ValueKind(kind, given is None)) for name, (kind, given) in attributes.items()}
    code = frame.sealed(analyse(parse_expression(text), Attributes(codes), frame))
    return frame.function(", ".join(attributes) or "_=None", code.value)(*(given for _, given in attributes.values()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7 / 2", 3), ("-7 / 2", -3), ("-7 % 3", -1), ("1 / 0", None), ("1.0 / 0", None), ("7 / 2.0", 3.5),
        ("9223372036854775807 + 1", None), ("1 << 3 | 1", 9), ("~5 & 6", 2), ("5 ^ 1", 4), ("2 + 3 * 4 - 1", 13),
        ("'a' || 'b'", "ab"), ("NOT 1 = 1 OR 2 > 1", True), ("NULL = NULL", None), ("NULL IS NULL", True),
        ("1 IN (1, NULL)", True), ("2 IN (1, NULL)", None), ("2 NOT IN (1, 3)", True), ("2 BETWEEN 1 AND 2", True),
        ("'IBM' LIKE 'I_M'", True), ("'I%M' LIKE 'I\\%M'", True), ("'abc' REGEX '^a.c$'", True), ("'x' NOT REGEX 'y'", True),
        ("CASE WHEN 1 > 2 THEN 'a' WHEN NULL THEN 'b' ELSE 'c' END", "c"), ("CASE WHEN 1 > 2 THEN 1 END", None),
        ("CAST('12.7' AS Int)", 12), ("CAST('x' AS Int)", None), ("CAST(300 AS Byte)", None), ("to_byte(127)", 127),
        ("to_string(1.5)", "1.5"), ("to_boolean('TRUE')", True), ("CAST(0.1 AS Float)", 0.10000000149011612),
        ("to_datetime('2015-05-01 08:18:23')", 1430468303), ("to_datetime('2015-13-01')", None), ("year(from_epoch(0))", 1970),
        ("to_string(to_datetime('2015-05-01'))", "2015-05-01 00:00:00"), ("to_datetime('2015-05-01') > '2015-04-30'", True),
        ("date_add('month', 1, to_datetime('2015-01-31'))", 1425081600), ("day_of_week(to_datetime('2015-05-01'))", 5),
        ("date_trunc('week', to_datetime('2015-05-01 12:00:00'))", 1430092800), ("substring('stream', 2, 3)", "tre"),
        ("date_diff('hours', to_datetime('2015-05-01'), to_datetime('2015-05-02 01:30:00'))", 25), ("position('m', 'am')", 2),
        ("coalesce(NULL, 2)", 2), ("nullif(1, 1)", None), ("greatest(1, 2.5)", 2.5), ("sqrt(-1)", None), ("ln(0)", None),
        ("round(2.5)", 3.0), ("round(-2.345, 2)", -2.35), ("abs(-3)", 3), ("upper(trim(' a '))", "A"), ("sign(-2.5)", -1),
        ("power(10, 400)", None), ("left('abc', 2) || right('abc', 1)", "abc"), ("date_format(from_epoch(0), 'DD')", "01"),
    ],
)  # fmt: skip
def test_expressions(text, expected):
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_implicit_conversions_are_those_of_table_4_1():
    """Each type converts to just those of its row: that is what a function that needs them takes."""
    wider = ["Byte", "Short", "Int", "Long", "Float", "Double"]
    rows = {"Char": {"Byte", "Short", "Int", "Long", "Double"}, **{t: set(wider[n + 1 :]) for n, t in enumerate(wider)}}
    assert {
        str(source): {str(target) for target in targets} for source, targets in CONVERTIBLE.items() if source != "Null"
    } == rows
    assert value("c + 1", c=(Type.CHAR, "A")) == 66
    assert value("sqrt(b)", b=(Type.BYTE, 4)) == 2.0
    assert value("c = 'A' AND s || c = 'xA'", c=(Type.CHAR, "A"), s=(Type.STRING, "x")) is True


def results(text, events, name):
    script = compile_cql(text)
    make = script.types["Tick"]
    made = [make(*row, ts=ts * SECOND, id=n, source="x") for n, (ts, *row) in enumerate(events)]
    random.Random(4).shuffle(made)
    return run(made, script.operators, batch=len(made)).finals[name]


ROWS = [
    (1, "A", 1.0, 100_000, "x", 0),
    (2, "B", 2.0, 20_000, "y", 1),
    (3, "A", 3.0, 5, "z", None),
    (4, "C", None, 30_000, None, 2),
]


def test_a_tuple_goes_wherever_a_split_wants_it():
    text = f"""{TICK} ON Tick
        INSERT INTO LargeTicks SELECT symbol, price WHERE quantity >= 100000
        INSERT INTO MediumTicks SELECT symbol, price WHERE quantity BETWEEN 20000 AND 100000
        INSERT INTO SmallTicks SELECT symbol, price WHERE quantity > 0"""
    split = {name: [e.symbol for e in results(text, ROWS, name)] for name in ("LargeTicks", "MediumTicks", "SmallTicks")}
    assert split == {"LargeTicks": ["A"], "MediumTicks": ["A", "B", "C"], "SmallTicks": ["A", "B", "A", "C"]}


def test_the_output_of_any_query_can_be_the_input_of_another():
    text = f"""{TICK} CREATE STREAM Doubled AS SELECT symbol, price * 2 AS twice FROM Tick WHERE price IS NOT NULL;
        CREATE STREAM Both (symbol String, x Double);
        INSERT INTO Both AS Doubled; INSERT INTO Both SELECT symbol, price FROM Tick;
        SELECT symbol, sum(x) AS total FROM (SELECT symbol, x FROM Both WHERE x < 6) AS b [SIZE 10 seconds]
        GROUP BY symbol INTO Sum;
        SELECT max(total) AS top FROM Sum [SIZE 1] INTO Top"""
    assert sorted((e.symbol, e.total) for e in results(text, ROWS, "Sum")) == [("A", 6.0), ("B", 6.0)]
    assert [e.top for e in results(text, ROWS, "Top")] == [6.0, 6.0]


def test_merged_streams_have_the_types_of_the_stream_that_they_become():
    script = compile_cql("""CREATE STREAM A (ts Long NOT NULL, x Int NOT NULL); CREATE STREAM B (ts Long NOT NULL, x Int);
        CREATE STREAM Wide (x Float); MERGE A, B INTO Wide; MERGE A, B INTO Same""")
    A, B = script.types["A"], script.types["B"]
    ticks = [A(16_777_217, ts=1, id=1, source="a"), B(16_777_217, ts=2, id=1, source="b"), B(None, ts=3, id=2, source="b")]
    found = run(ticks, script.operators).finals
    assert [repr(e.x) for e in found["Wide"]] == ["16777216.0", "16777216.0", "None"]
    assert [repr(e.x) for e in found["Same"]] == ["16777217", "16777217", "None"]


def test_streams_of_one_schema_merge_and_keep_their_identities_apart():
    script = compile_cql("""CREATE STREAM A (x Int); CREATE STREAM B (x Int NOT NULL); MERGE A, B INTO C;
                            SELECT count(*) AS n FROM C [SIZE 4] INTO N""")
    a, b = script.types["A"], script.types["B"]
    events = [a(n, ts=n, id=n, source="a") for n in range(4)] + [b(n, ts=n, id=n, source="b") for n in range(4)]
    found = run(events, script.operators).finals
    assert sorted(e.x for e in found["C"]) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len({e.id for e in found["C"]}) == 8
    assert [e.n for e in found["N"]] == [4, 4]


def test_a_mapped_tuple_that_is_revised_is_revised_and_not_repeated():
    script = compile_cql(f"{TICK} SELECT symbol, price FROM Tick WHERE price > 1 INTO High")
    make = script.types["Tick"]
    operation = script.operators[0].start("High", 1)
    old, new, low = (make("A", price, 1, "c", 0, ts=5, id=1, source="x") for price in (2.0, 3.0, 0.5))
    (first,) = operation.apply(Delta([old]), 9, 0).inserts
    out = operation.apply(Delta([new], [], [old]), 9, 0)
    assert (out.inserts, out.retracts, len(out.revises)) == ([], [], 1)
    assert out.revises[0][0] == first
    assert operation.apply(Delta([low], [], [new]), 9, 0).retracts == [out.revises[0][1]]
    assert not operation.apply(Delta([low], [], [low]), 9, 0)


def test_explain_says_what_runs():
    script = compile_cql(f"{TICK} CREATE STREAM Q (symbol String, bid Double);")
    (statement,) = parse_statements(
        "SELECT symbol, max(price) FROM Tick [SIZE 60 ON ts EVERY 10 ON ts WHERE price > 1] GROUP BY symbol"
    )
    text = explained(script.explain(statement, ""))
    for part in ("Tick -> Query1", "sliding, 60s every 10s", "partitioned by e.symbol", "max(e.price)", "tuple-driven"):
        assert part in text
    assert not script.operators
    assert script.catalog.find("Query1") is None


def shortest(vectors):
    """A short vector of the lattice of pairs, by Gauss' reduction."""
    a, b = vectors
    while True:
        if a[0] ** 2 + a[1] ** 2 > b[0] ** 2 + b[1] ** 2:
            a, b = b, a
        factor = round((a[0] * b[0] + a[1] * b[1]) / (a[0] ** 2 + a[1] ** 2))
        if factor == 0:
            return a
        b = (b[0] - factor * a[0], b[1] - factor * a[1])


def test_identities_of_pairs_do_not_collide_for_sequence_numbers():
    """(x, y) with x * F0 + y * F1 = 0 modulo 2^64 are a lattice; two pairs collide only if their difference lies in it."""
    inverse = pow(FACTORS[1], -1, 2**64)
    x, y = shortest([(1, -FACTORS[0] * inverse % 2**64), (0, 2**64)])
    assert (x * FACTORS[0] + y * FACTORS[1]) % 2**64 == 0
    assert max(abs(x), abs(y)) > 2**31


def test_the_index_of_pairs_and_the_oracle_agree():
    generator = random.Random(6)
    make = compile_cql(TICK).types["Tick"]
    marking = ((FACTORS[0], {"x": 2**63 - 1}), (FACTORS[1], {"x": -(2**63)}))
    one, other = native.Pairs(5, 3, *marking), Pairs(5, 3, *marking)
    there = {True: [], False: []}
    for round_number in range(300):
        is_left = generator.random() < 0.5
        key = generator.choice([0, 1, 1.0, "a", ("a", 1), True, None])
        if there[is_left] and generator.random() < 0.4:
            key, event = there[is_left].pop(generator.randrange(len(there[is_left])))
            met = [index.remove(is_left, [key], [event]) for index in (one, other)]
        else:
            event = make("s", 1.0, 1, "c", 0, ts=generator.randrange(40), id=round_number, source="x")
            there[is_left].append((key, event))
            met = [index.insert(is_left, [key], [event]) for index in (one, other)]
        pairs = [sorted(zip(map(ORDER, left), map(ORDER, right), ids, strict=True)) for left, right, ids in met]
        assert pairs[0] == pairs[1]
        assert (one.held, one.keys) == (other.held, other.keys)
    one.forget(20)
    other.forget(20)
    assert (one.held, one.keys) == (other.held, other.keys)
    for is_left in (True, False):
        contents = [{str(hash(key)): list(map(ORDER, run)) for key, run in index.content(is_left)} for index in (one, other)]
        assert {key: sorted(run) for key, run in contents[0].items()} == {key: sorted(run) for key, run in contents[1].items()}


@pytest.mark.parametrize(
    "window",
    [
        "SIZE 10 EVERY 1",
        "SIZE 10 seconds EVERY 1",
        "SIZE 10 EVERY 10 seconds",
        "DELTA 5 ON quantity",
        "LANDMARK EVERY 10 seconds",
    ],
)
def test_memory_follows_what_can_still_change(window):
    script = compile_cql(f"{KNOWN} SELECT max(price) AS top FROM Tick [{window}] INTO Top")
    make = script.types["Tick"]
    operation = script.operators[0].start("Top", 1)
    most = 0
    for n in range(0, 20_000, 100):
        batch = [make("A", float(i), i % 7, ts=i * SECOND, id=i, source="x") for i in range(n, n + 100)]
        operation.apply(Delta(batch), (n + 99) * SECOND, (n + 50) * SECOND)
        most = max(most, operation.held)
    assert most < 1000
    operation.apply(Delta(), END, END)
    assert operation.held == 0


def test_further_aggregates():
    text = f"""{TICK} SELECT count_distinct(symbol) AS kinds, approx_count_distinct(symbol) AS about,
        max_count(quantity) AS most, quantile(price, 0.5) AS half, median(price) AS middle, geomean(price) AS geo,
        argmax(symbol, price) AS best,
        argmin(symbol, quantity) AS least, stddev_pop(price) AS sd, count(price) AS known FROM Tick [SIZE 4] INTO Out"""
    (e,) = results(text, ROWS, "Out")
    assert (e.kinds, e.about, e.most, e.half, e.middle, e.best, e.least, e.known) == (3, 3, 1, 2.0, 2.0, "A", "A", 3)
    assert e.geo == pytest.approx(6 ** (1 / 3))
    assert e.sd == pytest.approx((2 / 3) ** 0.5)


def test_a_result_whose_zero_changes_its_sign_is_revised():
    script = compile_cql(
        "CREATE STREAM Tick (price Double);SELECT last(price) AS price FROM Tick [SIZE 10 seconds EVERY 10 seconds] INTO Last"
    )
    make = script.types["Tick"]
    operation = script.operators[0].start("Last", 1)
    first, second = (make(price, ts=n, id=n, source="x") for n, price in ((1, 0.0), (2, -0.0)))
    assert [repr(each.price) for each in operation.apply(Delta([first]), 20 * SECOND, 0).inserts] == ["0.0"]
    assert [repr(new.price) for _, new in operation.apply(Delta([second]), 20 * SECOND, 0).revises] == ["-0.0"]
