"""``slackline sql``: continuous queries from a prompt, a file or the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
import typer

from detectors.cql.catalog import CatalogStream
from detectors.cql.grammar import statements as s
from detectors.cql.grammar.cql_parser import parse_statements
from detectors.cql.planning.explain_statement import explained
from middleware.cli.meshes.pubsub import described, event_types
from middleware.cli.output import STANDARD_OUTPUT, ExitCode, JsonFile, console, kept_for_results, print_error, print_late
from middleware.cli.queries.inputs import FileInput, lateness_of
from middleware.cli.queries.prompt import prompt_session, statements
from middleware.cli.queries.result_view import View
from middleware.cli.queries.shell_session import ShellSession
from middleware.cli.queries.sql_feeds import FileFeed
from middleware.cli.result_files import KINDS, FinalsFile, check_not_read, check_results
from middleware.model.change import Delta, Insert
from middleware.model.errors import RunError, SlacklineError
from middleware.model.event import Event, EventTypes
from middleware.model.words import listed

HELP = """Statements end with a semicolon. SELECT without INTO runs at once, Ctrl-C stops it. EXPLAIN shows what comes of one.
  streams   what can be read        quit   the end (or Ctrl-D)"""


def sql(
    file: Annotated[Path | None, typer.Argument(help="File of statements; without one, a prompt (or standard input).")] = None,
    execute: Annotated[list[str] | None, typer.Option("--execute", "-e", help="Statements, after those of FILE.")] = None,
    scenario: Annotated[str | None, typer.Option("--scenario", help="Query a scenario's streams, over its recording.")] = None,
    connect: Annotated[str | None, typer.Option("--connect", help="Query what a node of a running mesh has.")] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="TABLE", help="Query a CSV, JSON lines, Parquet or Arrow file; may be given again."),
    ] = None,
    mapping: Annotated[Path | None, typer.Option(help="TOML file that maps the columns of those files.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what is appended to those files, until Ctrl-C.")] = False,
    types_from: Annotated[list[str] | None, typer.Option(metavar="MODULE", help="Module with event classes.")] = None,
    *,
    final: Annotated[bool, typer.Option("--final", help="Show each result once, when nothing can change it any more.")] = False,
    lateness: Annotated[str | None, typer.Option("--lateness", help="How late tuples may be at least, such as 5s.")] = None,
    results: Annotated[
        str | None,
        typer.Option("--results", metavar="FILE", help=f"Write the final results: {KINDS}.", callback=kept_for_results),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Continuous queries in FlinkCQL over files, hosts, scenarios or a running mesh. Results come early, and are revised.

    Examples:

      [bold]slackline sql --from trades.csv -e "SELECT symbol, max(price) FROM trades \\[SIZE 10 seconds] GROUP BY symbol"[/]

      [bold]slackline sql --scenario ticks[/]                          a prompt over the stock ticks

      [bold]slackline sql queries.cql --final[/]                       run a file of statements, settled results only

      [bold]slackline sql --scenario ticks -e "SELECT * FROM Bar"[/]   one query

      [bold]slackline sql --connect tcp://127.0.0.1:5701 --types-from my.events -e "SELECT * FROM Hit WHERE peak > 50"[/]
    """
    types = event_types(types_from) if types_from else EventTypes()
    if not tables and (mapping is not None or follow):
        raise SlacklineError("--mapping and --follow are for files: name them with --from")
    if results is not None:
        check_results(results)
    check_not_read((results, json_file), [*(tables or ()), *filter(None, (mapping, file))])
    files = FileInput(tables, mapping, types if types_from else None) if tables else None
    if files is not None:
        types = EventTypes(dict.fromkeys(kind for some in (types, files.types) for _, kind in some.items()))
    session = ShellSession(
        [event_type for _, event_type in types.items()],
        scenario,
        connect,
        file.parent if file is not None else Path(),
        lateness_of(lateness) if lateness is not None else None,
        FileFeed(files, follow) if files is not None else None,
    )
    runner = Runner(session, final, json_file, results, follow or connect is not None)
    for line in files.descriptions() if files is not None else ():
        runner.screen.print(line, style="dim", markup=False, soft_wrap=True)
    texts = [_read(file)] if file is not None else []
    texts += execute or []
    if not texts and not sys.stdin.isatty():
        texts = [sys.stdin.read()]
    with closing(runner):
        if not texts:
            _interactive(runner)
            runner.ends()
            return
        last = [runner.statement(each, text) for text in texts for each in parse_statements(text)]
        if not runner.has_run:  # nothing asks for results, so those of all streams that nothing else reads are shown
            for stream in runner.ends_of([stream for some in last for stream in some]):
                runner.query(stream)
        runner.ends()
    if runner.has_failed:
        raise typer.Exit(ExitCode.FAILED)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SlacklineError(f"{file} cannot be read: {error}") from None


