"""The report: one HTML file with all figures in it, that needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import jinja2

from middleware.evaluation.measuring.corrections import AffectedEvents
from middleware.evaluation.measuring.measures import LatencySummary, ModeMeasures, Results
from middleware.evaluation.modes import BUFFERING, DYNAMIC

_TEXTS = {
    "Detection latency over time": "From the replayed moment of an event to the delivery of the content that stayed. "
    "The detector looked at speaks rarely, so all detections stand below it.",
    "alpha, busy factor and slack": "The default: alpha decreases as far as the node keeps up, and rises when more comes. "
    "The node idles before the first event, so alpha does not start at 1.",
    "alpha by Algorithm 3": "alpha is halved while the busy factor is below its target zone, and is 1 again above it.",
    "CPU by mode": "Processor time of the one node process per time, as the operating system counts it, in each half second.",
    "Memory by mode": "Above: the events in the ordering buffers, as large as they are when encoded. Pure buffering keeps what "
    "waits for K. Other modes keep what was emitted for the allowed lateness (a second at least), so that nothing fails where "
    "later arrivals outrun K; the paper keeps it for K only, and gives 1,120 KB for pure buffering, 14,850 for dynamic and "
    "21,100 for full speculation, with "
    "snapshots. Below: buffers, snapshots and all else that the node's process has grown by since before the first event.",
    "Latency of every detector": "Filled: mean. Hollow: 99th percentile.",
    "All modes": "What goes beyond the paper, beside what does not. Dynamic alpha spaces its snapshots by what they cost.",
    "alpha at twice the speed": "At its own speed the snippet leaves the processor idle. Above: the default. Then Algorithm 3: "
    "alpha is halved, is 1 again where the busy factor leaves its zone, and then decreases by steps of 0.05 from the bisection "
    "line on. With full speculation latency may grow, and the finals must be right all the same.",
    "Weighted alpha": "Only the scenario's results are subscribed to: the busy budget goes where it makes these come sooner.",
    "Cost of corrections": "The same arrivals in one process, every mode as often as the others and in turn; without keys a "
    "late event replays the input of all keys.",
    "Events affected by retraction": "Counted in one process at alpha = 0 on the same arrivals in the same batches, so that "
    "the machine's load has no say in it.",
}


class Aim(NamedTuple):
    """A measure and what it is to be. ``met``: None where it was not measured, or nothing is aimed at."""

    what: str
    measured: str
    aim: str = ""
    met: bool | None = None


class Panel(NamedTuple):
    """A detector's latencies in the modes, as a small picture: by mode, mean and 99th percentile in parts of the widest."""

    name: str
    detections: int
    ratio: float | None
    bars: list[tuple[str, float, float, str]]


class ReportTable(NamedTuple):
    """Heads, and rows whose first cell is a head, too."""

    heads: list[str]
    rows: list[list[str]]


def write_report(
    file: Path,
    results: Results,
    measured: Mapping[str, ModeMeasures],
    counted: Sequence[AffectedEvents],
    figures: Mapping[str, Path],
) -> None:
    """Write the report to ``file``."""
    template = files("middleware.evaluation").joinpath("report.html.jinja").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string(template).render(
        results=results,
        headline=headline(results, measured),
        aims=aims(results),
        modes=_modes(measured.values()),
        counted=_counted(counted),
        texts=_TEXTS,
        figures={title: base64.b64encode(png.read_bytes()).decode() for title, png in figures.items()},
        panels=_panels(measured),
        detectors=_detectors(measured),
        parts=_parts(measured),
        accuracy=_accuracy(results),
    )
    file.write_text(page, encoding="utf-8")


