"""``slackline bench flow``: what optimism costs and what it wins, on real nodes and in virtual time (Figure 9 of the paper)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from slackline_benchmarks.flow_count import Count, counted
from slackline_benchmarks.flow_grid import Cell, cell
from slackline_benchmarks.flow_input import texts
from slackline_benchmarks.flow_report import write_report
from slackline_benchmarks.flow_trial import Trial, trial

from scenarios.search.workers import Mode

OUT = Path("out/flow")
"""Where the report goes."""

WORKERS = range(1, 11)

RATES = (200.0, 400.0, 800.0)
"""Pages a second in virtual time; with two workers the last keeps them busy for most of the time."""

REAL_WORKERS = (1, 2, 4, 7, 10)

REAL_RATES = (50.0, 100.0, 300.0)
"""Pages a second into real nodes. They share the cores of this machine, so the last is extreme load on a small one."""

INPUTS = (("zipf", 200.0, 0.1), ("wikipedia", 25.0, 0.0), ("wikipedia", 25.0, 0.1))
"""More inputs: text, pages a second, and which share of the pages comes late."""

COMPARED = (3, 200.0)
"""Workers and rate at which optimism is held against blocking."""

CALM = 25.0
"""Milliseconds: load is extreme, too, where results take longer than this, on average, to come to the barrier (queues grow)."""

SECONDS = 3.0


def bench_flow(rounds: int) -> list[dict[str, Any]]:
    """Ratio of arrivals at the barrier to results, and release latency against in-order and out-of-order processing.

    Every trial's results are held against the sequential run. Writes a report with figures into ``out/flow``.
    """
    virtual = {mode: [cell(workers, rate, 1.5, mode=mode) for rate in RATES[:2] for workers in (2, 4, 8)] for mode in Mode}
    grid = [cell(workers, rate, 1.5) for rate in RATES for workers in WORKERS]
    real = [
        trial(Mode.OPTIMISTIC, workers, rate, SECONDS, punctuation=_tenth(rate))
        for rate in REAL_RATES
        for workers in REAL_WORKERS
    ]
    there = texts()
    inputs = [each for each in INPUTS if each[0] in there]
    real += [
        trial(Mode.OPTIMISTIC, workers, rate, SECONDS, punctuation=_tenth(rate), text=text, late=late)
        for text, rate, late in inputs
        for workers in REAL_WORKERS
    ]
    grid += [cell(workers, rate, 1.5, text=text, late=late) for text, rate, late in inputs for workers in WORKERS]
    counts = counted()
    workers, rate = COMPARED
    compared = [trial(mode, workers, rate, SECONDS, punctuation=_tenth(rate)) for _ in range(rounds) for mode in Mode]
    report = write_report(OUT, grid, virtual, real, compared, counts)
    sys.stderr.write(f"report: {report.resolve()}\n")
    plain_real, plain_grid = ([each for each in cells if _is_plain(each)] for cells in (real, grid))
    return [
        *_ratios(plain_real, plain_grid),  # type: ignore[arg-type]
        *_latencies(compared, virtual),
        _traffic(compared),
        *_cells("real", real),
        *_cells("virtual", grid),
        *_counts(counts),
    ]


def _is_plain(cell: Trial | Cell) -> bool:
    """Whether it is one of the paper's: Zipf's law, in order."""
    return cell.text == "zipf" and not _late(cell)


def _late(cell: Trial | Cell) -> float:
    return cell.late_share if isinstance(cell, Trial) else cell.late


def _cells(where: str, cells: Sequence[Trial | Cell]) -> list[dict[str, Any]]:
    """All cells of Figure 9."""
    return [
        _entry(
            f"flow.cell.{where}.{each.text}{'.late' if _late(each) else ''}.r{each.rate:g}.w{each.workers}",
            each.ratio,
            1.0,
            "arrivals/result",
        )
        for each in cells
    ]


def _counts(counts: list[Count]) -> list[dict[str, Any]]:
    """What comes to the barrier by result: net of a batch, against an item at a time; and what a change costs, in both ways."""
    by_way = {(each.text, each.late, each.batch, each.fused): each for each in counts}
    entries = []
    for (text, late, batch, fused), each in by_way.items():
        name = f"{text}{'.late' if late else ''}.{'fold' if fused else 'cycle'}"
        if batch > 1:
            paper = by_way[text, late, 1, fused]
            entries.append(_entry(f"flow.tombstones.{name}", each.ratio, paper.ratio, "arrivals/result"))
        if fused:
            cycle = by_way[text, late, batch, False]
            entries.append(_entry(f"flow.cycle.{text}{'.late' if late else ''}.b{batch}", each.cost, cycle.cost, "us/item"))
    return entries


def _tenth(rate: float) -> int:
    """Pages between two promises: ten promises a second."""
    return max(1, round(rate / 10))


def _entry(name: str, value: float, baseline: float, unit: str) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "baseline": baseline, "ratio": value / baseline}


def _ratios(real: list[Trial], grid: list[Cell]) -> list[dict[str, Any]]:
    """Baseline 1: as many arrivals as results."""
    unit = "arrivals/result"
    sustained = [e.ratio for e in real if e.rate < REAL_RATES[-1] and e.early <= CALM] or [
        min(real, key=lambda each: each.early).ratio
    ]
    high = {each.workers: each.ratio for each in grid if each.rate == RATES[-1]}
    return [
        _entry("flow.ratio", max(sustained), 1.0, unit),
        _entry("flow.ratio.extreme", max(each.ratio for each in real), 1.0, unit),
        _entry("flow.ratio.virtual", max(each.ratio for each in grid if each.rate < RATES[-1]), 1.0, unit),
        _entry("flow.ratio.virtual.extreme", max(high.values()), 1.0, unit),
        _entry("flow.ratio.virtual.ten-workers-to-two", high[10], high[2], unit),
    ]


def _latencies(compared: list[Trial], virtual: dict[Mode, list[Cell]]) -> list[dict[str, Any]]:
    """Release latency of optimism, against that of blocking; on real nodes the median ratio of rounds, each run beside."""
    entries = []
    mine = [each for each in compared if each.mode is Mode.OPTIMISTIC]
    for mode, name in ((Mode.IOP, "iop"), (Mode.OOP, "oop")):
        other = [each for each in compared if each.mode is mode]
        entry = _entry(f"flow.release.{name}", median(e.release for e in mine), median(e.release for e in other), "ms")
        entry["ratio"] = median(one.release / two.release for one, two in zip(mine, other, strict=True))
        entries.append(entry)
        entries.append(_entry(f"flow.early.{name}", median(e.early for e in mine), median(e.early for e in other), "ms"))
        pairs = list(zip(virtual[Mode.OPTIMISTIC], virtual[mode], strict=True))
        one, two = max(pairs, key=lambda pair: pair[0].release / pair[1].release)  # where it wins least
        entries.append(_entry(f"flow.release.{name}.virtual", one.release, two.release, "ms"))
    return entries


def _traffic(compared: list[Trial]) -> dict[str, Any]:
    changes = {mode: median(each.changes for each in compared if each.mode is mode) for mode in Mode}
    return _entry("flow.traffic", changes[Mode.OPTIMISTIC], changes[Mode.IOP], "changes")
