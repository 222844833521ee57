"""``slackline archive``: a scenario's detectors over a whole recording, in Spark, on one machine or on a cluster."""

from __future__ import annotations

import shutil
import time
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from middleware.cli.command_options import Cores, Master, Seconds, Seed, TracesFolder
from middleware.cli.output import ExitCode, JsonFile, console, print_error, write_json
from middleware.model.errors import DetectorError, SlacklineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from rich.console import Console

    from middleware.runtime.scenario import Scenario
    from middleware.spark.archive import Archive
    from middleware.spark.archive.files import EventFiles

_MOST_SHOWN = 20
"""The most events that are shown of those that were skipped, or have the same identity as others."""


def archive(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="Name or folder of the scenario.")],
    *,
    given: Annotated[
        str | None,
        typer.Option(
            "--input",
            metavar="PATH",
            help="A trace, or a folder or address with files in type=NAME for each type; not the scenario's own recording.",
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option("--format", help="What the files of --input are: parquet, json (lines), csv (with a header), delta, orc."),
    ] = "parquet",
    out: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Folder or address for the results (default: out/SCENARIO/archive). Must be new."),
    ] = None,
    seconds: Seconds = None,
    seed: Seed = None,
    traces: TracesFolder = Path("out"),
    check: Annotated[
        bool, typer.Option("--check", help="Hold the results against the in-order oracle, which runs in this process.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the stages and what they cost, and those of a stream, and run nothing.")
    ] = False,
    master: Master = None,
    cores: Cores = 2,
    json: JsonFile = None,
) -> None:
    """Run all detectors of a scenario over its whole recording, as Spark jobs, and write the results as Parquet.

    The results are those of slackline run, and of the in-order oracle, identities included; nothing is early there. Each type
    gets a folder, type=NAME, in total order. Ends with 1 if detectors raised at some events, which were skipped, if different
    events of --input have the same source and id, or if --check finds a difference.

    On a cluster, recording and results must be where all executors reach them.

    Examples:

      [bold]slackline archive soccer --seconds 65 --check[/]

      [bold]slackline archive soccer --explain[/]

      [bold]slackline archive umts --master spark://host:7077 --input /shared/umts --out /shared/umts-results[/]

      [bold]slackline archive bookstore --input s3a://shop/events --format json --out s3a://shop/thefts[/]
    """
    from middleware.recordings.traces import DESCRIPTION
    from middleware.runtime.scenario import load_scenario
    from middleware.spark.jobs import interruptible
    from middleware.spark.session import FailedRunError, reason, spark_session

    plan = load_scenario(scenario).lasting(seconds, seed)
    target = out or str(Path("out") / plan.plan.name / "archive")
    if "://" not in target and Path(target).exists():
        raise SlacklineError(f"{target} is there already: name another folder with --out, or remove it")
    screen = console(json)
    is_trace = given is None or Path(given, DESCRIPTION).exists()
    with screen.status("Spark starts ...") as status, spark_session(cores, master=master) as spark:
        frames, rows = interruptible(lambda: _frames(plan, given, form if not is_trace else None, traces, spark))
        from middleware.spark.archive.archive_plan import ArchivePlan

        if explain:
            lines = [*ArchivePlan.of(plan.detectors).explain(rows), *_as_stream(plan)]
            status.stop()
            for line in lines:
                screen.print(line, markup=False, highlight=False, soft_wrap=True)
            if json:
                write_json(lines, json)
            return
        status.update("Spark runs the detectors ...")
        began = time.monotonic()
        try:
            counts, failed, results = interruptible(lambda: _written(plan, frames, target, is_trace))
        except SlacklineError:
            raise
        except Exception as error:
            if not type(error).__module__.startswith(("py4j", "pyspark")):
                raise
            raise FailedRunError(f"the archive failed: {reason(error)}; nothing of it is kept") from error
        took = time.monotonic() - began
        differences = None
        if check:
            status.update("the in-order oracle runs ...")
            differences = interruptible(lambda: _differences(plan, results))
    outcome = ArchiveSummary(counts, failed, took, target, None if differences is None else not differences)
    if _show(screen, outcome, sum(rows.values()), differences, json):
        raise typer.Exit(ExitCode.FAILED)


def _as_stream(plan: Scenario) -> list[str]:
    """The stages in which a stream would run the detectors."""
    from middleware.spark.stream import explain

    try:
        return ["as a stream, if keys go to 2 shards each:", *explain(plan.detectors, 2)]
    except DetectorError as error:
        return [f"as a stream: {error}"]


