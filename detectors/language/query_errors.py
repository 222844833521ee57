"""Errors in the text of a query: what is wrong, where (line, column, caret), what was expected, and the nearest known name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

from middleware.model.errors import SlacklineError


class TextSpan(NamedTuple):
    """A place in a text: the offsets of its first character and after its last."""

    start: int
    end: int


NOWHERE = TextSpan(0, 0)

_WIDEST = 120
"""How many columns of a line of text are shown."""


class QueryError(SlacklineError):
    """A query that cannot be run. ``message`` says what is wrong and what to do; ``span`` where, once ``located``.

    >>> print(QueryError("unknown attribute 'prize'; did you mean 'price'?", TextSpan(7, 12)).located("SELECT prize FROM Tick"))
    line 1, column 8: unknown attribute 'prize'; did you mean 'price'?
      SELECT prize FROM Tick
             ^^^^^
    """

    def __init__(self, message: str, span: TextSpan = NOWHERE) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.line = 0
        self.column = 0

    def located(self, text: str) -> QueryError:
        """Return the error with line, column, and the line of ``text`` with a caret below. Only the first call has an
        effect."""
        if self.line:
            return self
        start = min(self.span.start, len(text))
        begin = text.rfind("\n", 0, start) + 1
        end = text.find("\n", begin)
        line = text[begin : end if end >= 0 else len(text)].rstrip("\r")
        self.line, self.column = text.count("\n", 0, start) + 1, start - begin + 1
        width = max(1, min(self.span.end - start, len(line) - (start - begin)))
        at = start - begin
        if at + width > _WIDEST:  # show the text around the place
            cut = max(0, at - _WIDEST // 2)
            line, at = f"...{line[cut:]}", at - cut + 3
        if len(line) > _WIDEST:
            line = f"{line[: max(_WIDEST, at + width)]}..."
        indent = "".join("\t" if character == "\t" else " " for character in line[:at])
        self.args = (f"line {self.line}, column {self.column}: {self.message}\n  {line}\n  {indent}{'^' * width}",)
        return self


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` for the known name most similar to ``name``, or nothing."""
    by_lower = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[found[0]]!r}?" if found else ""
