"""The trace of a scenario: the one prepared before, if nothing that goes into it has changed, or a new one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from middleware.model.errors import ScenarioError, TraceError
from middleware.model.event import stable_hash
from middleware.recordings.files.recording_reading import TooLargeError
from middleware.recordings.prepare.delays import Delays, Empirical, parse_delays
from middleware.recordings.prepare.fitting import check_mapping
from middleware.recordings.readers import Recording, open_recording
from middleware.recordings.traces import DESCRIPTION
from middleware.runtime.scenario import load_scenario
from middleware.spark.prepare.local import is_small
from middleware.spark.prepare.prepare import prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from middleware.runtime.scenario import Scenario

_READING = 2
"""Goes up whenever the same recording would be read in another way, so that older traces are not used."""

Progress = Callable[[str], None]


def opened(plan: Scenario) -> Recording:
    """The recording of a scenario, not read yet. Raises ScenarioError if there is none, TraceError if it cannot be right."""
    recording = plan.plan.recording
    if not plan.is_recorded:
        raise ScenarioError(
            f"{plan.file} has no [recording], so there is nothing to run: start its nodes with 'slackline node', and feed them "
            "with 'slackline pub', or a Publisher"
        )
    mapping = _mapping(plan)
    if mapping is not None:
        check_mapping(mapping, plan)
    return open_recording(
        plan.files(),
        reader=recording.reader,
        mapping=mapping,
        generate=recording.generate,
        seed=recording.seed,
        seconds=recording.seconds,
    )


def prepared_trace(
    plan: Scenario,
    out: Path,
    progress: Progress = lambda step: None,
    *,
    with_spark: bool = False,
    master: str | None = None,
    spark: SparkSession | None = None,
) -> Path:
    """The folder of the scenario's trace, under ``out``; it is prepared unless it exists, by Spark if it is large.

    A trace is used again if it was made from the same recording with the same settings: files are compared by path, size and
    time of change, a mapping and the code of a generator by their contents. ``progress`` is called with the steps of a
    preparation. ``with_spark``: Spark prepares it, however small it is; so does the Spark of ``master`` or ``spark`` (see
    ``spark_session``). Raises TraceError if the recording cannot be read.
    """
    recording, read = plan.plan.recording, opened(plan)
    model = recording.delay
    if recording.delay_like is not None:
        model = f"empirical({prepared_trace(load_scenario(recording.delay_like), out, progress, master=master, spark=spark)})"
    delays = None
    if model or recording.delay_for or recording.duplicates:
        delays = parse_delays(model or "constant(0ms)", recording.delay_for, recording.duplicates, recording.seed)
    folder = out / plan.plan.name / f"trace-{trace_version(plan, delays):016x}"
    if not (folder / DESCRIPTION).exists():
        _prepare(read, folder, delays, progress, with_spark, master, spark)
    return folder


def _prepare(
    recording: Recording,
    folder: Path,
    delays: Delays | None,
    progress: Progress,
    with_spark: bool,
    master: str | None,
    spark: SparkSession | None,
) -> None:
    """Prepare a trace in this process, or with Spark if it is too large for that, or if it is asked for."""
    if not with_spark and master is None and spark is None and is_small(recording):
        try:
            prepare(recording, folder, delays, force=True, progress=progress, in_process=True)
        except TooLargeError as error:
            progress(f"{error}: Spark takes over")
        else:
            return
    prepare(
        recording,
        folder,
        delays,
        force=True,
        progress=lambda step: progress(f"Spark: {step}"),
        master=master,
        spark=spark,
    )


def trace_version(plan: Scenario, delays: Delays | None) -> int:
    """A number that changes whenever the scenario's trace would change. Raises TraceError."""
    files = [(str(file), (at := file.stat()).st_size, at.st_mtime_ns) for file in plan.files()]
    mapping = _mapping(plan)
    try:
        mapped = mapping.read_bytes() if mapping else b""
        sampled = [Path(model.path, DESCRIPTION).read_bytes() for model in _sampled(delays)]
    except OSError as error:
        raise TraceError(f"{error.filename} cannot be read: {error.strerror}") from None
    recording = replace(plan.plan.recording, speed="", to=None)  # how it is fed does not change its contents
    parts = (_READING, recording, delays and delays.describe(), files, mapped, plan.source_version(), sampled)
    return stable_hash(repr(parts))


def _mapping(plan: Scenario) -> Path | None:
    mapping = plan.plan.recording.mapping
    return plan.folder / mapping if mapping else None


def _sampled(delays: Delays | None) -> list[Empirical]:
    return [model for model in delays.models if isinstance(model, Empirical)] if delays else []