class ArchiveSummary(NamedTuple):
    """The output of --json. ``seconds``: without the start of Spark. ``oracle_equal``: None without --check."""

    results: dict[str, int]
    failed: list[str]
    seconds: float
    out: str
    oracle_equal: bool | None


def _show(screen: Console, outcome: ArchiveSummary, events: int, differences: str | None, json: str | None) -> bool:
    """Print what there is; returns whether something is wrong with it. ``events``: 0 if that is not known."""
    for name, count in outcome.results.items():
        screen.print(f"{count:>12,} {name}", highlight=False)
    for line in outcome.failed[:5]:
        print_error(SlacklineError(line))
    of = f" of {events:,} events" if events else ""
    screen.print(f"{sum(outcome.results.values()):,} results{of} in {outcome.seconds:.1f} s: {outcome.out}", soft_wrap=True)
    if differences is not None:
        screen.print(f"results equal the in-order oracle: {f'no: {differences}' if differences else 'yes'}", soft_wrap=True)
    if json:
        write_json(outcome._asdict(), json)
    return bool(outcome.failed or differences)


def _frames(
    plan: Scenario, given: str | None, form: str | None, traces: Path, spark: SparkSession
) -> tuple[dict[str, DataFrame | EventFiles], dict[str, int]]:
    """The raw events by type that detectors read, and how many there are, if that is known. ``form``: None for a trace."""
    from middleware.recordings.traces import load_trace
    from middleware.spark.archive import stored_frames, trace_frames
    from middleware.spark.prepare.prepared import prepared_trace

    raw = _raw(plan)
    if given is not None and form is not None:
        return stored_frames(spark, given, [plan.types[name] for name in raw], form), {}
    folder = Path(given) if given is not None else prepared_trace(plan, traces, spark=spark)
    rows = {name: one.events for name, one in load_trace(folder).types.items()}
    frames = trace_frames(spark, folder, [event_type for _, event_type in plan.types.items()])
    return {name: frames[name] if name in frames else _nothing(plan, name, spark) for name in raw}, rows


def _raw(plan: Scenario) -> list[str]:
    from middleware.model.event import type_name
    from middleware.spark.archive.archive_plan import ArchivePlan

    return [type_name(event_type) for event_type in ArchivePlan.of(plan.detectors).raw]


def _nothing(plan: Scenario, name: str, spark: SparkSession) -> DataFrame:
    """No events of a type, of which the recording has none."""
    from middleware.spark.schemas import schema_of

    return spark.createDataFrame([], schema_of(plan.types[name]).ddl)


def _written(
    plan: Scenario, frames: dict[str, DataFrame | EventFiles], target: str, is_trace: bool
) -> tuple[dict[str, int], list[str], Archive]:
    """Run, and write all results; a local folder gets its name only when it is whole. Returns what there is."""
    from middleware.spark.archive import archive as run

    results = run(frames, plan.detectors, policies=plan.policies())
    if "://" in target:
        return _some(results.write(target)), _failed(results, is_trace), results
    path = Path(target).absolute()
    partial = path.with_name(f".{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    try:
        found = _some(results.write(f"file://{partial}")), _failed(results, is_trace), results
        partial.rename(path)
        return found
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _some(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _failed(results: Archive, is_trace: bool) -> list[str]:
    """The events that detectors skipped and, unless the first arrival counts, those that share their identity with others."""
    rows = results.failures.orderBy("ts").limit(_MOST_SHOWN).collect()
    failed = [
        f"skipped: {row.detector}: {row.type} at {row.ts} ({row.source}, {row.id}): {row.why.strip().splitlines()[-1]}"
        for row in rows
    ]
    clashing = [] if is_trace else results.clashes.orderBy("source", "id").limit(_MOST_SHOWN).collect()
    return failed + [
        f"several events are ({row.source}, {row.id}): {', '.join(row.types)} at {', '.join(map(str, sorted(row.times)))}"
        for row in clashing
    ]


def _differences(plan: Scenario, results: Archive) -> str:
    """How the results differ from the in-order oracle's; empty if they do not. All events must fit into this process."""
    from middleware.model.event import IDENTITY, ORDER
    from middleware.model.values.state import alike
    from middleware.testing.oracle import oracle

    derived = oracle(results.raw_events(), plan.detectors)
    expected = sorted(chain.from_iterable(derived.values()), key=ORDER)
    found = {IDENTITY(event): event for event in results.collect()}
    differ = [event for event in expected if not alike(found.pop(IDENTITY(event), None), event)]
    if not differ and not found:
        return ""
    first = min([*differ, *found.values()], key=ORDER)
    return (
        f"{len(differ):,} of {len(expected):,} are missing or others, {len(found):,} are too many; the first of all is {first}"
    )
