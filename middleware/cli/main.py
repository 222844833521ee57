"""The ``slackline`` command: one table of sub-commands, each imported only when it is asked for."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from importlib import import_module
from traceback import walk_tb
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperGroup

from middleware import __version__
from middleware.cli.command import CommandEntry
from middleware.cli.output import ExitCode, exit_code, log_to_standard_error, print_error
from middleware.cli.termination import end_in_order, interrupted
from middleware.extensions import extensions
from middleware.installation import extra_with, install
from middleware.model.errors import RunError, SlacklineError, Termination

COMMANDS = {
    "run": CommandEntry(
        "middleware.cli.runs.run:run", "Run a scenario from start to end and compare it with the in-order oracle."
    ),
    "evaluate": CommandEntry(
        "middleware.cli.runs.evaluate:evaluate", "The paper's evaluation, run now: a report with figures."
    ),
    "node": CommandEntry("middleware.cli.meshes.node_command:node", "Run one node of a scenario, to spread it over machines."),
    "connect": CommandEntry(
        "middleware.cli.meshes.connect:connect", "Connect a mesh with Kafka, MQTT, PostgreSQL, HTTP and others."
    ),
    "trace": CommandEntry("middleware.cli.runs.trace:app", "Prepare recordings with Spark, feed them to nodes, look inside."),
    "archive": CommandEntry(
        "middleware.cli.runs.archive_command:archive", "Run a scenario's detectors over a whole recording, in Spark."
    ),
    "sub": CommandEntry("middleware.cli.meshes.pubsub:sub", "Subscribe to events and print them."),
    "pub": CommandEntry("middleware.cli.meshes.pubsub:pub", "Publish events read from a file or standard input."),
    "names": CommandEntry(
        "middleware.cli.meshes.names:names", "The named subscriptions whose positions a node keeps; release them."
    ),
    "status": CommandEntry(
        "middleware.cli.meshes.status_command:status", "A whole mesh at a glance, from the address of any node."
    ),
    "top": CommandEntry("middleware.cli.meshes.top:top", "Watch a mesh as it works: rates, corrections, lag, busy factors."),
    "view": CommandEntry("middleware.cli.meshes.view:view", "A page that shows live what a mesh is doing."),
    "why": CommandEntry(
        "middleware.cli.questions.why_command:why", "What a result rests on, and which late events corrected it."
    ),
    "why-waiting": CommandEntry(
        "middleware.cli.questions.why_waiting:why_waiting", "Which source, key and buffer hold a stream back."
    ),
    "sql": CommandEntry("middleware.cli.queries.sql_command:sql", "Continuous queries in a language like SQL."),
    "query": CommandEntry(
        "middleware.cli.queries.query_command:query", "Run a sequence query over a trace, a scenario, or a node."
    ),
    "late": CommandEntry(
        "middleware.cli.questions.late:app", "Events that were not taken into account: list, look at, replay."
    ),
    "keys": CommandEntry("middleware.cli.meshes.keys_command:app", "Make the keys by which nodes know and trust each other."),
    "check": CommandEntry("middleware.cli.checks.check:check", "Check that a detector keeps its contract."),
    "flow": CommandEntry("middleware.cli.checks.flow_command:flow", "Check a flow and draw it."),
    "simulate": CommandEntry(
        "middleware.cli.checks.simulate:simulate", "For those who change Slackline: simulated worlds where everything fails."
    ),
    "explore": CommandEntry(
        "middleware.cli.checks.explore:explore",
        "Try every order of a few acts and faults: what nodes promise each other must hold.",
    ),
    "spark": CommandEntry("middleware.cli.runs.spark_pack:app", "What a cluster of Spark needs to run Slackline's jobs."),
    "bench": CommandEntry("middleware.cli.checks.bench:bench", "Measure, against a baseline that runs beside it."),
    "schema": CommandEntry(
        "middleware.cli.runs.schema_command:schema", "A scenario's streams as AsyncAPI, or a mapping for a file."
    ),
    "doctor": CommandEntry("middleware.cli.checks.doctor:doctor", "What is installed, what is missing, and what to do."),
}

OVERVIEW = """Complex event processing for event streams that arrive out of order.

