"""What is refused, with the place, what was expected, and the nearest known name; and what stays as it was afterwards."""

import pytest

from detectors.cql import QueryError, Script, compile_cql
from middleware.model.change import Delta
from middleware.model.event import Event

TICK = "CREATE STREAM Tick (symbol String, price Double NOT NULL, quantity Int, at Long, flag Boolean, day Datetime, c Char);"
OTHER = "CREATE STREAM Quote (symbol String, price Double);"

REFUSED = {
    "SELECT max(at) AS a, tumble_end(ts, INTERVAL '9' SECONDS) AS e FROM Tick GROUP BY TUMBLE(ts, INTERVAL '3' SECONDS)": (
        "TUMBLE_END is of another window than TUMBLE in GROUP BY",
        1,
    ),
    "SELCT symbol FROM Tick": (r"line 1, column 1: unexpected 'SELCT'; did you mean 'SELECT'\?", 1),
    "SELECT symbol FORM Tick": (r"unexpected 'Tick' after 'FORM'; did you mean 'FROM'\?", 1),
    "SELECT\n  prise FROM Tick": (r"line 2, column 3: unknown attribute 'prise'; did you mean 'price'\?", 2),
    "SELECT symbol FROM Tik": (r"unknown stream 'Tik'; did you mean 'Tick'\?", 1),
    "SELECT lenght(symbol) FROM Tick": (r"unknown function 'lenght'; did you mean 'length'\?", 1),
    "SELECT x.symbol FROM Tick AS y": (r"unknown stream 'x'.*streams here: y", 1),
    "SELECT avg(price) FROM Tick": (r"avg would block: .* \[SIZE 100\]", 1),
    "SELECT symbol FROM Tick WHERE avg(price) > 1": ("not known yet where WHERE is decided", 1),
    "SELECT sum(avg(price)) FROM Tick [SIZE 3]": ("stands inside another aggregate", 1),
    "SELECT symbol, avg(price) FROM Tick [SIZE 3]": (r"'symbol' has many values in a window: GROUP BY symbol", 1),
    "SELECT *, avg(price) FROM Tick [SIZE 3]": (r"\* has many values", 1),
    "SELECT avg(symbol) FROM Tick [SIZE 3]": ("avg aggregates numbers, and this is a String", 1),
    "SELECT symbol FROM Tick GROUP BY symbol HAVING symbol = 'a'": ("HAVING does not apply", 1),
    "SELECT symbol FROM Tick WHERE price": ("WHERE needs a condition, and this is a Double", 1),
    "SELECT symbol + 1 FROM Tick": (r"\+ works on numbers, and this is a String", 1),
    "SELECT symbol FROM Tick WHERE symbol > 1": ("cannot bring String and Int together", 1),
    "SELECT symbol FROM Tick WHERE flag > true": ("Booleans have no order", 1),
    "SELECT price & 1 FROM Tick": ("works on whole numbers", 1),
    "SELECT * FROM Tick [SIZE 3] ORDER BY 1 LIMIT 1": (r"ORDER BY 1 counts columns that \* stands for", 1),
    "SELECT symbol, * FROM Tick [SIZE 3] ORDER BY 2 LIMIT 1": (r"ORDER BY 2 counts columns that \* stands for", 1),
    "SELECT symbol FROM Tick [SIZE 3] ORDER BY 2 LIMIT 1": ("ORDER BY 2: columns are counted from 1 to 1", 1),
    "SELECT symbol FROM Tick [SIZE 3] ORDER BY 0 LIMIT 1": ("ORDER BY 0: columns are counted from 1 to 1", 1),
    "SELECT lag(price) OVER (ORDER BY ts), sum(price) OVER (ORDER BY ts) FROM Tick": ("lag goes by rows: .*ROWS UNBOUNDED", 1),
    "SELECT NULL FROM Tick": ("NULL alone has no type", 1),
    "SELECT symbol FROM Tick WHERE day > 'yesterday'": (r"'yesterday' is no Datetime: write 'YYYY", 1),
    "SELECT symbol FROM Tick WHERE symbol REGEX '('": ("no regular expression", 1),
    "SELECT CAST(day AS Boolean) FROM Tick": ("no conversion from Datetime to Boolean", 1),
    "SELECT symbol FROM Tick [SIZE 3 huors]": (r"unknown time unit 'huors'; did you mean 'hours'\?", 1),
    "SELECT symbol FROM Tick [SIZE 3 fortnights]": ("unknown time unit 'fortnights'; units: ns, us, ms, s, min, h, d, week", 1),
    "SELECT DISTINCT symbol FROM Tick": ("DISTINCT would have to remember an endless stream: give the stream a window", 1),
    "SELECT upper(DISTINCT symbol) AS n FROM Tick [SIZE 3]": ("DISTINCT is for aggregates, and upper is none", 1),
    "SELECT quantile(DISTINCT price) AS n FROM Tick [SIZE 3]": (r"quantile\(DISTINCT ...\) means nothing", 1),
    "SELECT upper(symbol) FILTER (WHERE price > 1) AS n FROM Tick [SIZE 3]": ("FILTER is for aggregates", 1),
    "SELECT DISTINCT symbol FROM Tick [SIZE 3] ORDER BY price LIMIT 2": ("with DISTINCT, ORDER BY takes selected columns", 1),
    "SELECT symbol FROM Tick [SIZE 3] ORDER BY price": ("ORDER BY needs LIMIT", 1),
    "SELECT symbol FROM Tick [SIZE 3] ORDER BY price LIMIT 0": ("LIMIT 0 would never give a result", 1),
    "SELECT symbol, count(*) AS n FROM Tick [SIZE 3] GROUP BY symbol ORDER BY n LIMIT 2": ("need windows over time", 1),
    "SELECT symbol FROM Tick [SIZE 3] HAVING symbol = 'A'": ("HAVING chooses among groups", 1),
    "SELECT count(*) AS n FROM Tick [SIZE 3 s] GROUP BY upper(symbol)": ("GROUP BY takes attributes: calculate this", 1),
    "SELECT count(*) FROM TABLE(TUMBLE(TABLE Tick, DESCRIPTOR(at), INTERVAL '5' MINUTES))": (r"write DESCRIPTOR\(ts\)", 1),
    "SELECT count(*) FROM TABLE(TUMBLE(TABLE Tick, DESCRIPTOR(ts), INTERVAL '5' MINUES))": ("write INTERVAL '10' MINUTES", 1),
    "SELECT count(*) FROM CUMULATE(TABLE Tick, DESCRIPTOR(ts), 1 s, 9 s)": ("CUMULATE is no window function here", 1),
    "SELECT count(*) FROM TUMBLE(TABLE Tick, DESCRIPTOR(ts), 1 s, 9 s)": ("TUMBLE takes one length, the size; offsets", 1),
    "SELECT count(*) AS n FROM Tick GROUP BY TUMBLE(ts, 5)": (r"window functions take lengths of time", 1),
    "SELECT symbol FROM Tick\nORDER\n BY symbol": ("line 3, column 5: ORDER BY: a stream comes in order of time", 3),
    "SELECT sum(price) OVER (PARTITION BY symbol) AS a FROM Tick": (r"OVER needs an order: write OVER \(ORDER BY ts\)", 1),
    "SELECT sum(price) OVER (ORDER BY at) AS a FROM Tick": (
        "OVER goes by time, and at is not that of Tick: write ORDER BY ts",
        1,
    ),
    "SELECT row_number() OVER (ORDER BY price) AS a FROM Tick": ("ORDER BY x DESC LIMIT n over a window", 1),
    "SELECT sum(price) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS a FROM Tick": (
        "FOLLOWING is not supported",
        1,
    ),
    "SELECT sum(price) OVER (ORDER BY ts RANGE 5 PRECEDING) AS a FROM Tick": ("RANGE measures time", 1),
    "SELECT upper(symbol) OVER (ORDER BY ts) AS a FROM Tick": ("upper is no aggregate", 1),
    "SELECT symbol FROM Tick WHERE sum(price) OVER (ORDER BY ts) > 3": ("OVER is known after WHERE is decided", 1),
    "SELECT sum(price) OVER (ORDER BY ts) AS a FROM Tick [SIZE 3]": ("OVER and a window of the stream are two windows", 1),
    "SELECT sum(price) OVER (ORDER BY ts) AS a, lag(price) OVER (PARTITION BY symbol ORDER BY ts) AS b FROM Tick": (
        "must have the same PARTITION BY",
        1,
    ),
    "SELECT sum(price) OVER (ORDER BY ts) AS a, row_number() OVER (ORDER BY ts) AS b FROM Tick": ("have the same frame", 1),
    "SELECT symbol FROM Tick LIMIT 3": ("LIMIT: a stream has no first rows", 1),
    "SELECT symbol FROM Tick [SIZE 3 s] JOIN Quote [SIZE 3 s] USING (symbol) JOIN Tick b [SIZE 3 s] USING symbol": (
        "which takes one",
        1,
    ),
    "SELECT a.symbol FROM Tick a LEFT JOIN Quote b USING symbol": ("would have to keep them for ever", 1),
    "SELECT symbol FROM Tick UNION ALL SELECT symbol FROM Quote": ("UNION is not supported: MERGE", 1),
    "SELECT symbol FROM Tick WHERE symbol IN (SELECT symbol FROM Quote)": ("join the streams", 1),
    "SELECT price FROM Tick GROUP BY symbol": ("'price' has many values in a group: aggregate it", 1),
    "SELECT symbol, price * 2 AS p FROM Tick [SIZE 3] GROUP BY symbol": ("'price' has many values in a window", 1),
    "SELECT count(*) FROM Tick [SIZE 0]": ("a window cannot be empty", 1),
    "SELECT count(*) FROM Tick [SIZE 3 ON price]": ("application time must be a whole number or a Datetime", 1),
    "SELECT count(*) FROM Tick [SIZE 3 ON at EVERY 2 ON quantity]": ("by one application time only", 1),
    "SELECT count(*) FROM Tick [SIZE 3 ON at] EXECUTE TIME DRIVEN": ("reacts to the time by which a stream is ordered", 1),
    "SELECT count(*) FROM Tick [SIZE 3] EXECUTE TIME DRIVEN BY at": ("only batches are distinguished", 1),
    "SELECT symbol FROM Tick EXECUTE TIME DRIVEN": ("a matter of windows", 1),
    "SELECT count(*) FROM Tick [SIZE 1 days EVERY 1 ns]": ("windows, over 100,000: give a larger EVERY", 1),
    "SELECT count(*) FROM Tick [FIXED FROM 5 TO 3]": ("must end after it begins", 1),
    "SELECT count(*) FROM Tick [SIZE 3 STARTING AT 5]": ("sets the first upper bound in time", 1),
    "SELECT count(*) FROM Tick [DELTA 3 ON symbol]": ("a delta window measures numbers", 1),
    "SELECT count(*) FROM Tick [DELTA 3 ON price, quantity BY euclid]": (
        r"unknown distance 'euclid'; did you mean 'euclidean'",
        1,
    ),
    "SELECT Tick.symbol FROM Tick [SIZE 3 s] JOIN Quote [SIZE 3] ON Tick.symbol = Quote.symbol": ("windows over time", 1),
    "SELECT Tick.symbol FROM Tick JOIN Quote [SIZE 3 s] USING symbol": ("would have to keep them for ever", 1),
    "SELECT price FROM Tick AS a [SIZE 3 s] JOIN Quote AS b [SIZE 3 s] USING symbol": (r"may mean a\.price or b\.price", 1),
    "SELECT symbol FROM Tick [SIZE 3 s] JOIN Tick [SIZE 3 s] USING symbol": ("give them aliases", 1),
    "CREATE STREAM Tick (a Int)": ("there is a stream 'Tick' already", 1),
    "CREATE STREAM X (a Int, A Long)": ("two attributes are named 'A'", 1),
    "CREATE STREAM X (a Flaot)": (r"unknown type 'Flaot'; did you mean 'Float'\?", 1),
    "CREATE STREAM X Shcema": ("unknown schema 'Shcema'", 1),
    "CREATE STREAM X (ts Int)": ("ts is the time of every event", 1),
    "CREATE STREAM X (a Double) TIMESTAMP a": ("whole number of seconds or a Datetime", 1),
    "CREATE STREAM X (a Int) SOURCE HOST ('h', 99999)": ("a port is a number", 1),
    "CREATE STREAM X (a Int) AS SELECT price FROM Tick": (r"X\.a is a Int, and this is a Double: CAST", 1),
    "CREATE STREAM X (a String NOT NULL) AS SELECT symbol FROM Tick": (r"cannot be NULL, and this may be: COALESCE", 1),
    "CREATE STREAM X (a String, b Int) AS SELECT symbol FROM Tick": (r"has 2 attributes .* and this query gives 1", 1),
    "INSERT INTO Tick AS SELECT * FROM Tick": ("derived from itself", 1),
    "CREATE STREAM X (a Double); CREATE STREAM Y AS X; SELECT a FROM Y INTO Z; INSERT INTO X AS Z": ("derived from itself", 1),
    "CREATE STREAM T (at Long) TIMESTAMP at; CREATE STREAM U AS T; INSERT INTO U SELECT at + 1 FROM T": ("is ordered by at", 1),
    "CREATE STREAM S (a Int) SOURCE FILE ('x', ','); CREATE STREAM T (a Int); INSERT INTO S AS T": (
        "has a raw source already",
        1,
    ),
    "MERGE Tick, Quote": ("does not have the schema of Tick", 1),
    "SELECT price AS ts FROM Tick": ("ts is the time of the result", 1),
    "SELECT symbol FROM (SELECT symbol FROM Tick INTO X)": ("leave INTO out", 1),
    "SELECT 99999999999999999999 FROM Tick": ("too large for a Long", 1),
}


