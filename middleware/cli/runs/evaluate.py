"""``slackline evaluate``: the paper's evaluation from runs made now, as a report with figures."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from middleware.cli.command_options import Master, Seed, TracesFolder
from middleware.cli.output import ExitCode, JsonFile, console, introduce, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from middleware.evaluation.measuring.measures import Results
    from middleware.runtime.scenario import Scenario

SECONDS = 65.0
"""The paper's snippet: 2.2 million positions."""

QUICK_SECONDS = 8.0


def evaluate(
    *,
    scenario: Annotated[str, typer.Option(help="Name or folder of the scenario.")] = "soccer",
    seconds: Annotated[float | None, typer.Option(min=1.0, help="Length of a generated snippet (65; with --quick 8).")] = None,
    seed: Seed = None,
    retraction: Annotated[
        bool, typer.Option("--retraction", help="Only the ways of retraction, over the whole recording, in virtual time.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Few modes and a short snippet: checks structure, not times.")] = False,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Gets report.html and the figures.")] = Path("out/evaluation"),
    traces: TracesFolder = Path("out"),
    master: Master = None,
    json: JsonFile = None,
) -> None:
    """Replay a match, or a recording, in every mode through a real node; report latency, CPU, memory, corrections, accuracy.

    A real recording is replayed as fast as its scenario says, and its latencies count in its own time. Everything runs on
    one node process, fed by a process of its own; let nothing else run on the machine.
    --master says which Spark prepares the recording, into a folder that this machine sees, too.
    With --retraction it is the paper's section 5.4: each way of retraction over a long recording, with alpha by Algorithm 3, in
    one process and in virtual time, so that 45 minutes take a few; and memory by part.

    Ends with 0 if the finals of every mode equal the in-order oracle's, and with 1 if they do not or a detector failed.

    Examples:

      [bold]slackline evaluate[/]                       the whole evaluation, half an hour or so

      [bold]slackline evaluate --quick --json -[/]      its structure, in three minutes

      [bold]slackline evaluate --seconds 20 --seed 3 --out out/seed3[/]

      [bold]slackline evaluate --scenario tracab --out out/tracab[/]   a real match, against its labels

      [bold]slackline evaluate --scenario half --retraction[/]    45 minutes, what is retracted, and memory by part
    """
    from middleware.cli.runs.live import steps
    from middleware.cli.runs.run import prepared
    from middleware.cli.runs.trace import parse_speed
    from middleware.evaluation.evaluation import SHORT, WHOLE, Evaluation
    from middleware.evaluation.figures import check_drawing
    from middleware.runtime.scenario import load_scenario

    plan = load_scenario(scenario)
    length: float | None = seconds if seconds is not None else QUICK_SECONDS if quick else SECONDS
    if plan.plan.recording.generate is None or retraction:
        length = seconds  # a recording has the length that it has
    if retraction:
        _long(plan.lasting(length, seed) if length or seed is not None else plan, traces, console(json), master, json)
        return
    check_drawing()  # the figures come last: what they need is known before half an hour of runs
    plan = plan.lasting(length, seed)
    screen = console(json)
    introduce(screen, plan.plan.name, plan.plan.about)
    speed = parse_speed(plan.plan.recording.speed) or 1.0  # "max" leaves no time to speak of
    trace = prepared(plan, traces, screen, master=master)
    with steps(screen) as begin:
        results = Evaluation(plan, trace, SHORT if quick else WHOLE, _command(), begin, speed).run(out)
    _show(results, screen, out)
    if json:
        write_json(results, json)
    if not results.oracle_equal or results.failed:
        raise typer.Exit(ExitCode.FAILED)


def _long(plan: Scenario, traces: Path, screen: Console, master: str | None, json: str | None) -> None:
    """``--retraction``."""
    from rich.table import Table

    from middleware.cli.runs.live import steps
    from middleware.cli.runs.run import prepared
    from middleware.evaluation.long import MEMORY_HEADS, heads, long_run, memory_rows, rows

    trace = prepared(plan, traces, screen, master=master)
    with steps(screen) as begin:
        results = long_run(plan, trace, _command(), begin)
    for columns, lines in ((heads(results), rows(results)), (MEMORY_HEADS, memory_rows(results))):
        table = Table()
        for number, column in enumerate(columns):
            table.add_column(column, justify="right" if number else "left")
        for line in lines:
            table.add_row(*line)
        screen.print(table)
    if json:
        write_json(results, json)
    if not results.oracle_equal:
        raise typer.Exit(ExitCode.FAILED)


def _command() -> str:
    return shlex.join(["slackline", *sys.argv[1:]])


def _show(results: Results, screen: Console, out: Path) -> None:
    from rich.table import Table

    table = Table(title=f"{results.seconds:g} s, seed {results.seed}: what people wait for, and all detections")
    for heading in (
        "mode",
        "results (ms)",
        "all, mean (ms)",
        "p99 (ms)",
        "ratio",
        "CPU",
        "busy",
        "alpha",
        "corrected",
        "finals",
        "oracle",
    ):
        table.add_column(heading, justify="left" if heading == "mode" else "right")
    for mode in results.modes:
        latency, results_of, ratio = mode["latency"], mode["results"], mode["ratios"].get("all")
        numbers = [
            f"{results_of['mean']:,.0f}" if results_of else "",
            f"{latency['mean']:,.0f}",
            f"{latency['p99']:,.0f}",
            "" if ratio is None else f"{ratio:.2f}",
            f"{mode['cpu']:.0%}",
        ]
        numbers += [f"{mode['busy']:.2f}", f"{mode['alpha']:.2f}", f"{mode['corrections']['corrected_at_all']:,}"]
        equal = "[green]equal[/]" if mode["oracle_equal"] else "[red]differs[/]"
        table.add_row(mode["mode"]["title"], *numbers, f"{mode['finals']:,}", equal)
    screen.print(table)
    given = {**{f"latency {name}": value for name, value in results.latency_ratio.items()}}
    given |= {"corrected, on-demand to full": results.retraction_ratio, "real-time factor": results.real_time_factor}
    screen.print(" · ".join(f"{name} {'-' if value is None else f'{value:.3g}'}" for name, value in given.items()))
    for name, accuracy in results.accuracy.items():
        if accuracy is not None:
            screen.print(f"{name}: {accuracy}", markup=False)
    for what, why in results.failed.items():
        screen.print(f"{what}: {why}", style="bold red", markup=False)
    for what, why in results.left_out.items():
        screen.print(f"skipped: {what}: {why}", style="yellow")
    screen.print(f"report: {out / 'report.html'}")
