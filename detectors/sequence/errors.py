"""What is wrong with a query: where it stands, what it is, and what to write instead."""

from __future__ import annotations

from middleware.errors import SlacklineError

_TAB = " "


class QueryError(SlacklineError):
    """A query that cannot be understood, or makes no sense for its event types.

    ``message``, ``hint``
        what is wrong; what to do about it (may be empty).
    ``line``, ``column``
        where it begins, both from 1; 0 if the query was built in Python.
    """

    def __init__(
        self, message: str, *, hint: str = "", text: str = "", line: int = 0, column: int = 0, length: int = 1
    ) -> None:
        self.message = message
        self.hint = hint
        self.line = line
        self.column = column
        super().__init__(_rendered(message, hint, text, line, column, length))


def _rendered(message: str, hint: str, text: str, line: int, column: int, length: int) -> str:
    lines = [message if not line else f"line {line}, column {column}: {message}"]
    source = text.splitlines()
    if line and line <= len(source):
        shown = source[line - 1].replace("\t", _TAB)
        width = max(1, min(length, len(shown) - column + 1))
        lines += [f"  {shown}", f"  {' ' * (column - 1)}{'^' * width}"]
    if hint:
        lines.append(f"hint: {hint}")
    return "\n".join(lines)
