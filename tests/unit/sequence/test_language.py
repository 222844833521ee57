"""The language of sequence queries: what is read, what is refused and how, and the same from Python."""

import string
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from detectors.sequence import QueryError, SequenceQuery, call, one, same, seq, some
from detectors.sequence.grammar.sequence_parser import parse
from middleware.model.event import Event
from tests.property.sequence.queries import TYPES, query


class Shelf(Event):
    tag: int
    reader: str = ""


class Checkout(Event):
    tag: int


class Exit(Event):
    tag: int
    gate: int
    weight: float | None = None


class Theft(Event):
    tag: int
    weight: float


ALL = (Shelf, Checkout, Exit, Theft)
THEFT = (
    "EVENT SEQ(Shelf s, !(Checkout c), Exit e) WHERE s.tag = c.tag AND c.tag = e.tag AND e.gate IN (1, 2) "
    "WITHIN 1 hour RETURN Stolen(s.tag AS tag, gate = e.gate)"
)


def test_the_query_of_the_paper():
    operator = SequenceQuery(THEFT, ALL)
    assert operator.name == "Stolen"
    assert operator.subscribes == (Shelf, Exit, Checkout)
    assert operator.result.__struct_fields__[:2] == ("tag", "gate")
    assert operator.plan.within == 3_600_000_000_000
    assert [step.key for step in (*operator.plan.steps, *operator.plan.negations)] == [("tag",)] * 3
    assert [str(test) for step in operator.plan.steps for test in step.filters] == ["e.gate IN (1, 2)"]
    assert not operator.plan.conditions


def test_the_same_in_python():
    s, c, e = one(Shelf, "s"), one(Checkout, "c"), one(Exit, "e")
    built = seq(s, ~c, e).where(s.tag == c.tag, c.tag == e.tag, e.gate.isin(1, 2)).within("1 hour")
    assert built.returns("Stolen", tag=s.tag, gate=e.gate).tree == parse(THEFT)
    a, x = some("bench.A", "a"), one(("A", "B"), "x")
    built = seq(a, x).using("skip-till-next-match").within("1.5 s")
    built = built.where(same("k"), a.each.v >= a.previous.v, (a.first.v > 3) | ~x.n.like("b%"), call("count", a) > 2)
    built = built.where(call("sum", a.of("v")) < 10 - x.of("v"), x.w.is_null() & x.v.between(1, 4), call("abs", x.v) != 7)
    text = (
        "EVENT SEQ(bench.A+ a[], ANY(A, B) x) USING skip_till_next_match WHERE [k] AND a[i].v >= a[i-1].v AND "
        "(a[1].v > 3 OR NOT x.n LIKE 'b%') AND count(a[]) > 2 AND sum(a[].v) < 10 - x.v AND x.w IS NULL AND "
        "x.v BETWEEN 1 AND 4 AND abs(x.v) <> 7 WITHIN 1.5 s"
    )
    assert built.tree == parse(text)


def test_python_mistakes():
    s = one(Shelf, "s")
    with pytest.raises(QueryError, match="combine conditions with"):
        seq(s).where(s.tag == 1 and s.reader == "x")
    with pytest.raises(QueryError, match="cannot stand in a query"):
        seq(s).where(s.tag == object())
    with pytest.raises(QueryError, match="name a field"):
        seq(s).where(s.tag == s)


@pytest.mark.parametrize("seed", range(60))
def test_a_query_written_out_reads_as_itself(seed):
    tree = parse(query(seed).text)
    assert parse(str(tree)) == tree


