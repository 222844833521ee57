"""Tables: read once, looked up by each tuple, and part of what the query is."""

import random

import pytest

from detectors.cql import QueryError, Script, compile_cql, load_cql
from middleware.model.time import SECOND
from middleware.testing.operators import history, in_order, play

STATEMENTS = """CREATE TABLE Rates (currency String, rate Double, since Int) SOURCE FILE ('rates.csv', ',');
                CREATE STREAM Sale (currency String, amount Double NOT NULL);"""
LINES = "currency,rate,since\nEUR,1.5,1\nUSD,1.0,1\nEUR,2.0,7\n,9.0,1\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "rates.csv").write_text(LINES)
    return tmp_path


def sales(script):
    kept = [("EUR", 10.0), ("USD", 20.0), ("GBP", 30.0), (None, 40.0), ("EUR", 50.0)]
    return [script.types["Sale"](c, a, ts=n * SECOND, id=n, source="s") for n, (c, a) in enumerate(kept, 1)]


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        ("JOIN Rates r ON s.currency = r.currency", [15.0, 20.0, 20.0, 75.0, 100.0]),
        ("JOIN Rates r USING (currency) WHERE since > 1", [20.0, 100.0]),
        ("LEFT JOIN Rates r ON s.currency = r.currency AND r.since > amount / 4", [None, None, None, None, 20.0]),
        ("LEFT JOIN Rates USING currency WHERE rate IS NULL", [None, None]),
        ("CROSS JOIN Rates WHERE amount = 10", [10.0, 15.0, 20.0, 90.0]),
    ],
)
def test_a_stream_looks_up_rows_whatever_its_order(folder, join, expected):
    script = compile_cql(f"{STATEMENTS} SELECT amount * rate AS value FROM Sale s {join} INTO Value", folder=folder)
    (operator,) = script.operators
    found = play(operator, in_order(sales(script)))
    assert sorted((e.value for e in found), key=repr) == sorted(expected, key=repr)
    passing = [e.__class__("EUR", 1.0, ts=e.ts, id=e.id + 100, source="s") for e in sales(script)]
    assert play(operator, history(sales(script), random.Random(3), passing), [2]) == found


def test_what_a_stream_looks_up_is_aggregated_in_a_window(folder):
    text = """SELECT currency, sum(value) AS total FROM (SELECT s.currency AS currency, amount * rate AS value
              FROM Sale s JOIN Rates r USING currency WHERE since = 1) [SIZE 10 seconds] GROUP BY currency INTO Total"""
    script = compile_cql(f"{STATEMENTS} {text}", folder=folder)
    results = sales(script)
    for operator in script.operators:
        results = play(operator, in_order(results))
    assert sorted((e.currency, e.total) for e in results) == [("EUR", 75.0 + 15.0), ("USD", 20.0)]


def test_other_rows_are_another_query(folder):
    text = f"{STATEMENTS} SELECT amount FROM Sale JOIN Rates USING currency INTO Known"
    before = compile_cql(text, folder=folder).operators[0].definition
    assert compile_cql(text, folder=folder).operators[0].definition == before
    (folder / "rates.csv").write_text(LINES.replace("1.5", "1.6"))
    assert compile_cql(text, folder=folder).operators[0].definition != before


def test_tables_lie_beside_the_script(folder):
    (folder / "sales.cql").write_text(f"{STATEMENTS} SELECT amount FROM Sale JOIN Rates USING currency INTO Known")
    script = load_cql(folder / "sales.cql")
    assert [operator.name for operator in script.operators] == ["Known"]
    assert not script.sources


REFUSED = {
    "SELECT rate FROM Rates": "Rates is a table: a stream may JOIN it",
    "INSERT INTO Rates AS Sale": "has a raw source already",
    "SELECT rate FROM Sale RIGHT JOIN Rates USING currency": "JOIN or LEFT JOIN it",
    "SELECT rate FROM Sale [SIZE 3 s] JOIN Rates USING currency": r"needs no window: leave \[...\] out",
    "SELECT max(rate) AS m FROM Sale JOIN Rates USING currency": r"write FROM \(SELECT ... JOIN ...\) \[SIZE ...\]",
    "CREATE TABLE Gone (x Int) SOURCE FILE ('gone.csv', ',')": "gone.csv cannot be read",
    "CREATE TABLE Bad (x Int, y Int, z Int) SOURCE FILE ('rates.csv', ',')": "line 1: x is no Int",
    "SELECT rate FROM Sale JOIN Rates FOR SYSTEM_TIME AS OF ts USING currency": "FOR SYSTEM_TIME is not supported",
}


@pytest.mark.parametrize("text", REFUSED)
def test_it_is_refused_with_what_to_write(folder, text):
    script = Script(folder=folder)
    script.add(STATEMENTS)
    with pytest.raises(QueryError, match=f"(?s){REFUSED[text]}.*\\^"):
        script.add(text)
