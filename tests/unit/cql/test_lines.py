"""Tuples from lines: headers, quotes, times; a bad line is counted with its reason and costs no good one."""

import itertools

import pytest

from detectors.cql import compile_cql
from detectors.cql.line_reader import LineReader, line_source
from detectors.language.query_errors import QueryError
from middleware.model.change import Delta
from middleware.model.errors import TraceError
from middleware.model.time import SECOND


def reader(schema, delimiter=",", clock=None):
    script = compile_cql(f"CREATE STREAM S {schema} SOURCE FILE ('x', ',')")
    return LineReader(script.sources[0], "x", delimiter, clock or itertools.count(100).__next__)


def test_fields_in_the_order_of_the_schema():
    lines = reader("(symbol String, price Double, on Boolean, c Char, day Datetime)")
    (event,) = lines.read(["IBM, 81.5 ,TRUE,x,2015-05-01 08:18:23\r\n"])
    assert (event.symbol, event.price, event.on, event.c, event.day) == ("IBM", 81.5, True, "x", 1430468303)
    assert (event.ts, event.id, event.source) == (100, 1, "x")


def test_a_header_says_which_field_is_which_and_what_is_more_is_skipped():
    lines = reader("(symbol String NOT NULL, price Double)")
    events = lines.read(["Price,extra,SYMBOL", '81.5,junk,"IBM, Inc."', ",junk,GE"])
    assert [(e.symbol, e.price) for e in events] == [("IBM, Inc.", 81.5), ("GE", None)]
    with pytest.raises(TraceError, match="the header has no symbol, which S needs"):
        reader("(symbol String NOT NULL, price Double, q Int)").read(["price,q"])


def test_times_come_from_ts_or_the_timestamp_or_the_moment_of_arrival():
    assert reader("(ts Long, a Int)").read(["5,1"])[0].ts == 5
    assert reader("(a Int, t Long) TIMESTAMP t").read(["1,7"])[0].ts == 7 * SECOND
    assert reader("(a Int, t Datetime) TIMESTAMP t").read(["1,1970-01-02"])[0].ts == 86400 * SECOND
    stopped = reader("(a Int)", clock=lambda: 50)
    assert [e.ts for e in stopped.read(["1", "2", "3"])] == [50, 51, 52], "system times are strictly increasing"


@pytest.mark.parametrize(
    ("kind", "form", "text", "expected"),
    [
        ("Long", "ms", "1500", 1_500_000_000),
        ("Int", "s", "-2", -2 * SECOND),
        ("Long", "ns", "7", 7),
        ("String", "iso-8601", "1970-01-01T01:00:00.25+01:00", 250_000_000),
        ("String", "ISO-8601", "1970-01-01T00:00:00.123456789Z", 123_456_789),
        ("String", "ISO-8601", "yesterday", None),
        ("String", "DD.MM.YYYY HH:MI:SS.F", "2.1.1970 00:00:01.5", 86_401_500_000_000),
        ("String", "DD.MM.YYYY HH:MI:SS.F", "30.2.1970 00:00:01.5", None),
        ("String", "DD.MM.YYYY HH:MI:SS.F", "2x1x1970 00:00:01.5", None),
        ("String", "YYYY/MM/DD", "1969/12/31", -86_400 * SECOND),
        ("String", "YYYYMMDDTHHMISS", "20150501T081823", 1_430_468_303 * SECOND),
    ],
)
def test_a_format_says_how_the_time_is_written(kind, form, text, expected):
    script = compile_cql(f"CREATE STREAM S (at {kind}, x Int) TIMESTAMP at FORMAT '{form}' SOURCE FILE ('x', ';')")
    lines = LineReader(script.sources[0], "x", ";", lambda: 1 / 0)
    found = lines.read([f"{text};1", ";2"])
    assert [event.ts for event in found] == ([] if expected is None else [expected])
    assert lines.bad == {"no time": 1 if expected is not None else 2}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            "(at Long) TIMESTAMP at FORMAT 'min' SOURCE FILE ('x', ',')",
            "FORMAT 'min' does not fit Long: a whole number has a unit",
        ),
        ("(at String) TIMESTAMP at FORMAT 'ms' SOURCE FILE ('x', ',')", "does not fit String"),
        ("(at String) TIMESTAMP at FORMAT 'DD.MM.YY' SOURCE FILE ('x', ',')", "has no whole date"),
        ("(at String) TIMESTAMP at FORMAT 'YYYY MM DD DD' SOURCE FILE ('x', ',')", "has DD more than once"),
        ("(at Long) TIMESTAMP at FORMAT 'ms'", "it needs a SOURCE"),
        ("(at String) TIMESTAMP at SOURCE FILE ('x', ',')", "or add FORMAT"),
        ("(at Long) TIMESTAMP when FORMAT 'ms' SOURCE FILE ('x', ',')", "unknown attribute 'when'"),
    ],
)
def test_a_format_that_does_not_fit_is_refused(schema, message):
    with pytest.raises(QueryError, match=message):
        compile_cql(f"CREATE STREAM S {schema}")


