"""No text makes the parser, the planner, or what they make crash: all that ever comes out is a QueryError with a place."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from detectors.cql import QueryError, Script
from detectors.cql.grammar.cql_parser import parse_statements
from detectors.cql.planning.explain_statement import explained
from middleware.cli.queries.prompt import WORDS, candidates
from middleware.model.change import Delta
from middleware.model.event import END, Event
from middleware.model.time import SECOND


class Tick(Event):
    symbol: str | None
    price: float
    quantity: int
    at: int


class Quote(Event):
    symbol: str
    price: float


STATEMENTS = [
    "SELECT symbol, avg(price) AS mean FROM Tick [SIZE 10 seconds EVERY 1 seconds] GROUP BY symbol INTO Bar",
    "SELECT * FROM (SELECT price + 1 AS p FROM Tick WHERE symbol LIKE 'I%') AS x [SIZE 3 EVERY 2] EXECUTE TIME DRIVEN",
    "SELECT a.price, b.price FROM Tick AS a [SIZE 60 ON ts] JOIN Quote AS b [SIZE 60 ON ts] ON a.symbol = b.symbol",
    "CREATE STREAM S (a Int NOT NULL, b Datetime, c Char) TIMESTAMP b SOURCE FILE ('x.csv', ',')",
    "CREATE SCHEMA X (id Int) EXTENDS Tick; CREATE STREAM Y X; INSERT INTO Y AS Y",
    "ON Tick INSERT INTO A SELECT symbol WHERE at BETWEEN 1 AND 3, INSERT INTO B SELECT * WHERE NOT quantity IN (1, NULL)",
    "MERGE Tick, Tick INTO Z; EXPLAIN SELECT count(*) FROM Tick [DELTA 1.5 ON price * 2]",
    "SELECT CASE WHEN price > 1 THEN 'x' ELSE symbol || 'y' END AS z, CAST(price AS Int) / 0 FROM Tick WHERE price IS NOT NULL",
    "SELECT max(price), window_end() FROM Tick [LANDMARK AT '2015-01-01' EVERY 5 ON at PARTITIONED BY symbol] GROUP BY at",
    "SELECT first(price) FROM Tick [FIXED FROM 3 TO 5 ON at] EXECUTE BATCH DRIVEN BY quantity",
]
PIECES = [
    *sorted({word for text in STATEMENTS for word in text.replace("(", " ( ").replace(")", " ) ").split()} | set(WORDS)),
    "(", ")", "[", "]", ",", ";", "'", '"', "`a`", "--", "/*", "*/", "\n", "\x00", "é", "9" * 30, "1e400", "0", "-1", "<<", "~",
    "substring(symbol, 0-9)", "power(price, 1e3)", "date_add('month', 99999999, to_datetime('2000-01-01'))", "1 ns",
    "round(price, 400)", "REGEX '('", "REGEX symbol", "quantity << quantity", "to_char(quantity)", "a.b.c", "ts", "90 days",
    "window_start()", "argmax(price, at)",
]  # fmt: skip


@st.composite
def mangled(draw):
    """A statement with some of its words replaced, dropped, or doubled."""
    words = draw(st.sampled_from(STATEMENTS)).split()
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(words) - 1))
        words[at : at + draw(st.integers(0, 2))] = [draw(st.sampled_from(PIECES))]
        words = words or ["SELECT"]
    return " ".join(words)


TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join),
    mangled(),
    st.integers(1, 400).map(lambda n: "SELECT " + "(" * n + "1" + ")" * n + " FROM Tick"),
    st.integers(1, 400).map(lambda n: "SELECT " + "- " * n + "price FROM Tick"),
    st.integers(1, 400).map(lambda n: "SELECT price" + " + price" * n + " FROM Tick"),
    st.integers(1, 400).map(lambda n: "SELECT price FROM Tick WHERE quantity = 1" + " OR quantity = 2" * n),
    st.integers(1, 60).map(lambda n: "SELECT * FROM (" * n + "SELECT price FROM Tick" + ")" * n),
)
TICKS = [
    Tick(None, -0.0, 0, 5, ts=1 * SECOND, id=1, source="a"),
    Tick("IBM", 1e308, 2**62, -3, ts=2 * SECOND, id=2, source="a"),
    Tick("é", -1e-300, -(2**63), 2**40, ts=2 * SECOND, id=3, source="b"),
]
QUOTES = [Quote("IBM", 2.0, ts=2 * SECOND, id=1, source="q")]


def assert_located(error):
    assert error.line >= 1
    assert error.column >= 1
    assert str(error).startswith(f"line {error.line}, column {error.column}: ")


@settings(max_examples=400, deadline=None)
@given(TEXTS)
@example("SELECT quantity * quantity * quantity * quantity * price AS x FROM Tick")
@example("CREATE STREAM x (__class__ Int, namespace Int, id Int, `from` Int)")
def test_no_text_makes_it_crash(text):
    script = Script([Tick, Quote])
    try:
        script.add(text)
    except QueryError as refused:
        assert_located(refused)
    for plan in script.plans:
        explained([plan])
    for operator in script.operators:
        operation = operator.start(operator.name, 1)
        taken = [event for event in [*TICKS, *QUOTES] if event.__class__ in operator.subscribes]
        operation.apply(Delta(taken), 3 * SECOND, SECOND // 2)
        operation.apply(Delta([], [], taken[1:]), 4 * SECOND, SECOND // 2)
        operation.apply(Delta(taken[1:]), END, END)


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_completion_takes_any_text(text):
    assert isinstance(candidates(Script([Tick]), text), list)


def test_the_statements_themselves_are_sound():
    """Else the fuzzing would only ever see refusals."""
    for text in STATEMENTS:
        assert parse_statements(text)
    script = Script([Tick, Quote])
    for text in STATEMENTS[:4]:
        script.add(text)
    assert len(script.operators) == 4
