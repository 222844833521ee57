"""The output of commands: consoles, JSON for machines, exit codes."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import msgspec
import typer

from middleware.model.errors import (
    AddressError,
    LateEventError,
    NetworkError,
    RunError,
    SlacklineError,
    UnreachableError,
    WireError,
)
from middleware.model.event import Event
from middleware.model.quantities import format_duration, local_time

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from middleware.ordering.records import LateSummary

STANDARD_OUTPUT = "-"

_NOTHING = frozenset({"", "0", "0 B"})
"""The text of an empty cell."""

_FILE_WIDTH = 140
"""Columns where the output is no terminal: tables in a file or a pipe should not be cut to a terminal's default of 80."""


class ExitCode(IntEnum):
    """The exit codes of commands.

    ``FAILED``: the command did what it was asked, and the answer is no, or the run broke on the way.
    ``BAD_INPUT``: it could not start; arguments, files or code that it was given are wrong.
    """

    OK = 0
    FAILED = 1
    BAD_INPUT = 2
    INTERRUPTED = 130
    TERMINATED = 143


class _Prints(io.TextIOBase):
    """Stands for standard output while ``results`` go there: what is printed goes to standard error.

    Its descriptor is still that of standard output: whoever opens that one anew writes results.
    """

    def __init__(self, results: TextIO) -> None:
        self.results = results

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return sys.stderr.isatty()

    def fileno(self) -> int:
        return self.results.fileno()


@contextmanager
def results_alone() -> Iterator[None]:
    """Results have standard output for themselves: what code of the user's prints meanwhile goes to standard error.

    To be left with the command; ``results`` is where they are written.
    """
    before = sys.stdout
    sys.stdout = _Prints(results())
    try:
        yield
    finally:
        sys.stdout = before


def results() -> TextIO:
    """Standard output, for results."""
    alone: TextIO = getattr(sys.stdout, "results", sys.stdout)
    return alone


def kept_for_results(context: typer.Context, file: str | None) -> str | None:
    """Callback of an option that takes a file for results: if that is standard output, nothing else may go there."""
    if file == STANDARD_OUTPUT:
        context.with_resource(results_alone())
    return file


JsonFile = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Write the result as JSON to FILE; [bold]-[/] is standard output.",
        callback=kept_for_results,
    ),
]
"""The option that every command with a result has; hand it to ``console`` and ``write_json``."""


def console(json_file: str | None = None) -> Console:
    """Where a command talks to people: standard output, or standard error if standard output is kept for JSON.

    Raises SlacklineError if ``json_file`` cannot be written: better now than when the work is done.
    """
    from rich.console import Console  # not needed by commands that only write JSON

    if json_file is not None:
        check_output(json_file)
    screen = Console(stderr=json_file == STANDARD_OUTPUT, highlight=False)
    return screen if screen.is_terminal else Console(stderr=screen.stderr, highlight=False, width=_FILE_WIDTH)


def table(headings: Sequence[str], rows: Sequence[Sequence[str | Text]], names: int, kept: int = 0) -> Table:
    """A table without the columns of nothing, but for the first ``kept``; the first ``names`` columns are never cut. Texts are
    shown as they are, with brackets."""
    from rich.markup import escape
    from rich.table import Table

    drawn = Table()
    kept = max(kept, names)
    shown = [at for at in range(len(headings)) if at < kept or any(str(row[at]) not in _NOTHING for row in rows)]
    for at in shown:
        is_name = at < names
        drawn.add_column(headings[at], justify="left" if is_name else "right", no_wrap=is_name, overflow="fold")
    for row in rows:
        drawn.add_row(*(escape(cell) if isinstance(cell := row[at], str) else cell for at in shown))
    return drawn


def introduce(screen: Console, name: str, about: str) -> None:
    """Say what a scenario is, as its file has it."""
    from rich.markup import escape

    screen.print(f"[bold]{escape(name)}[/]{f': {escape(about)}' if about else ''}")


