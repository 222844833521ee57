"""The report: one HTML file with all figures in it, that needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from middleware.evaluation.corrections import Affected
from middleware.evaluation.measures import Latency, Measured, Results
from middleware.evaluation.modes import BUFFERING, DYNAMIC

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1b2a41; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
img { max-width: 100%; border: 1px solid #ddd; }
table { border-collapse: collapse; font-size: .85rem; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.yes { color: #2b7a4b; font-weight: 600; } .no { color: #b3261e; font-weight: 600; }
.setting { font-size: .8rem; color: #555; }
"""

_TEXTS = {
    "Detection latency over time": "From the replayed moment of an event to the delivery of the content that stayed. "
    "The detector looked at speaks rarely, so all detections stand below it.",
    "alpha, busy factor and slack": "alpha is halved while the busy factor is below its target zone, and is 1 again above it. "
    "The node idles before the first event, so alpha does not start at 1.",
    "CPU by mode": "Processor time of the one node process per time, as the operating system counts it, in each half second.",
    "Memory by mode": "Above: the events in the ordering buffers, as large as they are when encoded. Every mode keeps what was "
    "emitted for the allowed lateness (a second at least), so that nothing fails where later arrivals outrun K; the paper "
    "keeps it for K only, and gives 1,120 KB for pure buffering, 14,850 for dynamic and 21,100 for full speculation, with "
    "snapshots. Below: buffers, snapshots and all else that the node's process has grown by since before the first event.",
    "Latency of every detector": "Filled: mean. Hollow: 99th percentile.",
    "All modes": "What goes beyond the paper, beside what does not. Dynamic alpha spaces its snapshots by what they cost.",
    "alpha at twice the speed": "At its own speed the snippet leaves the processor idle; at twice its speed Algorithm 3 shows: "
    "alpha is halved, is 1 again where the busy factor leaves its zone, and then falls by steps of 0.05 from the bisection "
    "line on. With full speculation latency may grow, and the finals must be right all the same.",
    "Weighted alpha": "Only the scenario's results are subscribed to: the busy budget goes where it makes these come sooner.",
    "Cost of corrections": "The same arrivals in one process, every mode as often as the others and in turn; without keys a "
    "late event replays the input of all keys.",
    "Events affected by retraction": "Counted in one process at alpha = 0 on the same arrivals in the same batches, so that "
    "the machine's load has no say in it.",
}


