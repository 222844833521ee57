"""``slackline archive``: a scenario's detectors over a whole recording, in Spark, on one machine or on a cluster."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from middleware.cli.options import Master
from middleware.cli.output import ExitCode, JsonFile, console, print_error, write_json
from middleware.model.errors import SlacklineError, TraceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from middleware.runtime.scenario import Scenario
    from middleware.spark.archive import Archive


def archive(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="Name or folder of the scenario.")],
    *,
    given: Annotated[
        str | None,
        typer.Option(
            "--input",
            metavar="PATH",
            help="A trace, or a folder or address with Parquet in type=NAME for each type; not the scenario's own recording.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Folder or address for the results (default: out/SCENARIO/archive). Must be new."),
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Length of a generated recording, instead of the scenario's.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of a generated recording and its delays.")] = None,
    traces: Annotated[Path, typer.Option(help="Folder for prepared traces.")] = Path("out"),
    explain: Annotated[bool, typer.Option("--explain", help="Show the stages and what they cost, and run nothing.")] = False,
    master: Master = None,
    cores: Annotated[int, typer.Option(min=1, help="Spark tasks at a time, where Spark runs on this machine.")] = 2,
    json: JsonFile = None,
) -> None:
    """Run all detectors of a scenario over its whole recording, as Spark jobs, and write the results as Parquet.

    The results are those of slackline run, and of the in-order oracle, identities included; nothing is early there. Each type
    gets a folder, type=NAME, in total order. Ends with 1 if detectors raised at some events, which were left out.

    On a cluster, recording and results must be where all executors reach them.

    Examples:

      [bold]slackline archive soccer --seconds 65[/]

      [bold]slackline archive soccer --explain[/]

      [bold]slackline archive umts --master spark://host:7077 --input /shared/umts --out /shared/umts-results[/]
    """
    from middleware.runtime.scenario import load_scenario
    from middleware.spark.session import FailedRunError, interruptible, reason, spark_session

    plan = load_scenario(scenario).lasting(seconds, seed)
    target = out or str(Path("out") / plan.plan.name / "archive")
    if "://" not in target and Path(target).exists():
        raise SlacklineError(f"{target} is there already: name another folder with --out, or remove it")
    screen = console(json)
    with screen.status("Spark starts ...") as status, spark_session(cores, master=master) as spark:
        frames, rows = _frames(plan, given, traces, spark)
        from middleware.spark.archive.plan import Plan

        if explain:
            lines = Plan.of(plan.detectors).explain(rows)
            status.stop()
            for line in lines:
                screen.print(line, markup=False, highlight=False, soft_wrap=True)
            if json:
                write_json(lines, json)
            return
        status.update("Spark runs the detectors ...")
        began = time.monotonic()
        try:
            counts, failed = interruptible(lambda: _written(plan, frames, target))
        except SlacklineError:
            raise
        except Exception as error:
            if not type(error).__module__.startswith(("py4j", "pyspark")):
                raise
            raise FailedRunError(f"the archive failed: {reason(error)}; nothing of it is kept") from error
        took = time.monotonic() - began
    for name, count in counts.items():
        screen.print(f"{count:>12,} {name}", highlight=False)
    for line in failed[:5]:
        print_error(SlacklineError(f"left out: {line}"))
    screen.print(f"{sum(counts.values()):,} results of {sum(rows.values()):,} events in {took:.1f} s: {target}", soft_wrap=True)
    if json:
        write_json({"results": counts, "failed": failed, "seconds": took, "out": target}, json)
    if failed:
        raise typer.Exit(ExitCode.FAILED)


def _frames(
    plan: Scenario, given: str | None, traces: Path, spark: SparkSession
) -> tuple[dict[str, DataFrame], dict[str, int]]:
    """The raw events by type, and how many there are."""
    from middleware.spark.archive import trace_frames
    from middleware.spark.prepare.prepared import prepared_trace
    from middleware.spark.traces import DESCRIPTION, load_trace

    types = [event_type for _, event_type in plan.types.items()]
    if given is None or Path(given, DESCRIPTION).exists():
        folder = Path(given) if given is not None else prepared_trace(plan, traces, spark=spark)
        rows = {name: one.events for name, one in load_trace(folder).types.items()}
        frames = trace_frames(spark, folder, types)
        return frames | {name: _nothing(plan, name, spark) for name in _raw(plan) if name not in frames}, rows
    frames = {}
    for name in _raw(plan):
        try:
            frames[name] = spark.read.parquet(f"{given.rstrip('/')}/type={name}")
        except Exception as error:
            raise TraceError(f"{given} has no events of {name} that Spark can read (type={name}): {error}") from None
    return frames, {}


def _raw(plan: Scenario) -> list[str]:
    from middleware.model.event import type_name
    from middleware.spark.archive.plan import Plan

    return [type_name(event_type) for event_type in Plan.of(plan.detectors).raw]


def _nothing(plan: Scenario, name: str, spark: SparkSession) -> DataFrame:
    """No events of a type, of which the recording has none."""
    from middleware.spark.schemas import schema_of

    return spark.createDataFrame([], schema_of(plan.types[name]).ddl)


def _written(plan: Scenario, frames: dict[str, DataFrame], target: str) -> tuple[dict[str, int], list[str]]:
    """Run, and write all results; a local folder gets its name only when it is whole."""
    from middleware.spark.archive import archive as run
    from middleware.spark.session import literal_path

    raw = set(_raw(plan))
    results = run({name: frame for name, frame in frames.items() if name in raw}, plan.detectors, policies=plan.policies())
    if "://" in target:
        results.write(target)
        return _counts(results), _failed(results)
    path = Path(target).absolute()
    partial = path.with_name(f".{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    try:
        results.write(literal_path(partial))
        found = _counts(results), _failed(results)
        partial.rename(path)
        return found
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _counts(results: Archive) -> dict[str, int]:
    return {name: count for name, count in results.counts().items() if count}


def _failed(results: Archive) -> list[str]:
    rows = results.failures.orderBy("ts").limit(20).collect()
    return [
        f"{row.detector}: {row.type} at {row.ts} ({row.source}, {row.id}): {row.why.strip().splitlines()[-1]}" for row in rows
    ]
