"""``slackline trace``: prepare recordings with Spark, feed them to nodes, look inside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from middleware.cli.command_options import Cores, Master, pairs
from middleware.cli.output import ExitCode, JsonFile, console, print_error, write_json
from middleware.model.errors import TraceError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from middleware.recordings.traces import Trace
    from middleware.spark.feed.feed import FeedReport

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_show_locals=False)

TraceFolder = Annotated[Path, typer.Argument(metavar="TRACE", help="Folder of the trace.")]


@app.callback()
def trace() -> None:
    """Prepare recordings with Spark, feed them to nodes, look inside."""


@app.command()
def prepare(
    trace: TraceFolder,
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...", help="The recording's files.")] = None,
    *,
    reader: Annotated[
        str | None, typer.Option(help="Format of the files: debs2013, tromso, umts, tsch, or tracab, metrica, ... (matches).")
    ] = None,
    mapping: Annotated[Path | None, typer.Option(help="TOML file that maps the columns of CSV or Parquet files.")] = None,
    generate: Annotated[str | None, typer.Option(metavar="MODULE:FUNCTION", help="Function that makes up a recording.")] = None,
    seconds: Annotated[float, typer.Option(help="Length of a generated recording.")] = 30.0,
    seed: Annotated[int, typer.Option(help="Same seed, same generated recording and delays.")] = 0,
    delay: Annotated[str | None, typer.Option(help="Delay model that gives the events their arrival times.")] = None,
    delay_for: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN=MODEL", help="Delay model for some sources; may be given again.")
    ] = None,
    duplicates: Annotated[float, typer.Option(help="Probability that an event arrives twice.")] = 0.0,
    force: Annotated[bool, typer.Option(help="Replace a trace that is there.")] = False,
    cores: Cores = 2,
    master: Master = None,
    json: JsonFile = None,
) -> None:
    """Read a recording, give its events arrival times, and write them as a trace in arrival order.

    Delay models: [bold]constant(3ms)[/], [bold]uniform(5ms, 250ms)[/], [bold]lognormal(median=20ms, sigma=0.8, max=900ms)[/],
    [bold]bursts(base=10ms, burst=600ms, every=5s, length=200ms)[/], [bold]empirical(TRACE)[/]. All of them also take
    [bold]spread=0.3[/] (sources differ) and [bold]fifo=true[/] (events of a source never overtake each other). Without
    --delay the measured arrival times count, or the times of occurrence where there are none.

    Examples:

      [bold]slackline trace prepare traces/match --generate scenarios.soccer.match:positions --delay 'uniform(5ms, 250ms)'[/]

      [bold]slackline trace prepare traces/umts d-1.csv d-2.csv --reader umts[/]

      [bold]slackline trace prepare traces/half second-half.csv --reader debs2013 --delay 'empirical(traces/umts)'[/]

      [bold]slackline trace prepare traces/weather weather.csv --mapping weather.toml --delay-for 'station-7=constant(2s)'[/]
    """
    from middleware.recordings.prepare.delays import parse_delays
    from middleware.recordings.readers import open_recording
    from middleware.spark.prepare.prepare import prepare as write

    recording = open_recording(files or [], reader=reader, mapping=mapping, generate=generate, seed=seed, seconds=seconds)
    delays = None
    if delay is not None or delay_for or duplicates:
        if recording.measured and delay is None:
            raise TraceError("this recording has measured arrival times: give --delay to draw others for all sources")
        overrides = pairs("--delay-for", delay_for or [], "PATTERN=MODEL, such as 'sensor-4=constant(2s)'")
        delays = parse_delays(delay or "constant(0ms)", overrides, duplicates, seed)
    out = console(json)
    for warning in recording.warnings:
        out.print(warning, style="yellow", markup=False, soft_wrap=True)
    with out.status("...") as status:
        try:
            made = write(
                recording,
                trace,
                delays,
                force=force,
                cores=cores,
                progress=lambda step: status.update(f"{step} ..."),
                master=master,
            )
        except TraceError as error:
            status.stop()
            raise _ended(error) from None
    _show(out, trace, made)
    if json:
        write_json(made, json)


@app.command()
def info(trace: TraceFolder, json: JsonFile = None) -> None:
    """Show what a trace holds: types, events, times, late events, sources, where it came from, lines skipped.

    Example:

      [bold]slackline trace info traces/match --json -[/]
    """
    from middleware.recordings.traces import load_trace

    found = load_trace(trace)
    _show(console(json), trace, found)
    if json:
        write_json(found, json)


@app.command()
def feed(
    trace: TraceFolder,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Address of the node, such as tcp://127.0.0.1:5570.")],
    *,
    speed: Annotated[str, typer.Option(help="1x as recorded, 10x ten times as fast, max as fast as it goes.")] = "1x",
    partitions: Annotated[int, typer.Option(min=1, help="Executors that read and encode at the same time.")] = 2,
    keys: Annotated[Path | None, typer.Option(help="Key file, for nodes that ask for one (slackline keys new).")] = None,
    allow_list: Annotated[Path | None, typer.Option(help="File with the public keys of the nodes.")] = None,
    node: Annotated[str | None, typer.Option(help="Name of the node, if the allow-list has several.")] = None,
    end: Annotated[
        bool, typer.Option("--end", help="Announce the end of the trace's types: then all their results become final.")
    ] = False,
    advertise: Annotated[
        str | None,
        typer.Option(metavar="HOST[:PORT]", help="How executors reach this machine (default: by the host of Spark's driver)."),
    ] = None,
    announce: Annotated[
        Path | None, typer.Option(help="File that gets start moment, first arrival and speed as JSON before the first event.")
    ] = None,
    master: Master = None,
    json: JsonFile = None,
) -> None:
    """Publish a trace to a node from Spark, in arrival order, at a chosen speed.

    Ends with 0 when the node has taken every event. Another trace, or live events, may follow into the same node; with --end
    it knows that no more will come of these types.

    Examples:

      [bold]slackline trace feed traces/match tcp://127.0.0.1:5570 --end[/]

      [bold]slackline trace feed traces/match tcp://127.0.0.1:5570 --speed max --partitions 4 --json -[/]
    """
    from middleware.recordings.traces import load_trace
    from middleware.runtime.transport.keys import Keys
    from middleware.spark.feed.feed import feed as send

    loaded = load_trace(trace)
    out = console(json)
    factor = parse_speed(speed)
    Keys.given(keys, allow_list)  # a mistake in them is better reported before Spark starts
    with _bar(out) as bar:
        task = bar.add_task("starting Spark", total=loaded.events)
        try:
            report = send(
                trace,
                address,
                speed=factor,
                partitions=partitions,
                announce=announce,
                keys=(keys, allow_list) if keys and allow_list else None,
                node=node,
                end=end,
                advertise=advertise,
                progress=lambda events, arrival: bar.update(task, completed=events, description="feeding"),
                master=master,
            )
        except TraceError as error:
            bar.stop()
            raise _ended(error) from None
    _show_report(out, report)
    if json:
        write_json(report, json)
    if report.rejected:
        raise typer.Exit(ExitCode.FAILED)


def parse_speed(text: str) -> float | None:
    """Arrival time per wall time of ``1x``, ``2.5`` and so on; None for ``max``. Raises TraceError."""
    if text == "max":
        return None
    try:
        speed = float(text.removesuffix("x"))
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise TraceError(f"--speed {text}: write 1x, 10x, 0.5x ... or max")
    return speed


def _ended(error: TraceError) -> BaseException:
    """The exit code of the command: a run that broke on the way is another matter than bad input."""
    from middleware.spark.session import FailedRunError

    if not isinstance(error, FailedRunError):
        return error
    print_error(error)
    return typer.Exit(ExitCode.FAILED)


def _bar(out: Console) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=out)


def _show(out: Console, folder: Path, trace: Trace) -> None:
    from rich.markup import escape
    from rich.table import Table

    from middleware.model.quantities import spoken_duration, spoken_time

    table = Table(title=escape(f"{folder} ({trace.reader})"))
    for heading in ("type", "events", "from", "length", "sources", "late", "max lateness", "duplicates"):
        table.add_column(heading, justify="left" if heading in ("type", "from") else "right")
    for name, one in trace.types.items():
        length = spoken_duration(one.last_arrival - one.first_arrival)
        late = f"{one.late:,} ({one.late / one.events:.1%})"
        duplicates = "not counted" if one.duplicates is None else f"{one.duplicates:,}"
        lateness = spoken_duration(one.max_lateness)
        sources = f"{len(one.sources):,}"
        table.add_row(name, f"{one.events:,}", spoken_time(one.first_ts), length, sources, late, lateness, duplicates)
    out.print(table)
    out.print(f"arrival: {f'{trace.delays}, seed {trace.seed or 0}' if trace.delays else 'measured'}")
    out.print(f"from: {', '.join(trace.origin)}", markup=False)
    show_warnings(out, trace)
    show_broken_lines(out, trace, len(trace.bad_lines.first))


def show_warnings(out: Console, trace: Trace) -> None:
    """Say what is likely to be wrong with the recording."""
    for warning in trace.warnings:
        out.print(warning, style="yellow", markup=False, soft_wrap=True)


def show_broken_lines(out: Console, trace: Trace, most: int = 5) -> None:
    """Say how many lines of the recording were skipped, and how many cells lost, with the first few of them; nothing if
    there are none.
    """
    from middleware.recordings.files.tally import lost_note, skipped_note

    for found, note in ((trace.bad_lines, skipped_note(trace.bad_lines)), (trace.lost_cells, lost_note(trace.lost_cells))):
        if not found.count:
            continue
        out.print(f"[yellow]{note}[/]")
        for bad in found.first[:most]:
            out.print(f"  {bad.file}:{bad.line}: {bad.reason}", markup=False, soft_wrap=True)
        if more := found.count - min(most, len(found.first)):
            out.print(f"  and {more:,} more")


def _show_report(out: Console, report: FeedReport) -> None:
    out.print(f"fed {report.events:,} events in {report.seconds:.2f} s: {report.events_per_second:,.0f} events/s")
    if report.attempts > 1:
        out.print(f"[yellow]Spark started over {report.attempts - 1} times[/]")
    if report.repeats:
        out.print(f"the node had {report.repeats:,} of them already")
    for why, count in report.rejected.items():
        out.print(f"the node did not take {count:,} event{'s' if count > 1 else ''}: {why}", style="red", markup=False)
