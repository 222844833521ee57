"""``slackline run``: a scenario from its recording to its final results, with and without speculation."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from middleware.cli.command_options import Master, Seconds, Seed, TracesFolder
from middleware.cli.output import STANDARD_OUTPUT, ExitCode, JsonFile, console, introduce, kept_for_results, write_json
from middleware.cli.result_files import KINDS, check_not_read, check_results, write_results
from middleware.model.errors import RunError, ScenarioError, TraceError
from middleware.runtime.clients.collector import Collector
from middleware.runtime.cluster import Cluster

if TYPE_CHECKING:
    from rich.console import Console

    from middleware.cli.runs.summary import RunOutcome, ScenarioSummary
    from middleware.observe.view.server import Page
    from middleware.runtime.scenario import Scenario

_PATIENCE = 120.0
"""Seconds that the nodes may take, after the last event was fed, to make everything final."""

_ANSWER = 5.0
"""Seconds that a node may take to say what it waits for."""


def run(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="Name or folder of the scenario.")],
    *,
    mode: Annotated[
        str,
        typer.Option(help="[bold]both[/] runs it with speculation and with pure buffering; or one of speculative, buffering."),
    ] = "both",
    speed: Annotated[
        str | None,
        typer.Option(help="1x as recorded, 10x ten times as fast, max as fast as it goes; instead of the scenario's."),
    ] = None,
    seconds: Seconds = None,
    seed: Seed = None,
    workers: Annotated[
        int | None, typer.Option(help="How many nodes share the partitioned detectors, such as those of a flow.")
    ] = None,
    out: TracesFolder = Path("out"),
    results: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help=f"Write the final results to FILE: {KINDS}; [bold]-[/] is standard output.",
            callback=kept_for_results,
        ),
    ] = None,
    units: Annotated[bool, typer.Option("--units", help="Show how it was done, too: each detector's unit, and nodes.")] = False,
    view: Annotated[
        bool, typer.Option("--view", help="Show it live on a page, at an address that is printed; it stays until Ctrl-C.")
    ] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Prepare and feed with Spark, as is done for large recordings.")
    ] = False,
    master: Master = None,
    json: JsonFile = None,
) -> None:
    """Prepare the recording, start the nodes, feed them, and hold the final results against the in-order oracle.

    A recording of more than half a gigabyte is prepared and fed with Spark; others do without it, and so without Java.

    Ends with 0 if the finals equal the oracle's, with 1 if they do not, if a detector failed at an event, or if events were
    skipped that the recording has in time, and with 2 if the scenario cannot be run.

    A line or row of --results holds the event's type, its fields, and ts (ns), id, source and level; as lines of JSON it is
    what slackline sub --to writes, and slackline pub reads. Lines are in total order; all derived types are there.

    Examples:

      [bold]slackline run soccer[/]

      [bold]slackline run soccer --seconds 65 --seed 3 --json result.json[/]

      [bold]slackline run soccer --view[/]

      [bold]slackline run search --workers 3[/]

      [bold]slackline run bookstore --results results.jsonl[/]

      [bold]slackline run debs2013 --mode speculative --speed 10x[/]
    """
    from middleware.cli.meshes.view import opened_page, stays
    from middleware.cli.runs.live import step
    from middleware.cli.runs.summary import show, summary
    from middleware.cli.runs.trace import parse_speed
    from middleware.runtime.scenario import load_scenario
    from middleware.spark.session import spark_session

    modes = {"both": ("speculative", "buffering")}.get(mode, (mode,))
    if not set(modes) <= {"speculative", "buffering"}:
        raise ScenarioError(f"--mode {mode}: it is both, speculative or buffering")
    plan = load_scenario(scenario).lasting(seconds, seed)
    if workers is not None:
        plan = plan.with_workers(workers)
    factor = parse_speed(speed or plan.plan.recording.speed)
    if STANDARD_OUTPUT == json == results:
        raise ScenarioError("--json - and --results -: only one of them can have standard output")
    screen = console(results if results == STANDARD_OUTPUT else json)
    if results is not None:
        check_results(results)
    check_not_read((results, json), plan.own_files)
    spark = not _introduce(plan, screen) or spark or master is not None
    with ExitStack() as stack:
        if spark:
            with step(screen, "Spark starts"):
                stack.enter_context(spark_session(2, master=master))
        trace = prepared(plan, out, screen, spark, master)
        ended = _missing(plan, trace, screen)
        page = opened_page(screen) if view else None
        outcomes = {each: _run(plan, trace, ended, each, factor, screen, page, spark) for each in modes}
    with step(screen, "the in-order oracle runs"):
        result = summary(plan, trace, outcomes)
    show(result, screen, units)
    _print_hint(result, scenario, trace, screen)
    if results is not None:
        write_results(next(iter(outcomes.values())).collector.finals, results)
    if json:
        write_json(result, json)
    if page is not None:
        stays(page, screen)
    if not result.is_right or result.failed:
        raise typer.Exit(ExitCode.FAILED)


def _introduce(plan: Scenario, screen: Console) -> bool:
    """Say what is run, and what is wrong with the recording, before anything starts; returns whether it needs no Spark."""
    from middleware.spark.prepare.local import is_small
    from middleware.spark.prepare.prepared import opened

    introduce(screen, plan.plan.name, plan.plan.about)
    recording = opened(plan)
    for warning in recording.warnings:
        screen.print(warning, style="yellow", markup=False, soft_wrap=True)
    return is_small(recording)


def _missing(plan: Scenario, trace: Path, screen: Console) -> list[str]:
    """The raw types that detectors read, and of which the recording has no event; a line names them."""
    from middleware.recordings.prepare.fitting import check_fit, read_types

    missing = [name for name in check_fit(trace, plan.types, read_types(plan)) if name not in plan.derived]
    if missing:
        screen.print(f"[yellow]the recording holds nothing of {', '.join(missing)}, which detectors read[/]")
    return missing


def _print_hint(result: ScenarioSummary, scenario: str, trace: Path, screen: Console) -> None:
    from middleware.cli.runs.summary import most_corrected

    if (name := most_corrected(result)) is not None:
        hint = f"why a result came or went: slackline why {name} corrected --scenario {scenario} --trace {trace}"
        screen.print(hint, markup=False, soft_wrap=True)


def prepared(plan: Scenario, out: Path, screen: Console, with_spark: bool = False, master: str | None = None) -> Path:
    """The scenario's trace, prepared if need be (``with_spark``, ``master``: by Spark); prints what there is to know of it."""
    from middleware.cli.runs.live import steps
    from middleware.cli.runs.trace import show_broken_lines, show_warnings
    from middleware.model.quantities import spoken_duration
    from middleware.recordings.traces import load_trace
    from middleware.spark.prepare.prepared import prepared_trace

    with steps(screen) as begin:
        folder = prepared_trace(
            plan, out, lambda step: begin(f"the trace is prepared: {step}"), with_spark=with_spark, master=master
        )
    trace = load_trace(folder)
    late = sum(one.late for one in trace.types.values())
    worst = max(one.max_lateness for one in trace.types.values())
    screen.print(
        f"trace {folder}: {trace.events:,} events of {len(trace.sources())} sources, "
        f"{late / trace.events:.1%} late, the latest by {spoken_duration(worst)}"
    )
    show_warnings(screen, trace)
    show_broken_lines(screen, trace)
    return folder


