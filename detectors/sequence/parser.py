"""From the text of a query to its syntax tree. The grammar is ``query.lark``; every mistake is shown where it stands."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, UnexpectedCharacters, UnexpectedEOF, UnexpectedInput
from lark.exceptions import VisitError

from detectors.sequence.errors import QueryError
from detectors.sequence.syntax import Query, Strategy
from detectors.sequence.tree import TreeBuilder
from middleware.quantities import UNITS

_NO_UNIT = re.compile(r"\bWITHIN\s+(\d+(?:\.\d+)?)(?:\s*|\s+(?:RETURN|WHERE|USING)\s+)$", re.IGNORECASE)

_KEYWORDS = (
    "EVENT",
    "SEQ",
    "ANY",
    "USING",
    "WHERE",
    "WITHIN",
    "RETURN",
    "AND",
    "OR",
    "NOT",
    "IN",
    "BETWEEN",
    "LIKE",
    "IS",
    "AS",
)
_CLAUSES = {"USING", "WHERE", "WITHIN", "RETURN"}
_SHOWN = {
    "COMPARED": "a comparison (= <> < <= > >=)",
    "TIMES": "* / or %",
    "NUMBER": "a number",
    "TEXT": "a text in quotes",
    "NAME": "a name",
    "STRATEGY": ", ".join(Strategy),
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "LSQB": "'['",
    "RSQB": "']'",
    "DOT": "'.'",
    "BANG": "!",
    "PLUS": "+",
    "MINUS": "-",
}


@cache
def _parser() -> Lark:
    grammar = (Path(__file__).parent / "query.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def parse(text: str) -> Query:
    """The syntax tree of a query. Raises QueryError with line, column and a hint. O(length of the text).

    >>> parse("EVENT SEQ(Shelf s, !(Checkout c), Exit e) WHERE [id] WITHIN 1 hour").components[1].types
    ('Checkout',)
    """
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise _syntax_error(text, error) from None
    except RecursionError:
        raise QueryError("the query is nested too deeply") from None
    try:
        query: Query = TreeBuilder(text).transform(tree)
    except VisitError as error:
        if isinstance(error.orig_exc, RecursionError):
            raise QueryError("the query is nested too deeply") from None
        raise error.orig_exc from None
    except RecursionError:
        raise QueryError("the query is nested too deeply") from None
    return query


def _syntax_error(text: str, error: UnexpectedInput) -> QueryError:
    if not text.strip():
        return QueryError("the query is empty", hint="write EVENT SEQ(A a, B b) WHERE a.id = b.id WITHIN 1 min")
    if isinstance(error, UnexpectedCharacters):
        hint = "a text begins and ends with the same quote" if error.char in "'\"" else ""
        return QueryError(
            f"{error.char!r} makes no sense here", hint=hint, text=text, line=error.line, column=max(error.column, 1)
        )
    token: Any = getattr(error, "token", None)
    is_end = isinstance(error, UnexpectedEOF) or token is None or token.type == "$END"
    before = text if is_end else text[: token.start_pos]
    if bare := _NO_UNIT.search(before):
        line, column = before[: bare.start(1)].count("\n") + 1, bare.start(1) - before.rfind("\n", 0, bare.start(1))
        hint = f"write {bare[1]} min, say (units: {UNITS})"
        return QueryError("a time needs a unit", hint=hint, text=text, line=line, column=column, length=len(bare[1]))
    if text.split(maxsplit=1)[0].upper() in ("SELECT", "CREATE", "INSERT", "WITH"):
        hint = "a sequence query begins with EVENT SEQ(...); 'slackline sql' takes SQL"
        return QueryError("this is SQL, and no sequence query", hint=hint, text=text, line=1, column=1)
    terminals: Any = getattr(error, "accepts", None) or getattr(error, "expected", ())
    expected = set(map(_readable, terminals))
    if is_end:
        lines = text.rstrip().splitlines()
        place = {"line": len(lines), "column": len(lines[-1]) + 1}
        return QueryError("the query ends too soon", hint=_expectation(expected), text=text, **place)
    return QueryError(
        f"{str(token)!r} is not expected here",
        hint=_misspelled(str(token), expected) or _expectation(expected),
        text=text,
        line=token.line,
        column=token.column,
        length=len(token),
    )


def _readable(terminal: str) -> str:
    return _SHOWN.get(terminal, "the end" if terminal == "$END" else terminal)


def _expectation(expected: set[str]) -> str:
    if not expected:
        return ""
    clauses = sorted(_CLAUSES & expected)
    return "what can stand here: " + ", ".join([*sorted(expected - _CLAUSES), *clauses])


def _misspelled(word: str, expected: set[str]) -> str:
    close = get_close_matches(word.upper(), [each for each in _KEYWORDS if each in expected or not expected], 1, 0.6)
    return f"did you mean {close[0]}?" if close and close[0] != word.upper() else ""
