"""The summary of ``slackline run``: what was found, how early, by whom, and whether it is right."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from middleware.cli.output import table
from middleware.cli.runs.detections import DetectionLatency, Detections, found_by_type, latest, lines, pictured
from middleware.cli.runs.skipped_events import SkippedEvents, lateness, lost, skipped_events
from middleware.model.event import IDENTITY, ORDER, Event, type_name
from middleware.model.quantities import local_time, spoken_duration
from middleware.recordings.files.tally import BadLines
from middleware.runtime.clients.collector import Collector
from middleware.runtime.report import MOST_FAILURES, NodeReport
from middleware.testing.oracle import LenientOracle, first_arrivals

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from middleware.runtime.scenario import Scenario
    from middleware.spark.feed.feed import FeedReport

_ROWS = 24
"""How many units a table shows; the JSON has all."""

_ERRORS = 20
"""How many messages of a detector that raised are kept, and how many of them are printed."""
_ERRORS_SHOWN = 3

_TIME = re.compile(r"(?<=\bts=)\d{18,19}\b")
"""Where the text of an event names its time."""


class RunOutcome(msgspec.Struct):
    """The outcome of one run. ``ledgers``: by node, a copy of its late ledger, if there is anything in it."""

    mode: str
    feed: FeedReport
    collector: Collector
    reports: dict[str, NodeReport]
    ledgers: dict[str, Path] = {}


class UnitSummary(msgspec.Struct):
    """A unit after a run; ``k`` in ms, ``alpha`` its mean over the run.

    ``failures``, ``failed``
        how often the detector raised, and at how many events it did so in the end: replays undo what was premature.
    ``errors``
        what it raised there, and where: how often by message, the most frequent ones.
    ``first``
        the first event at which it failed.
    ``stopped``
        whether it ended there, because of ``failing = "stop"``.
    """

    detector: str
    node: str
    level: int
    k: float
    alpha: float
    received: int
    late: int
    rollbacks: int
    published: int
    corrected: int
    failures: int
    failed: int = 0
    errors: dict[str, int] = {}
    first: str = ""
    stopped: bool = False


class RunSummary(msgspec.Struct):
    """One run.

    ``cpu``, ``busy``
        by node, processor seconds and mean busy factor.
    ``late``
        how many events detectors reported as late.
    ``skipped``
        events that came too late or too far ahead, by node, detector and reason.
    ``lost``
        events that nodes could not read or send, by reason.
    ``clashes``
        events that were rejected because another one had come first with their source and id.
    ``found``
        detections by type.
    """

    events: int
    seconds: float
    duplicates: int
    clashes: int
    late: int
    early: int
    corrected: int
    finals: int
    violations: dict[str, int]
    oracle_equal: bool
    latency_by_type: dict[str, DetectionLatency]
    units: list[UnitSummary]
    cpu: dict[str, float]
    busy: dict[str, float]
    memory: dict[str, int]
    skipped: list[SkippedEvents] = []
    lost: dict[str, int] = {}
    found: dict[str, Detections] = {}

    @property
    def is_complete(self) -> bool:
        """Whether nothing was skipped but what the recording itself has too late."""
        return not self.lost and all(one.recorded == one.count for one in self.skipped)


class ScenarioSummary(msgspec.Struct):
    """The whole: ``latency_ms`` is over the scenario's ``results``, by mode; ``broken``: lines of the recording skipped;
    ``lost_cells``: cells that could not be read, of fields that may be missing;
    ``latest``: the last detections of the ``results``: when, type, and what they say.
    """

    scenario: str
    trace: str
    events: int
    finals: int
    oracle_equal: bool
    latency_ms: dict[str, DetectionLatency]
    results: list[str]
    runs: dict[str, RunSummary]
    broken: BadLines = msgspec.field(default_factory=BadLines)
    lost_cells: BadLines = msgspec.field(default_factory=BadLines)
    latest: list[tuple[str, str, str]] = []

    @property
    def is_right(self) -> bool:
        """Whether the finals are the oracle's, and no run skipped anything that the recording does not have too late."""
        return self.oracle_equal and all(one.is_complete for one in self.runs.values())

    @property
    def failed(self) -> bool:
        """Whether a detector failed, at any event in any run."""
        return any(unit.failed for one in self.runs.values() for unit in one.units)