@pytest.mark.parametrize(
    ("text", "line", "column", "message", "hint"),
    [
        ("", 0, 0, "empty", "EVENT SEQ"),
        ("EVENT SEQ(Shelf s,", 1, 19, "unexpected the end", "a name"),
        ("EVENT SEQ(Shelf s, Exit e) WHRE s.tag = 1", 1, 28, "unexpected 'WHRE'", "did you mean 'WHERE'?"),
        ("EVENT SEQ(Shelf s, Exit e)\nWITHIN 3 huors", 2, 10, "no unit of time", "did you mean hours?"),
        ("EVENT SEQ(Shelf s, Exit e) WITHIN 3 fortnights", 1, 37, "no unit of time", "units: ns, us, ms, s, min, h, d, week"),
        ("EVENT SEQ(Shelf s, Exit e)\nWITHIN 1", 2, 8, "a time needs a unit", "write 1 min"),
        ("EVENT SEQ(Shelf s, Exit e) WITHIN 1 RETURN s.tag", 1, 35, "a time needs a unit", "units: ns"),
        ("SELECT tag FROM Shelf", 1, 1, "this is SQL", "slackline sql"),
        ("EVENT SEQ(Shelf s, Exit e)\n  WHERE s.reader = 'x", 2, 20, "this text has no end", "quote"),
        ("EVENT SEQ(Shelf s, Chekout c) WITHIN 1 s", 1, 20, "no event type Chekout", "did you mean Checkout?"),
        ("EVENT SEQ(Shelf s, Exit s) WITHIN 1 s", 1, 20, "two components are called s", ""),
        ("EVENT SEQ(Shelf s, Exit e)", 1, 27, "WITHIN is missing", "WITHIN 10 s"),
        ("EVENT SEQ(!(Shelf s), !(Exit e)) WITHIN 1 s", 1, 11, "nothing but negation", ""),
        ("EVENT Shelf s WHERE s.tga = 1", 1, 21, "Shelf has no field tga", "did you mean 'tag'?"),
        ("EVENT Shelf s WHERE z.tag = 1", 1, 21, "no variable z", "s"),
        ("EVENT Shelf s WHERE s.tag", 1, 21, "needs a condition", "compare"),
        ("EVENT Shelf s WHERE s.tag = 'a'", 1, 21, "cannot bring Long and String together", "CAST"),
        ("EVENT Shelf s WHERE s.tag = NULL", 1, 21, "nothing equals NULL", "IS NULL"),
        ("EVENT Shelf s WHERE s.reader + 'x' = 'y'", 1, 21, "works on numbers", "|| joins texts"),
        ("EVENT Shelf s WHERE abs(s.reader) > 1", 1, 25, "abs works on numbers", "String"),
        ("EVENT Shelf s WHERE sum(s[].tag) > 1", 1, 25, "s is one event", "aggregates are for several"),
        ("EVENT Shelf s WHERE s[i].tag > 1", 1, 21, "s is one event", "write s.tag"),
        ("EVENT SEQ(Shelf+ s[]) WHERE s.tag > 1 WITHIN 1 s", 1, 29, "s is several events", "s[i].tag"),
        ("EVENT SEQ(Shelf+ s[]) WHERE s[3].tag > 1 WITHIN 1 s", 1, 31, "[3] is no index", "s[i-1]"),
        ("EVENT Shelf s WHERE min(s.tag, 1) > 1", 1, 21, "takes all events of a Kleene variable", "least"),
        ("EVENT Shelf s WHERE flor(s.tag) > 1", 1, 21, "unknown function 'flor'", "did you mean 'floor'?"),
        ("EVENT SEQ(Shelf s, Exit e) WHERE s.id = e.id WITHIN 1 s", 1, 34, "number of the event itself", "tag"),
        ("EVENT SEQ(Shelf s, Exit e) WHERE [reader] WITHIN 1 s", 1, 35, "Exit has no field reader", "tag"),
        ("EVENT SEQ(Shelf s, Exit) WHERE [tag] WITHIN 1 s", 1, 20, "variable", "write Exit x"),
        (
            "EVENT SEQ(Shelf s, !(Checkout c), !(Exit e)) WHERE c.tag = e.tag WITHIN 1 s",
            1,
            52,
            "both negated",
            "compare each",
        ),
        ("EVENT SEQ(Shelf s, !(Exit e)) WITHIN 1 s RETURN e.tag", 1, 49, "negated", ""),
        ("EVENT Shelf s RETURN s.tag + 1", 1, 22, "no name", "AS name"),
        ("EVENT Shelf s RETURN s.tag, s.tag", 1, 29, "given twice", "AS"),
        ("EVENT Exit e RETURN Theft(e.tag, e.weight)", 1, 34, "may be NULL", "coalesce"),
        ("EVENT Exit e RETURN Theft(e.tag)", 1, 21, "Theft needs weight", ""),
        ("EVENT Exit e RETURN Theft(e.tag, 1 AS weight, e.gate)", 1, 47, "no field gate", ""),
        ("EVENT SEQ(Shelf+ s[]) WITHIN 1 s RETURN s[i].tag", 1, 41, "a value for every event", "first(a[].x)"),
        ("EVENT Shelf s WHERE NOT [tag]", 1, 26, "[tag] cannot stand here", ""),
    ],
)
def test_mistakes_are_shown_where_they_stand(text, line, column, message, hint):
    with pytest.raises(QueryError) as caught:
        SequenceQuery(text, ALL)
    error = caught.value
    assert (error.line, error.column) == (line, column), str(error)
    assert message in error.message
    assert hint in error.message
    if line:
        shown, caret = str(error).splitlines()[1:3]
        assert shown.strip() == text.splitlines()[line - 1].strip()
        assert caret.index("^") == column + 1


words = st.lists(
    st.sampled_from([*"()[],.=+-*/%<>!;", "EVENT", "SEQ", "Shelf", "s", "Exit", "e", "WHERE", "WITHIN", "1", "hour", "RETURN"])
    | st.sampled_from(["AND", "NOT", "IN", "a[i].x", "s.tag", "e.gate", "'x'", "count", "ANY", "LIKE", "BETWEEN", "IS", "NULL"])
    | st.text(string.printable, max_size=4),
    max_size=25,
).map(" ".join)


@given(words)
@settings(max_examples=200, deadline=None)
@example("EVENT Shelf s WHERE " + "(" * 3000 + "s.tag = 1" + ")" * 3000)
@example("EVENT Shelf s WHERE " + "NOT " * 3000 + "s.tag = 1")
@example("EVENT Shelf s WHERE s.tag = 1e999999")
@example("EVENT Shelf s WITHIN 9e999 weeks")
@example("EVENT Shelf s WHERE " + "(" * 150 + "s.tag" + " + 1)" * 150 + " > 1")
@example("EVENT Exit e WHERE " + "NOT (e.weight > 1 OR " * 60 + "e.weight > 2" + ")" * 60)
@example("EVENT Shelf s WHERE s.tag = " + "9" * 5000)
def test_no_text_breaks_it(text):
    with suppress(QueryError):
        SequenceQuery(text, ALL)


def test_events_of_any_type_and_dotted_names():
    assert SequenceQuery("EVENT ANY(A, B) x WHERE x.k = 1", TYPES).subscribes == TYPES[:2]
    assert SequenceQuery("EVENT Shelf s RETURN shop.Seen(s.tag)", ALL).result.namespace == "shop"


def test_a_result_may_be_named_like_a_function():
    assert SequenceQuery("EVENT Shelf s RETURN Left(s.tag)", ALL).result.__name__ == "Left"
    assert SequenceQuery("EVENT Shelf s WHERE Abs(s.tag) > 1 RETURN LEFT(s.reader, 1) AS initial", ALL).name == "Match"