@pytest.mark.parametrize("text", REFUSED)
def test_it_is_refused_with_place_and_reason(text):
    script = Script()
    script.add(TICK + OTHER)
    reason, line = REFUSED[text]
    with pytest.raises(QueryError, match=reason) as refused:
        script.add(text)
    shown = str(refused.value).splitlines()
    assert refused.value.line == line
    assert shown[-2].strip() == text.splitlines()[line - 1].strip()
    assert set(shown[-1].strip()) == {"^"}
    column = shown[-1].index("^") - 2
    assert column == refused.value.column - 1


def test_a_refused_statement_changes_nothing():
    script = Script()
    script.add(TICK)
    names, count = script.catalog.names(), len(script.operators)
    split = "ON Tick INSERT INTO A SELECT price INSERT INTO B SELECT z"
    for text in ("SELECT price FROM (SELECT price, nothing FROM Tick) INTO X", split):
        with pytest.raises(QueryError):
            script.add(text)
        assert (script.catalog.names(), len(script.operators)) == (names, count)
    script.add("SELECT price FROM Tick INTO X")
    assert [operator.name for operator in script.operators] == ["X"]


class Hit(Event):
    peak: float
    tags: list[str]


def test_event_types_are_streams_and_streams_are_event_types():
    script = compile_cql(
        "CREATE STREAM Hit2 (peak Double NOT NULL); SELECT peak FROM hit WHERE peak > 50 INTO game.Hard", [Hit]
    )
    assert script.operators[0].subscribes == (Hit,)
    hard = script.types["game.hard"]
    assert (hard.__name__, hard.namespace) == ("Hard", "game")
    with pytest.raises(QueryError, match=r"Hit\.tags is of list\[str\], for which FlinkCQL has no type"):
        script.add("SELECT tags FROM Hit")
    with pytest.raises(QueryError, match="has it as Double"):
        Script([Hit]).add("CREATE STREAM Hit (peak Int)")


