"""The report of ``bench flow``: figures and tables in one HTML file."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

from slackline_benchmarks.flow_count import Count
from slackline_benchmarks.flow_grid import CHANGE, STEP, Cell
from slackline_benchmarks.flow_trial import Trial

from middleware.evaluation.setting import setting
from scenarios.search.workers import Mode

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1b2a41}"
    "table{border-collapse:collapse;font-size:.85rem}th,td{padding:.25rem .6rem;border-bottom:1px solid #ddd;text-align:right}"
    "img{max-width:100%}.note{color:#555;font-size:.85rem}"
)
_COLOURS = ("#66a182", "#2e86ab", "#d1495b")


def write_report(
    folder: Path,
    grid: Sequence[Cell],
    virtual: dict[Mode, list[Cell]],
    real: Sequence[Trial],
    compared: Sequence[Trial],
    counts: Sequence[Count],
) -> Path:
    """Write the report into ``folder``; without matplotlib it has tables alone."""
    folder.mkdir(parents=True, exist_ok=True)
    figure = _figure(folder / "flow.png", grid, virtual, real, compared)
    image = (
        f"<img alt='Figure 9' src='data:image/png;base64,{base64.b64encode(figure.read_bytes()).decode()}'>" if figure else ""
    )
    lines = "<br>".join(f"{escape(name)}: {escape(text)}" for name, text in setting(7, 3.0, "slackline bench flow").items())
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Optimistic flows</title>",
        f"<style>{_STYLE}</style><h1>Optimistic flows: the inverted index</h1><p class='note'>{lines}</p>{image}",
        "<p class='note'>Ratio: items and tombstones that came to the barrier, by results (Kuralenok et al. 2018, Figure 9). "
        "Virtual time: every worker has a machine of its own; the nodes are the real ones, a step takes "
        f"{STEP / 1e6:g} ms and {CHANGE / 1e3:g} us for each change in or out, a message 0.2 ms (lognormal). Real nodes: "
        "processes that share the cores of the machine named above, whatever else runs there. The results of every trial "
        "equal the sequential run.</p>",
        "<h2>Real nodes</h2>",
        _table(
            (
                "mode",
                "input",
                "workers",
                "pages/s",
                "ratio",
                "release (ms)",
                "p99",
                "before the barrier (ms)",
                "changes sent",
                "CPU (s)",
            ),
            [
                (
                    each.mode,
                    _input(each.text, each.late_share),
                    each.workers,
                    f"{each.rate:g}",
                    f"{each.ratio:.3f}",
                    f"{each.release:.1f}",
                    f"{each.late:.1f}",
                    f"{each.early:.1f}",
                    f"{each.changes:,}",
                    f"{each.cpu:.1f}",
                )
                for each in [*real, *compared]
            ],
        ),
        "<h2>Virtual time</h2>",
        _table(
            ("mode", "input", "workers", "pages/s", "ratio", "release (ms)"),
            [
                (mode, _input(each.text, each.late), each.workers, f"{each.rate:g}", f"{each.ratio:.3f}", f"{each.release:.1f}")
                for mode, cells in [(Mode.OPTIMISTIC, grid), *virtual.items()]
                for each in cells
            ],
        ),
        "<h2>Tombstones</h2>",
        "<p class='note'>Items and tombstones of the last stage by results: an item at a time, as in the paper, and the "
        "net effect of a batch. The stateful operation as Figure 6 has it (grouping, map and cycle) and fused into a fold.</p>",
        _table(
            ("input", "operation", "pages at once", "items", "tombstones", "results", "ratio", "us an item"),
            [
                (
                    _input(each.text, each.late),
                    "fold" if each.fused else "cycle",
                    each.batch,
                    f"{each.items:,}",
                    f"{each.tombstones:,}",
                    f"{each.valid:,}",
                    f"{each.ratio:.3f}",
                    f"{each.cost:.1f}",
                )
                for each in counts
            ],
        ),
    ]
    file = folder / "report.html"
    file.write_text("\n".join([*parts, "</html>\n"]), encoding="utf-8")
    return file


def _input(text: str, late: float) -> str:
    return f"{text}, {late:.0%} late" if late else text


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(each))}</td>" for each in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _figure(
    file: Path, grid: Sequence[Cell], virtual: dict[Mode, list[Cell]], real: Sequence[Trial], compared: Sequence[Trial]
) -> Path | None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    grid = [each for each in grid if each.text == "zipf" and not each.late]
    real = [each for each in real if each.text == "zipf" and not each.late_share]
    figure: Any = Figure(figsize=(11, 7), layout="constrained")
    (ratio, measured), (release, nodes) = figure.subplots(2, 2)
    for axes, cells, title in ((ratio, grid, "virtual time, a machine each"), (measured, real, "real nodes on this machine")):
        for colour, rate in zip(_COLOURS, sorted({each.rate for each in cells}), strict=False):
            line = [(each.workers, each.ratio) for each in cells if each.rate == rate]
            axes.plot(*zip(*line, strict=True), "o-", color=colour, label=f"{rate:g} pages/s")
        axes.axhline(1.1, color="#999", linestyle=":", linewidth=1)
        axes.set(xlabel="workers", ylabel="arrivals / results", title=f"Figure 9: {title}")
        axes.legend(frameon=False)
    rate = max(each.rate for each in virtual[Mode.OPTIMISTIC])
    for colour, (mode, cells) in zip(_COLOURS, virtual.items(), strict=True):
        line = [(each.workers, each.release) for each in cells if each.rate == rate]
        release.plot(*zip(*line, strict=True), "o-", color=colour, label=str(mode))
    release.set(
        xlabel="workers",
        ylabel="ms",
        ylim=(0, None),
        title=f"Release, virtual time, {rate:g} pages/s",
    )
    release.legend(frameon=False)
    modes = list(Mode)
    heights = [median(each.release for each in compared if each.mode is mode) for mode in modes]
    nodes.bar([str(mode) for mode in modes], heights, color=_COLOURS)
    nodes.set(ylabel="ms", title=f"Release, real nodes: {compared[0].workers} workers, {compared[0].rate:g} pages/s (median)")
    figure.savefig(file, dpi=110)
    return file
