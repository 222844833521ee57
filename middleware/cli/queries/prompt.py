"""The prompt: several lines to a statement, history across sessions, completion of words, streams, attributes and functions."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from detectors.cql.cql_script import Script
from detectors.cql.grammar.cql_parser import WORDS
from detectors.language.aggregate_functions import NAMES
from detectors.language.functions import FUNCTIONS

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer

HISTORY = "SLACKLINE_SQL_HISTORY"
"""Environment variable: the file that keeps the input history."""


def candidates(script: Script, before: str) -> list[str]:
    """Completions of the word at the end of ``before``: streams and attributes first, then words of the language.

    >>> script = Script()
    >>> _ = script.add("CREATE STREAM StockTick (symbol String, price Double)")
    >>> candidates(script, "SELECT pri"), candidates(script, "select * from sto"), candidates(script, "sel")
    (['price'], ['StockTick'], ['SELECT'])
    """
    found = re.search(r"[\w.]*$", before)
    word = found[0].lower() if found else ""
    if not word:
        return []
    attributes = {each.name for stream in script.catalog for each in stream.schema}
    functions = [f"{name}(" for name in (*FUNCTIONS, *NAMES)]
    ordered = [sorted(script.catalog.names()), sorted(attributes), sorted(script.catalog.schemas), WORDS, sorted(functions)]
    return list(dict.fromkeys(each for group in ordered for each in group if each.lower().startswith(word)))


def prompt_session(script: Callable[[], Script]) -> PromptSession[str]:
    """A prompt with history and completion."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory, History, InMemoryHistory

    history: History = InMemoryHistory()
    file = Path(os.environ.get(HISTORY) or Path.home() / ".local" / "state" / "slackline" / "sql_history")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        history = FileHistory(str(file))
    except OSError:
        pass  # no writable home: nothing is remembered
    return PromptSession(history=history, completer=_completer(script), complete_while_typing=False)


def _completer(script: Callable[[], Script]) -> Completer:
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.document import Document

    class Names(Completer):
        def get_completions(self, document: Document, complete_event: object) -> Iterable[Completion]:
            before = document.text_before_cursor
            length = len(before) - len(before.rstrip("_.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"))
            return [Completion(text, -length) for text in candidates(script(), before)]

    return Names()


def statements(session: PromptSession[str]) -> Iterator[str]:
    """The input, a statement at a time: up to a semicolon, or an empty line. Ends with Ctrl-D or ``quit``."""
    lines: list[str] = []
    while True:
        try:
            line = session.prompt("sql> " if not lines else "...> ")
        except KeyboardInterrupt:
            lines = []
            continue
        except EOFError:
            return
        if not lines and line.strip().lower().rstrip(";") in ("quit", "exit"):
            return
        lines.append(line)
        if line.rstrip().endswith(";") or not line.strip() or line.strip().lower() in ("help", "streams"):
            text = "\n".join(lines)
            lines = []
            if text.strip():
                yield text