def test_attributes_may_be_named_like_fields_of_events_and_words():
    text = """CREATE SCHEMA A (symbol String);
              CREATE SCHEMA B (id Int, source String, class Int, size Int, `from` Int) EXTENDS A;
              CREATE STREAM S B; SELECT id, source, class, size AS every, `from` FROM S WHERE id > 1 AND size < 3 INTO T"""
    script = compile_cql(text)
    stream, made = script.types["S"], script.operators[0].start("T", 1)
    rows = [stream("a", n, "x", n * 2, n, n * 3, ts=n, id=10 + n, source="raw") for n in range(4)]
    out = made.apply(Delta(rows), 9, 9).inserts
    assert [(e.id_, e.source_, e.class_, e.every, e.from_) for e in out] == [(2, "x", 4, 2, 6)]
    assert {e.source for e in out} == {"T"}


def test_an_expression_that_is_too_long_is_refused_and_leaves_all_as_it_was():
    script = Script()
    script.add(TICK)
    with pytest.raises(QueryError, match="too long, or nested too deeply: split it"):
        script.add(f"SELECT at{' + 1' * 700} AS a FROM Tick")
    assert not script.operators and script.add("SELECT at + 1 AS a FROM Tick INTO More")


class Swapped(Event):
    one: float
    other: int


