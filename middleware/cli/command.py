"""How a sub-command of ``slackline`` is declared: nothing of it is imported before it is called."""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """Where a sub-command lives (``module:attribute``, a function or a typer app), and its line in the overview."""

    target: str
    line: str
