"""LIKE and REGEX: what they match, and that no pattern and no text makes them slow, in either query language.

The sizes are such that a matcher that goes back would not come to an end in a lifetime: no clock is needed.
"""

import re
from random import Random

import pytest

from detectors.cql import compile_cql
from detectors.language.patterns import LONGEST, PatternError, like, matches_like, matches_regex, regex
from detectors.language.query_errors import QueryError
from detectors.sequence import SequenceQuery
from middleware.model.event import Event
from middleware.runtime.engine import run


class Line(Event):
    text: str
    pattern: str


def by_re(pattern: str):
    """What LIKE means, by what goes back."""
    parts = re.findall(r"\\(.)|(%)|(_)|(.)", pattern, re.DOTALL)
    expression = "".join(".*" if many else "." if one else re.escape(quoted or plain) for quoted, many, one, plain in parts)
    return lambda text: re.compile(expression, re.DOTALL).fullmatch(text) is not None


@pytest.mark.parametrize("seed", range(20))
def test_like_matches_what_it_always_did(seed):
    random = Random(seed)
    for _ in range(400):
        pattern = "".join(random.choice("ab%%_\\\n.") for _ in range(random.randrange(9)))
        text = "".join(random.choice("aab\n%\\.") for _ in range(random.randrange(12)))
        assert like(pattern)(text) == by_re(pattern)(text), (pattern, text)


ATTACKS = [
    ("%error%in%module%at%", "error in module " * 20_000),
    ("%" + "a%" * 2_000 + "b", "a" * 100_000),
    ("%_a_%" * 50 + "b", "ca" * 5_000),
    ("a%" * 500 + "_" * 100 + "b", "a" * 50_000),
]


@pytest.mark.parametrize(("pattern", "text"), ATTACKS)
def test_like_never_goes_back(pattern, text):
    assert not like(pattern)(text + "c")


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)+$", "(a*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*a){30}b", "(a?){100}a{100}b"]
)
def test_regex_never_goes_back(pattern):
    assert not regex(pattern)("a" * 20_000 + "!")


ATOMS = [
    "a",
    "b",
    "é",
    ".",
    r"\d",
    r"\D",
    r"\w",
    r"\W",
    r"\s",
    r"\S",
    r"\b",
    r"\A",
    "[ab]",
    "[^a]",
    r"[\d_]",
    r"[^\w]",
    "(?s:.)",
    "(a|b)",
    "|",
    "(?:b)",
]
REPEATS = ["", "", "*", "+", "?", "{2}", "{1,3}", "*?"]


@pytest.mark.parametrize("seed", range(20))
def test_regex_finds_what_re_finds(seed):
    """In the syntax that both have, with the classes of ASCII."""
    random = Random(seed)
    for _ in range(200):
        chosen = random.choices(ATOMS, k=random.randrange(1, 5))
        pattern = "".join(atom + ("" if atom in ("|", r"\b", r"\A") else random.choice(REPEATS)) for atom in chosen)
        finds, searched = regex(pattern), re.compile(pattern, re.ASCII)
        for _ in range(5):
            text = "".join(random.choices("aabé1_- \n\u0661\u00a0", k=random.randrange(7)))
            assert finds(text) == (searched.search(text) is not None), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a$", "a\n", False), ("(?m)a$", "a\n", True), ("(?i)É", "é", True), (r"\s", "\x0b", False), (r"\pL", "ß", True),
        ("[[:alpha:]]", "é", False), ("^.$", "\U0001f600", True), (r"\?", "\ud800", True), ("", "", True),
    ],
)  # fmt: skip
def test_regex_is_that_of_re2(pattern, text, found):
    assert regex(pattern)(text) == found


@pytest.mark.parametrize("pattern", ["[[a]b]", "[a&&b]", "(?x)a", r"\<a", "\ud800"])
def test_what_others_read_otherwise_is_no_regular_expression(pattern):
    with pytest.raises(PatternError):
        regex(pattern)


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "(?=a)", "(?<!a)b", "a{2000}", "((a{100}){100}){100}", "(?P<n>a)(?P=n)"])
def test_what_regex_cannot_do_is_refused_where_it_stands(pattern):
    with pytest.raises(PatternError):
        regex(pattern)
    with pytest.raises(QueryError, match=r"(?s)line 1, column \d+: this is no regular expression: .*RE2.*\^"):
        compile_cql(f"CREATE STREAM T (s String); SELECT s FROM T WHERE s REGEX '{pattern}' INTO Q")


def test_patterns_that_come_with_the_data_are_bounded_and_what_is_none_is_null():
    assert matches_like("abc", "a%") and matches_regex("abc", "b.") and matches_regex("abc", "(") is None
    assert matches_like("a", "%" * (LONGEST + 1)) is None and matches_regex("a", "a" * (LONGEST + 1)) is None
    for number in range(1_000):
        assert matches_regex(str(number), f"^{number}$") and matches_like(str(number), f"%{number}")


@pytest.mark.parametrize(
    "condition", ["text LIKE '%error%in%module%at%!'", "text LIKE pattern", "text REGEX '(o+r?)+!'", "text REGEX pattern"]
)
def test_a_query_lives_through_an_attack(condition):
    script = compile_cql(f"SELECT text FROM Line WHERE {condition} INTO Found", [Line])
    lines = [
        Line("error in module " * 5_000, "(.*o){25}!" if "REGEX" in condition else "%o" * 25 + "%!", ts=1, id=1, source="s"),
        Line("error in module 7 at 3 foor!", "%at%" if "LIKE" in condition else "at", ts=2, id=2, source="s"),
    ]
    assert [found.ts for found in run(lines, script.operators).finals["Found"]] == [2]


def test_a_sequence_query_lives_through_an_attack():
    query = SequenceQuery("EVENT SEQ(Line l) WHERE l.text LIKE '%error%in%module%at%'", [Line])
    texts = ["error in module " * 20_000, "error in module at"]
    lines = [Line(text, "", ts=ts, id=ts, source="s") for ts, text in enumerate(texts)]
    assert [match.ts for match in next(iter(run(lines, [query]).finals.values()))] == [1]