def test_a_stream_may_name_the_fields_of_an_event_type_in_another_order_but_must_fill_them():
    text = (
        "CREATE STREAM Swapped (other Long NOT NULL, one Double NOT NULL); CREATE STREAM S (i Int NOT NULL, d Double NOT NULL);"
    )
    script = compile_cql(text + "INSERT INTO Swapped SELECT i, d FROM S", [Swapped])
    (made,) = script.operators[0].start("x", 1).apply(Delta([script.types["S"](7, 2.5, ts=1, id=1, source="s")]), 9, 9).inserts
    assert (made.one, made.other) == (2.5, 7)
    script = compile_cql("CREATE STREAM Hit (peak Double NOT NULL)", [Hit])
    with pytest.raises(QueryError, match="Hit has fields that its schema does not: tags"):
        script.add("CREATE STREAM P (p Double NOT NULL); INSERT INTO Hit AS P")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT symbol FROM Tick /* keeps the following tuples */ INTO Kept",
        "/* DROP what is old; delete */ SELECT symbol FROM Tick INTO Kept",
        "CREATE STREAM T (following Int); SELECT t.following AS f FROM T AS t INTO Kept",
    ],
)
def test_comments_and_names_are_not_taken_for_what_is_refused(text):
    assert [operator.name for operator in compile_cql(TICK + text).operators] == ["Kept"]