def summary(plan: Scenario, trace: Path, outcomes: Mapping[str, RunOutcome]) -> ScenarioSummary:
    """Everything worth a line about one or two runs, compared with the oracle."""
    from middleware.recordings.traces import load_trace, read_trace

    raw = first_arrivals(itertools.chain.from_iterable(read_trace(trace, plan.types)), plan.detectors)
    expected = LenientOracle(raw, plan.detectors)
    runs = {}
    recorded = lateness(raw) if any(outcome.ledgers for outcome in outcomes.values()) else {}
    for mode, outcome in outcomes.items():
        expected_finals = expected.finals(report.late for report in outcome.reports.values())
        runs[mode] = _run_summary(plan, outcome, expected_finals)
        runs[mode].skipped = skipped_events(plan, outcome.ledgers, recorded)
        runs[mode].lost = dict(sum((Counter(lost(report.broker)) for report in outcome.reports.values()), Counter()))
    results = plan.plan.results or plan.derived
    latencies = {mode: _latency(_delays(outcome, results)) for mode, outcome in outcomes.items()}
    return ScenarioSummary(
        scenario=plan.plan.name,
        trace=str(trace),
        events=len(raw),
        finals=min(one.finals for one in runs.values()),
        oracle_equal=all(one.oracle_equal for one in runs.values()),
        results=list(results),
        latency_ms={mode: latency for mode, latency in latencies.items() if latency is not None},
        runs=runs,
        broken=load_trace(trace).bad_lines,
        lost_cells=load_trace(trace).lost_cells,
        latest=lines(latest(next(iter(outcomes.values())).collector.finals, results)),
    )


def _run_summary(plan: Scenario, outcome: RunOutcome, expected_finals: list[Event]) -> RunSummary:
    collector, reports = outcome.collector, outcome.reports
    by_type = {name: _latency(_delays(outcome, (name,))) for name in plan.derived}
    counts = [sum(changes[kind] for changes in collector.changes.values()) for kind in ("inserted", "revised", "retracted")]
    entry = reports.get(plan.entry)
    return RunSummary(
        events=outcome.feed.events,
        seconds=outcome.feed.seconds,
        duplicates=entry.broker.drops.get("duplicate", 0) if entry else 0,
        clashes=entry.broker.drops.get("clash", 0) if entry else 0,
        late=sum(len(ids) for report in reports.values() for ids in report.late.values()),
        early=counts[0],
        corrected=counts[1] + counts[2],
        finals=len(collector.finals),
        violations=collector.violations,
        oracle_equal=sorted(collector.finals, key=ORDER) == expected_finals and not collector.violations,
        latency_by_type={name: latency for name, latency in by_type.items() if latency is not None},
        units=[unit for report in reports.values() for unit in _units(plan, report)],
        cpu={name: report.cpu for name, report in reports.items()},
        busy={name: _mean([entry.busy for entry in report.adaptation]) for name, report in reports.items()},
        memory={name: report.memory for name, report in reports.items()},
        found=found_by_type(collector, plan.derived),
    )


def _units(plan: Scenario, report: NodeReport) -> list[UnitSummary]:
    policies = plan.policies()
    return [
        UnitSummary(
            detector=unit.detector,
            node=report.node,
            level=plan.levels[unit.detector],
            k=unit.k / 1e6,
            alpha=_mean([entry.alpha[unit.detector] for entry in report.adaptation]) if report.adaptation else unit.alpha,
            received=unit.received,
            late=unit.late,
            rollbacks=unit.rollbacks,
            published=unit.inserted,
            corrected=unit.revised + unit.retracted,
            failures=unit.failures,
            failed=len(errors := report.failures.get(unit.detector, [])),
            errors=dict(Counter(errors).most_common(_ERRORS)),
            first=report.first_failed.get(unit.detector, ""),
            stopped=unit.halted is not None
            or (bool(errors) and (policies.get(unit.detector) or policies[""]).failing == "stop"),
        )
        for unit in report.units
    ]


def _delays(outcome: RunOutcome, types: Iterable[str]) -> list[float]:
    """Latency (ms) of each final event of these types; empty if the feed was not paced."""
    table = outcome.feed.timetable
    if table.speed is None:
        return []
    delivered = outcome.collector.delivered
    chosen = frozenset(types)
    return [
        (delivered[IDENTITY(event)] - table.start - (event.ts - table.first_arrival) / table.speed) / 1e6
        for event in outcome.collector.finals
        if type_name(event.__class__) in chosen
    ]


def _latency(delays: list[float]) -> DetectionLatency | None:
    if not delays:
        return None
    ranked = sorted(delays)
    return DetectionLatency(_mean(ranked), ranked[min(len(ranked) - 1, int(len(ranked) * 0.99))], len(ranked))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def most_corrected(result: ScenarioSummary) -> str | None:
    """The type of results of which most were revised or withdrawn, first among those that the scenario is about; or None."""
    found = next(iter(result.runs.values())).found
    ranked = sorted(found, key=lambda name: (name in result.results, found[name].corrected), reverse=True)
    return next((name for name in ranked if found[name].corrected), None)