def _interactive(runner: Runner) -> None:
    runner.screen.print(HELP, markup=False)
    for text in statements(prompt_session(lambda: runner.session.script)):
        try:
            if text.strip().lower() == "help":
                runner.screen.print(HELP, markup=False)
            elif text.strip().lower() == "streams":
                runner.streams()
            else:
                for each in parse_statements(text):
                    runner.statement(each, text)
        except SlacklineError as error:
            print_error(error)
        except KeyboardInterrupt:
            runner.screen.print("stopped")


class Runner:
    """Runs statements and shows their results."""

    def __init__(
        self, session: ShellSession, final: bool, json_file: str | None, results: str | None = None, is_endless: bool = False
    ) -> None:
        self.session = session
        self.screen = console(STANDARD_OUTPUT if results == STANDARD_OUTPUT else json_file)
        self.has_run = self.has_failed = False
        self._final = final
        self._json = json_file
        self._results = results
        self._is_endless = is_endless
        self._stored: FinalsFile | None = None
        self._is_added_to = False

    def ends(self) -> None:
        """All has been done that was asked for."""
        if self._stored is not None:
            self._stored.is_whole = True

    def ends_of(self, written: Sequence[CatalogStream]) -> list[CatalogStream]:
        """The streams that nothing reads; of endless ones only the last, and the others are named."""
        read = {kind for operator in self.session.script.operators for kind in operator.subscribes}
        found = [stream for stream in dict.fromkeys(written) if stream.event_type not in read] or list(written[-1:])
        if self._is_endless and len(found) > 1:
            self.screen.print(
                f"not shown: {listed(stream.name for stream in found[:-1])}; ask for each with SELECT", markup=False
            )
            return found[-1:]
        return found

    def close(self) -> None:
        """Write the finals of all queries, if that is to be done at the end. Raises SlacklineError."""
        for note in self._stored.close() if self._stored is not None else ():
            self.screen.print(note, style="yellow", markup=False, soft_wrap=True)

    def statement(self, statement: s.Statement, text: str) -> list[CatalogStream]:
        """Take one statement: define, explain, or run it. Raises QueryError."""
        script = self.session.script
        if isinstance(statement, s.Explain):
            self.screen.print(explained(script.explain(statement, text)) or "nothing to run: it defines names", markup=False)
            self.has_run = True
            return []
        written = script.take(statement, text)
        if isinstance(statement, s.Select | s.Merge) and statement.into is None:
            self.query(written[-1])
        return written

    def streams(self) -> None:
        """Show what can be read."""
        for name in self.session.script.catalog.names():
            stream = self.session.script.catalog.find(name)
            if stream is not None:
                self.screen.print(f"{name} ({', '.join(f'{a.name} {a.kind}' for a in stream.schema)})", markup=False)

    def query(self, stream: CatalogStream) -> None:
        """Run the operators that derive a stream, and show its results until its feed ends."""
        self.has_run = True
        session, view = self.session, View(stream)
        check_not_read((self._results, self._json), session.paths)
        feed = session.feed(session.upstream(stream), stream)
        out = _opened(self._json, self._is_added_to) if self._json is not None else None
        self._is_added_to = True  # of all queries
        if self._stored is None and self._results is not None:  # of all queries
            self._stored = FinalsFile(self._results, self._is_endless)
        stored = self._stored
        try:
            if out is None and stored is None and self.screen.is_terminal and not self._final:
                self._live(session.run(stream, feed), view)
            else:
                for batch in session.run(stream, feed):
                    delta, finals = view.take(batch)
                    if stored is not None:  # before it is shown: whoever ends this finds there what they have seen
                        for event in finals:
                            stored.add(event)
                    self._lines(view, delta, finals, out)
        finally:
            if out is not None:
                out.close()
            self.screen.print(f"{stream.name}: {view.summary()}", markup=False)
            for note in feed.notes():
                self.screen.print(note, markup=False)
            if session.late is not None:
                print_late(session.late)
            for failure in session.failures:
                self.has_failed = True
                print_error(RunError(failure))

    def _live(self, batches: Any, view: View) -> None:
        from rich.live import Live

        with Live(console=self.screen, refresh_per_second=8, get_renderable=view.table):
            for batch in batches:
                view.take(batch)

    def _lines(self, view: View, delta: Delta, finals: list[Event], out: IO[str] | None) -> None:
        if out is not None:
            changes = map(Insert, finals) if self._final else delta.changes()
            for change in changes:
                out.write(msgspec.json.encode(described(change)).decode() + "\n")
            out.flush()
        elif self._final:
            for event in finals:
                self.screen.print(view.line(event), markup=False, soft_wrap=True)
        else:
            for line in view.lines(delta, finals):
                self.screen.print(line, markup=False, soft_wrap=True)


def _opened(file: str, is_added_to: bool) -> IO[str]:
    try:
        if file == STANDARD_OUTPUT:
            return open(os.dup(sys.stdout.fileno()), "w")
        return Path(file).open("a" if is_added_to else "w", encoding="utf-8")
    except OSError as error:
        raise SlacklineError(f"cannot write to {file}: {error.strerror}") from None