def headline(results: Results, measured: Mapping[str, ModeMeasures]) -> list[str]:
    """The findings in three sentences: whether results are right, how early they are, and what that costs."""
    wrong = [one.mode.title for one in measured.values() if not one.oracle_equal]
    buffering, dynamic = measured[BUFFERING.name], measured[DYNAMIC.name]
    right = (
        f"The finals of {', '.join(wrong)} are not those of the in-order oracle."
        if wrong
        else f"All {len(measured)} modes end with exactly the results of the in-order oracle, "
        f"{dynamic.finals:,} with dynamic alpha."
    )
    what, soon, late = ("a detection", dynamic.latency, buffering.latency)
    if dynamic.results and buffering.results:
        what, soon, late = ("what people wait for", dynamic.results, buffering.results)
    early = f"With dynamic alpha {what} is known after {soon.mean:,.0f} ms on average; "
    early += f"with pure buffering after {late.mean:,.0f} ms."
    share = dynamic.corrections.corrected_at_all / max(1, dynamic.corrections.published_at_all)
    cost = (
        f"Of the early results {share:.1%} are corrected later, "
        f"and the processor works {dynamic.cpu:.0%} of the time instead of {buffering.cpu:.0%}."
    )
    return [right, early, cost]


def aims(results: Results) -> list[Aim]:
    """The aims of the project with their outcomes; then the figures without an aim."""
    ratio, corrections = results.latency_ratio, results.retraction_ratios
    latency_of, corrections_of = results.latency_of or "-", results.corrections_of or "-"
    return [
        Aim("finals equal the in-order oracle, in every mode", _yes(results.oracle_equal), "yes", results.oracle_equal),
        _below("mean latency, dynamic / buffering: all detections", ratio["all"], 0.40),
        _below(f"... those of {latency_of} (the paper: 0.60)", ratio["pass"], 0.50),
        Aim("mean busy factor by Algorithm 3 not above its target zone", _yes(results.cpu_in_zone), "yes", results.cpu_in_zone),
        _below(
            f"events corrected in the cascade from {corrections_of} on, on-demand / full", results.retraction_ratio, 0.10, 3
        ),
        Aim("mean latency, dynamic / buffering: the scenario's results", _number(ratio["results"])),
        Aim("... mean of the detectors' means", _number(ratio["detectors"])),
        Aim(f"events corrected, on-demand / full: at {corrections_of}", _number(corrections["detector"], 3)),
        Aim("... in the whole hierarchy", _number(corrections["all"], 3)),
        Aim("real-time factor, one core, pure buffering", _number(results.real_time_factor)),
        *(Aim(f"F1 {name}", _number(value)) for name, value in results.f1.items()),
        Aim("detectors / levels / event types", f"{results.detectors} / {results.levels} / {results.event_types:,}"),
    ]


def _below(what: str, value: float | None, most: float, digits: int = 2) -> Aim:
    return Aim(what, _number(value, digits), f"at most {most:.2f}", None if value is None else value <= most)


def _modes(runs: Iterable[ModeMeasures]) -> ReportTable:
    """A column for each mode: there are more measures than modes."""
    columns = [
        {
            "mean latency, ms": f"{run.latency.mean:,.0f}",
            "99th percentile, ms": f"{run.latency.p99:,.0f}",
            "... to buffering": _number(run.ratios.get("all")),
            "of results, ms": f"{run.results.mean:,.0f}" if run.results else "",
            "... results to buffering": _number(run.ratios.get("results")),
            "of the detector looked at, ms": f"{run.focus.mean:,.0f}" if run.focus else "",
            "... detector to buffering": _number(run.ratios.get("pass")),
            "CPU": f"{run.cpu:.0%}",
            "busy factor": f"{run.busy:.2f}",
            "alpha": f"{run.alpha:.2f}",
            "buffers, KB": f"{run.buffers.whole / 1e3:,.0f}",
            "memory, MiB": f"{run.memory / 2**20:,.1f}",
            "peak, MiB": f"{run.peak / 2**20:,.1f}",
            "published": f"{run.corrections.published_at_all:,}",
            "corrected": f"{run.corrections.corrected_at_all:,}",
            "feed behind, ms": f"{run.behind:,.0f}",
            "late events": f"{run.late:,}",
            "finals": f"{run.finals:,}",
            "equal the oracle": _yes(run.oracle_equal),
            "mode": run.mode.title,
        }
        for run in runs
    ]
    heads = ["", *(column.pop("mode") for column in columns)]
    return ReportTable(heads, [[name, *(column[name] for column in columns)] for name in columns[0]])