def show(result: ScenarioSummary, screen: Console, units: bool = False) -> None:
    """Print the summary for people: what was found, and whether it is right. ``units``: how it was done, too."""
    mode, first = next(iter(result.runs.items()))
    latencies = {mode: one.latency_by_type for mode, one in result.runs.items()}
    for part in pictured(mode, first.found, result.results, latencies, result.latest):
        screen.print(part)
    for mode, one in result.runs.items():
        if units:
            screen.print(_units_table(mode, one))
            busy = ", ".join(f"{node} {cpu:.1f} s CPU, busy {one.busy[node]:.0%}" for node, cpu in one.cpu.items())
            screen.print(f"{mode}: {busy}")
        clashes = f"{one.clashes:,} clashes (same source and id, other content), " if one.clashes else ""
        screen.print(
            f"{mode}: {one.events:,} events in {one.seconds:.1f} s, {one.duplicates:,} duplicates dropped, {clashes}"
            f"{one.late:,} late · {one.early:,} early detections, {one.corrected:,} corrected, {one.finals:,} final"
        )
        _show_failures(mode, one, screen)
        _show_skipped(mode, one, screen)
    speculative, buffering = result.latency_ms.get("speculative"), result.latency_ms.get("buffering")
    if speculative and buffering:
        share = 1 - speculative.mean / buffering.mean
        sooner = f"{abs(share):.0%} {'earlier' if share >= 0 else 'later'}"
        screen.print(
            f"results came {sooner} with speculation: {speculative.mean:,.0f} ms on average "
            f"instead of {buffering.mean:,.0f} ms (p99 {speculative.p99:,.0f} instead of {buffering.p99:,.0f} ms)"
        )
    equal = "[bold green]yes[/]" if result.oracle_equal else "[bold red]no[/]"
    screen.print(f"finals equal the in-order oracle: {equal} ({result.finals:,} events){_less(result)}")
    stopped = {unit.detector for one in result.runs.values() for unit in one.units if unit.stopped}
    if stopped and not result.oracle_equal:
        screen.print(
            f"{', '.join(sorted(stopped))} stopped where it raised, or what it rests on did; the oracle runs on without the "
            "event at which it did"
        )


def _less(result: ScenarioSummary) -> str:
    """The events that the oracle did without, too."""
    runs = result.runs.values()
    count = max(sum(one.count for one in run.skipped) + sum(run.lost.values()) for run in runs)
    if not count:
        return ""
    if all(run.is_complete for run in runs):
        return f", without {count:,} that the recording itself has too late (raise lateness to have them)"
    same = max(sum(one.recorded for one in run.skipped) for run in runs)
    return f", [bold red]but {count - same:,} events were skipped that the recording has in time[/]"


def _show_skipped(mode: str, one: RunSummary, screen: Console) -> None:
    """Which events were skipped, how late, and where all of them are reported; nothing if none were."""
    style = "yellow" if one.is_complete else "bold red"
    for each in one.skipped:
        screen.print(f"{mode}: {each.text()}", style=style, markup=False, soft_wrap=True)
    for ledger in dict.fromkeys(each.ledger for each in one.skipped):
        screen.print(f"  all of them: slackline late list {ledger}", markup=False, soft_wrap=True)
    for reason, count in one.lost.items():
        screen.print(f"{mode}: {count:,} events were lost: {reason}", style=style, markup=False)


def _show_failures(mode: str, one: RunSummary, screen: Console) -> None:
    """Which detectors raised, at how many events, and what; nothing if none did."""
    for unit in sorted(one.units, key=lambda unit: -unit.failed):
        if not unit.failed and not unit.stopped:
            continue
        count = f"{unit.failed:,}{' or more' if unit.failed >= MOST_FAILURES else ''} event{'s' if unit.failed > 1 else ''}"
        ended = f"has stopped; {count} skipped" if unit.stopped else f"failed at {count}, and ran on without"
        screen.print(f"{mode}: {unit.detector} on node {unit.node} {ended}:", style="bold red", markup=False)
        for message, times in list(unit.errors.items())[:_ERRORS_SHOWN]:
            screen.print(f"  {times:,} x {message}", markup=False, soft_wrap=True)
        if unit.first:
            at = _TIME.sub(lambda found: local_time(int(found[0])), unit.first)
            screen.print(f"  first at {at}", markup=False, soft_wrap=True)


def _units_table(mode: str, one: RunSummary) -> Table:
    busiest = sorted(one.units, key=lambda unit: (-unit.failed, -unit.received))[:_ROWS]
    rows = [
        [
            unit.detector,
            unit.node,
            str(unit.level),
            f"{unit.received:,}",
            spoken_duration(round(unit.k * 1e6)),
            f"{unit.alpha:.2f}",
            *(f"{n:,}" for n in (unit.late, unit.rollbacks, unit.published, unit.corrected, unit.failed)),
        ]
        for unit in sorted(busiest, key=lambda unit: (unit.level, unit.detector))
    ]
    headings = ["detector", "node", "level", "received", "K", "alpha", "late", "rollbacks", "published", "corrected", "failed"]
    drawn = table(headings, rows, names=2)
    drawn.title = f"{mode}: units"
    if rest := len(one.units) - len(busiest):
        drawn.caption = f"and {rest} less busy ones (all of them: --json FILE)"
    return drawn