def _run(
    plan: Scenario,
    trace: Path,
    ended: list[str],
    mode: str,
    speed: float | None,
    screen: Console,
    page: Page | None = None,
    spark: bool = False,
) -> RunOutcome:
    """One run: nodes, collector, feed; until everything is final. ``ended``: types of which the trace has nothing."""
    from middleware.cli.meshes.view import following
    from middleware.cli.runs.live import Progress, shown, step
    from middleware.cli.runs.skipped_events import copy_ledgers
    from middleware.cli.runs.summary import RunOutcome
    from middleware.recordings.traces import load_trace
    from middleware.spark.feed.feed import feed

    cluster = Cluster(plan, alpha=1.0 if mode == "buffering" else None)
    with cluster:
        sink = next(name for name in reversed(list(plan.placement)) if plan.placement[name])
        collector = Collector(cluster.addresses[sink], plan.derived, plan.types, plan.plan.results or plan.derived)
        progress = Progress(mode, load_trace(trace).events, cluster, collector)
        try:
            with step(screen, f"{mode}: the nodes start ({', '.join(plan.placement)})"):
                cluster.await_ready(collector.start)
            with shown(progress, screen), following(page, cluster, mode):
                report = feed(
                    trace,
                    cluster.addresses[plan.entry],
                    speed=speed,
                    end=True,
                    ended=ended,
                    progress=lambda events, arrival: setattr(progress, "fed", events),
                    in_process=not spark,
                )
                if not collector.join(_PATIENCE):
                    raise not_final(mode, cluster, collector)
        except TraceError as error:  # the feed has failed; if that is because a node has died, its last output is the cause
            if cluster.dead():
                raise _broken(str(error), cluster) from error
            raise
        finally:
            collector.close()
        with step(screen, f"{mode}: the nodes end"):
            cluster.end()
            ledgers = copy_ledgers(cluster, trace.parent / f"left-out-{mode}")
    return RunOutcome(mode, report, collector, cluster.reports, ledgers)


def not_final(mode: str, cluster: Cluster, collector: Collector) -> RunError:
    """Why a run did not come to its end: who has died, and what the nodes say that they wait for."""
    from middleware.cli.questions.why_waiting import MeshWaits

    why = collector.failure or f"the results were not final {_PATIENCE:.0f} s after the last event"
    error = _broken(f"the {mode} run did not come to its end: {why}", cluster)
    dead = cluster.dead()
    mesh = MeshWaits.asked([address for name, address in cluster.addresses.items() if name not in dead], _ANSWER)
    for line in (*mesh.silent, *(line for lines in mesh.explained().values() for line in lines)):
        error.add_note(line)
    return error


def _broken(what: str, cluster: Cluster) -> RunError:
    """An error that also names the nodes that have died, and their last outputs."""
    dead = cluster.dead()
    error = RunError(what + "".join(f"; node {name} ended with exit code {code}" for name, code in dead.items()))
    for name in dead:
        for line in cluster.last_words(name):
            error.add_note(f"{name}: {line}")
    return error