@pytest.mark.parametrize(
    ("source", "disorder"),
    [
        ("FILE ('x', ',') DISORDER 2 seconds", 2 * SECOND),
        ("HOST ('h', 9) DISORDER INTERVAL '0.5' SECOND", SECOND // 2),
        ("HOST ('h', 9)", None),
    ],
)
def test_lines_may_be_so_much_out_of_order(source, disorder, tmp_path):
    (stream,) = compile_cql(f"CREATE STREAM S (disorder Long) SOURCE {source}").sources
    assert line_source(stream, tmp_path).disorder == disorder


def test_disorder_is_a_length_of_time():
    with pytest.raises(QueryError, match="lengths of time"):
        compile_cql("CREATE STREAM S (x Long) SOURCE FILE ('x', ',') DISORDER 3")


def test_bad_lines_are_counted_and_shown():
    lines = reader("(symbol String NOT NULL, q Byte) ", delimiter=";")
    events = lines.read(["IBM;1", "GE;300", "", "GE", ";2", "GE;1.5", "GE;", "MS;7"])
    assert [(e.symbol, e.q, e.id) for e in events] == [("IBM", 1, 1), ("GE", None, 7), ("MS", 7, 8)]
    assert lines.bad == {"q is no Byte": 2, "1 fields, not 2": 1, "symbol is empty": 1}
    assert lines.examples[0] == "x, line 2: q is no Byte: GE;300"


def test_any_text_is_taken_or_counted():
    lines = reader("(a Int, t Long NOT NULL) TIMESTAMP t")
    rows = ["9" * 5000 + ",1", "1," + "9" * 30, '"', "\x00,1", "1,9223372036854775807", "é,1", "1,-5"]
    assert len(lines.read(rows)) + sum(lines.bad.values()) == len(rows)
    assert lines.read(["1,2"])[0].ts == 2 * SECOND


def test_a_float_has_32_bits():
    """What does not fit is no Float; what fits is rounded, in lines and in conversions, so that equal ones are equal."""
    lines = reader("(x Float, n Long)")
    assert [event.x for event in lines.read(["0.1,1", "1e300,2", "16777217,3"])] == [0.10000000149011612, 16777216.0]
    assert lines.bad == {"x is no Float": 1}
    script = compile_cql("CREATE STREAM F (n Long); CREATE STREAM G (x Float); INSERT INTO G SELECT n FROM F")
    made = script.types["F"](16777217, ts=1, id=1, source="s")
    (found,) = script.operators[0].start("G", 1).apply(Delta([made]), 9, 9).inserts
    assert found.x == 16777216.0


def test_system_time_is_given_where_a_line_arrives_and_kept_where_it_is_recorded():
    clock = itertools.count(1_000).__next__
    made = compile_cql(
        "CREATE STREAM S (at Long, x Int, came Long NOT NULL) TIMESTAMP at SYSTEM TIME came SOURCE FILE ('x', ',')"
    )
    live = LineReader(made.sources[0], "x", ",", clock).read(["7,1", "3,2"])
    assert [(event.ts, event.came) for event in live] == [(7 * SECOND, 1_000), (3 * SECOND, 1_001)]
    recorded = LineReader(made.sources[0], "x", ",", clock).read(["at,x,came", *(f"{e.at},{e.x},{e.came}" for e in live)])
    assert recorded == [
        event.__class__(event.at, event.x, event.came, ts=event.ts, id=event.id + 1, source="x") for event in live
    ]


def test_a_byte_order_mark_is_no_part_of_the_first_line():
    lines = reader("(a Int, b Int)")
    events = lines.read(["\ufeffb,a", "1,2", "\ufeff3,4"])
    assert [(e.a, e.b) for e in events] == [(2, 1)]
    assert lines.bad == {"b is no Int": 1}, "further down it is a text like any other"
    assert reader("(symbol String, a Int)").read(["\ufeffIBM,1"])[0].symbol == "IBM"