def write_report(
    file: Path, results: Results, measured: Mapping[str, Measured], counted: Sequence[Affected], figures: Mapping[str, Path]
) -> None:
    """Write the report to ``file``."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        f"<title>Slackline: evaluation of {escape(results.scenario)}</title><style>{_STYLE}</style>",
        f"<h1>Evaluation: {escape(results.scenario)}, {results.seconds:g} s, seed {results.seed}</h1>",
        _setting(results),
        *_summary(results),
        "<h2>Modes</h2>",
        _modes(measured.values()),
    ]
    for title, png in figures.items():
        data = base64.b64encode(png.read_bytes()).decode()
        parts.append(f"<h2>{escape(title)}</h2><p>{escape(_TEXTS[title])}</p>")
        parts.append(f"<img alt='{escape(title)}' src='data:image/png;base64,{data}'>")
    if counted:
        parts += ["<h2>Counted runs</h2>", f"<p>{escape(_TEXTS['Events affected by retraction'])}</p>", _counted(counted)]
    parts += ["<h2>Latency of every detector (ms: mean / p99)</h2>", _detectors(measured)]
    if results.failed:
        rows = ((escape(name), escape(what)) for name, what in results.failed.items())
        parts += ["<h2>Failed</h2>", _table(("detector", "what"), rows)]
    if results.left_out:
        rows = ((escape(name), escape(why)) for name, why in results.left_out.items())
        parts += ["<h2>Left out</h2>", _table(("what", "why"), rows)]
    file.write_text("\n".join([*parts, "</html>\n"]), encoding="utf-8")


def _setting(results: Results) -> str:
    lines = "<br>".join(f"{escape(name)}: {escape(text)}" for name, text in results.setting.items())
    return f"<p class='setting'>{lines}</p>"


def _summary(results: Results) -> Iterable[str]:
    ratio = results.latency_ratio
    latency_of, corrections_of = (escape(name or "-") for name in (results.latency_of, results.corrections_of))
    rows = [
        ("finals equal the in-order oracle, in every mode", _yes(results.oracle_equal)),
        ("mean latency, dynamic / buffering: all detections (aim 0.40)", _number(ratio["all"])),
        (f"... those of {latency_of} (aim 0.50; the paper: 0.60)", _number(ratio["pass"])),
        ("... the scenario's results", _number(ratio["results"])),
        ("... mean of the detectors' means", _number(ratio["detectors"])),
        ("mean busy factor not above the target zone", _yes(results.cpu_in_zone)),
        (
            f"events corrected in the cascade from {corrections_of} on, on-demand / full (aim 0.10)",
            _number(results.retraction_ratio, 3),
        ),
        (f"... at {corrections_of}", _number(results.retraction_ratios["detector"], 3)),
        ("... in the whole hierarchy", _number(results.retraction_ratios["all"], 3)),
        ("real-time factor, one core, pure buffering", _number(results.real_time_factor)),
        *((f"F1 {escape(name)}", _number(value)) for name, value in results.f1.items()),
        ("detectors / levels / event types", f"{results.detectors} / {results.levels} / {results.event_types:,}"),
    ]
    yield "<h2>In short</h2>"
    yield _table(("what", "measured"), rows)


def _modes(runs: Iterable[Measured]) -> str:
    heads = [
        "mode",
        "mean ms",
        "p99 ms",
        "ratio",
        "results ms",
        "ratio",
        "looked at ms",
        "ratio",
        "CPU",
        "busy",
        "alpha",
        "buffers KB",
        "memory MiB",
    ]
    heads += ["peak MiB", "published", "corrected", "feed behind ms", "late", "finals", "oracle"]
    rows = [
        (
            escape(run.mode.title),
            f"{run.latency.mean:,.0f}",
            f"{run.latency.p99:,.0f}",
            _number(run.ratios.get("all")),
            f"{run.results.mean:,.0f}" if run.results else "",
            _number(run.ratios.get("results")),
            f"{run.focus.mean:,.0f}" if run.focus else "",
            _number(run.ratios.get("pass")),
            f"{run.cpu:.0%}",
            f"{run.busy:.2f}",
            f"{run.alpha:.2f}",
            f"{run.buffers.whole / 1e3:,.0f}",
            f"{run.memory / 2**20:,.1f}",
            f"{run.peak / 2**20:,.1f}",
            f"{run.corrections.published_at_all:,}",
            f"{run.corrections.corrected_at_all:,}",
            f"{run.behind:,.0f}",
            f"{run.late:,}",
            f"{run.finals:,}",
            _yes(run.oracle_equal),
        )
        for run in runs
    ]
    return _table(heads, rows)


def _counted(counted: Sequence[Affected]) -> str:
    heads = ["mode", "corrected at detector", "of published", "corrected in cascade", "of published", "corrected at all"]
    heads += ["of published", "detector calls", "snapshots", "CPU s", "real-time factor"]
    rows = [
        (
            escape(one.mode.title),
            f"{one.corrections.corrected:,}",
            f"{one.corrections.published:,}",
            f"{one.corrections.corrected_in_cascade:,}",
            f"{one.corrections.published_in_cascade:,}",
            f"{one.corrections.corrected_at_all:,}",
            f"{one.corrections.published_at_all:,}",
            f"{one.executed:,}",
            f"{one.snapshots:,}",
            f"{one.cpu:.1f}",
            _number(one.real_time_factor),
        )
        for one in counted
    ]
    return _table(heads, rows)


def _detectors(measured: Mapping[str, Measured]) -> str:
    first = measured[BUFFERING.name].by_detector
    fast = measured[DYNAMIC.name].by_detector
    rows = []
    for name in sorted(first):
        ratio = fast[name].mean / first[name].mean if name in fast else None
        cells = [_latency(one.by_detector.get(name)) for one in measured.values()]
        rows.append((escape(name), f"{first[name].count:,}", *cells, _number(ratio)))
    titles = [escape(one.mode.title) for one in measured.values()]
    return _table(("detector", "detections", *titles, "dynamic / buffering"), rows)


def _latency(one: Latency | None) -> str:
    return f"{one.mean:,.0f} / {one.p99:,.0f}" if one else ""


def _yes(value: bool) -> str:
    return "<span class='yes'>yes</span>" if value else "<span class='no'>no</span>"


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its cells are HTML already."""
    head = "".join(f"<th>{text}</th>" for text in heads)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