Examples:

  [bold]slackline doctor[/]                        is everything there?

  [bold]slackline run soccer[/]                    the demo: a match, detected early, corrected, and final

  [bold]slackline check my.module:Detector[/]      does my detector keep its contract?
"""


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""The errors of the system that no program can help: a disk that is full, or broken."""


class LazyGroup(TyperGroup):
    """A group whose commands are stand-ins with a name and a help line, until one of them is called."""

    entries: ClassVar[dict[str, CommandEntry]] = {}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load(name or "", self.entries[name or ""]), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command; errors that Slackline raises on purpose end it with a message, not with a traceback."""
        log_to_standard_error()
        try:
            return super().invoke(ctx)
        except SlacklineError as error:
            print_error(error)
            raise typer.Exit(exit_code(error)) from None
        except ModuleNotFoundError as error:
            extra = extra_with(error.name or "")
            if extra is None:
                raise
            print_error(lacking := SlacklineError(f"this needs {error.name}; {install(extra)}"))
            raise typer.Exit(exit_code(lacking)) from None
        except KeyboardInterrupt:
            raise typer.Exit(interrupted()) from None
        except Termination:
            raise
        except SystemExit as error:  # what Slackline itself raises on purpose is no SystemExit
            *_, (file, line, called) = (
                (frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in walk_tb(error.__traceback__)
            )
            if called == "on_broken_pipe":  # of rich: whoever read has had enough
                raise typer.Exit(ExitCode.FAILED) from None
            print_error(
                RunError(f"sys.exit was called at {file}:{line}, in code that is not to end the program: raise an error")
            )
            raise typer.Exit(ExitCode.FAILED) from None
        except OSError as error:
            if error.errno not in _FULL:
                raise
            print_error(lacking := RunError(f"what was to be written could not be: {error.strerror}"))
            raise typer.Exit(exit_code(lacking)) from None


def load(name: str, entry: CommandEntry) -> Any:
    """The command that an entry of the table stands for."""
    module, _, attribute = entry.target.partition(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        function, found = found, typer.Typer(rich_markup_mode="rich", add_completion=False)
        found.command(name)(function)
    command = typer.main.get_command(found)
    command.name = name
    return command


def commands() -> dict[str, CommandEntry]:
    """All sub-commands: our own, and those of other packages. One that cannot be had is reported, and hurts no other."""
    found = dict(COMMANDS)
    for name, point in extensions("commands").items():
        try:
            found.setdefault(name, point.load())
        except Exception as error:  # whatever another package does when it is imported
            print_error(SlacklineError(f"the command {name!r} of {point.value} cannot be loaded: {error}"))
    return found


def _placeholder() -> None:
    """Never called: ``LazyGroup`` replaces it by the real command."""


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"slackline {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Takes the options before the sub-command."""


def application(entries: dict[str, CommandEntry] | None = None) -> typer.Typer:
    """The typer app with these commands; by default, with all. None is imported."""
    entries = commands() if entries is None else entries
    app = typer.Typer(
        cls=type("Commands", (LazyGroup,), {"entries": entries}),
        rich_markup_mode="rich",
        no_args_is_help=True,
        pretty_exceptions_show_locals=False,  # locals may hold keys
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=OVERVIEW)(_root)
    for name, entry in entries.items():
        app.command(name, help=entry.line)(_placeholder)
    return app


def main() -> None:
    """Entry point of the ``slackline`` command."""
    end_in_order()
    run: Callable[..., Any] = application()
    try:
        run(prog_name="slackline")
    except KeyboardInterrupt:  # before or after the command itself, where typer does not look
        sys.exit(interrupted())


if __name__ == "__main__":
    main()