def _counted(counted: Sequence[AffectedEvents]) -> ReportTable:
    columns = [
        {
            "corrected at the detector": f"{one.corrections.corrected:,} of {one.corrections.published:,}",
            "... in the cascade": f"{one.corrections.corrected_in_cascade:,} of {one.corrections.published_in_cascade:,}",
            "... at all": f"{one.corrections.corrected_at_all:,} of {one.corrections.published_at_all:,}",
            "detector calls": f"{one.executed:,}",
            "snapshots": f"{one.snapshots:,}",
            "CPU, s": f"{one.cpu:.1f}",
            "real-time factor": _number(one.real_time_factor),
        }
        for one in counted
    ]
    heads = ["", *(one.mode.title for one in counted)]
    return ReportTable(heads, [[name, *(column[name] for column in columns)] for name in columns[0]] if columns else [])


def _panels(measured: Mapping[str, ModeMeasures]) -> list[Panel]:
    """Every detector with results under buffering, in the basic modes; all on one scale, by what dynamic alpha gains."""
    buffering = measured[BUFFERING.name]
    alike = [one for one in measured.values() if one.mode.speed == buffering.mode.speed and not one.mode.results_only]
    alike = [one for one in alike if one.mode.name in (BUFFERING.name, DYNAMIC.name, "speculation")]
    widest = max((one.p99 for run in alike for one in run.by_detector.values()), default=0.0) or 1.0
    panels = []
    for name, first in buffering.by_detector.items():
        bars = [
            (run.mode.title, max(0.0, one.mean) / widest, max(0.0, one.p99) / widest, _latency(one))
            for run in alike
            if (one := run.by_detector.get(name))
        ]
        panels.append(Panel(name, first.count, _gained(measured, name), bars))
    return sorted(panels, key=lambda panel: (panel.ratio is None, panel.ratio or 0.0, panel.name))


def _gained(measured: Mapping[str, ModeMeasures], name: str) -> float | None:
    """A detector's mean latency with dynamic alpha to that with buffering."""
    buffering, fast = measured[BUFFERING.name].by_detector[name], measured[DYNAMIC.name].by_detector.get(name)
    return fast.mean / buffering.mean if fast and buffering.mean else None


def _detectors(measured: Mapping[str, ModeMeasures]) -> ReportTable:
    buffering = measured[BUFFERING.name].by_detector
    rows = [
        [name, f"{buffering[name].count:,}"]
        + [_latency(one.by_detector.get(name)) for one in measured.values()]
        + [_number(_gained(measured, name))]
        for name in sorted(buffering)
    ]
    return ReportTable(["detector", "detections", *(one.mode.title for one in measured.values()), "dynamic / buffering"], rows)


def _parts(measured: Mapping[str, ModeMeasures]) -> ReportTable:
    """Latency by result that people wait for, then by level: a row each, a column for each mode."""
    first, dynamic = measured[BUFFERING.name], measured[DYNAMIC.name]
    rows = []
    for part, title in (("by_result", "{}"), ("by_level", "level {}")):
        known: dict[str, LatencySummary] = getattr(first, part)
        fast: dict[str, LatencySummary] = getattr(dynamic, part)
        for name, one in known.items():
            cells = [_latency(getattr(run, part).get(name)) for run in measured.values()]
            gained = fast[name].mean / one.mean if name in fast and one.mean else None
            rows.append([title.format(name), f"{one.count:,}", *cells, _number(gained)])
    return ReportTable(["", "detections", *(one.mode.title for one in measured.values()), "dynamic / buffering"], rows)


def _accuracy(results: Results) -> ReportTable:
    """Precision and recall with their intervals, where something was scored."""
    rows = []
    for name, one in results.accuracy.items():
        if one is not None:
            shares = ((one.precision, one.precision_within), (one.recall, one.recall_within))
            intervals = [f"{share:.2f} ({low:.2f} to {high:.2f})" for share, (low, high) in shares]
            rows.append([name, f"{one.f1:.3f}", *intervals, *(f"{count:,}" for count in (one.found, one.true, one.hits))])
    return ReportTable(["", "F1", "precision (95 %)", "recall (95 %)", "found", "true", "right"], rows)


def _latency(one: LatencySummary | None) -> str:
    return f"{one.mean:,.0f} / {one.p99:,.0f}" if one else ""


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