def write_json(data: object, file: str) -> None:
    """Write ``data`` (whatever msgspec can encode) as indented JSON to ``file``; ``-`` is standard output.

    NaN and infinities become null. A file appears whole or not at all. Raises SlacklineError if it cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n"
    if file == STANDARD_OUTPUT:
        out = results()
        out.write(text.decode())
        out.flush()
        return
    write_file(file, text)


def check_output(file: str) -> None:
    """Raise SlacklineError if ``file`` plainly cannot be written to. Touches nothing; ``-`` is standard output."""
    target = Path(file)
    if file == STANDARD_OUTPUT or (target.exists() and not target.is_file() and not target.is_dir()):  # a pipe, a device
        return
    if target.is_dir() or not file:
        raise _unwritable(file, "it is a folder")
    if not target.parent.is_dir():
        raise _unwritable(file, f"there is no folder {target.parent}")
    if not os.access(target.parent, os.W_OK):
        raise _unwritable(file, f"nothing can be written in {target.parent}")


def write_file(file: str, content: bytes) -> None:
    """Write a file that appears whole or not at all. Raises SlacklineError if it cannot be written."""
    try:
        _write_whole(Path(file), content)
    except OSError as error:
        raise _unwritable(file, str(error.strerror)) from None


def _unwritable(file: str, why: str) -> SlacklineError:
    return SlacklineError(f"cannot write the result to {file}: {why}; give a file in a folder that exists and is yours")


def _write_whole(target: Path, text: bytes) -> None:
    if target.exists() and not target.is_file():  # a pipe or a device is written to, never replaced
        target.write_bytes(text)
        return
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        part.write_bytes(text)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


class _Log:
    """Standard error to log to: if it cannot be written (the disk is full), log lines are lost, and the command runs on."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()


def log_to_standard_error() -> None:
    """Slackline's logs go to standard error from now on, as they are no results."""
    import structlog

    structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=_Log()))  # type: ignore[arg-type]


def log_as_json() -> None:
    """Log with one JSON object a line: ``event``, ``level``, ``timestamp`` (UTC), and its values."""
    import structlog

    log_to_standard_error()
    time, error = structlog.processors.TimeStamper(fmt="iso", utc=True), structlog.processors.dict_tracebacks
    structlog.configure(
        processors=[structlog.processors.add_log_level, time, error, structlog.processors.JSONRenderer(default=_encodable)]
    )


def _encodable(value: object) -> object:
    return msgspec.to_builtins(value, enc_hook=repr, str_keys=True)


def event_text(event: Event) -> str:
    """An event for people: as Python shows it, with its time as ``local_time``."""
    shown, ts = repr(event), event.ts
    for before in " (":
        shown = shown.replace(f"{before}ts={ts},", f"{before}ts={local_time(ts)},")
    return shown


def print_error(error: BaseException) -> None:
    """Print an error as one block on standard error: what is wrong, then the notes added on its way up."""
    from rich.console import Console
    from rich.text import Text

    lines = [str(error) or type(error).__name__, *getattr(error, "__notes__", ())]
    block = "\n".join(lines).replace("\n", "\n  ")
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text("error: ", style="bold red"), Text(block), sep="")


def print_late(late: LateSummary) -> None:
    """Print one line on standard error about the events that a command skipped as late, and the option that takes them."""
    from rich.console import Console
    from rich.text import Text

    text = f"{late}: --lateness {format_duration(late.lateness)} takes all"
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text("warning: ", style="bold yellow"), Text(text), sep="")


def exit_code(error: SlacklineError) -> ExitCode:
    """FAILED for errors that only a run can meet, BAD_INPUT for all others: files, arguments, code."""
    if isinstance(error, AddressError):
        return ExitCode.BAD_INPUT
    is_met = isinstance(error, LateEventError | NetworkError | RunError | UnreachableError | WireError)
    return ExitCode.FAILED if is_met else ExitCode.BAD_INPUT
