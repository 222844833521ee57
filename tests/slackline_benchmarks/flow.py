"""``slackline bench flow``: what optimism costs and what it wins, on real nodes and in virtual time (Figure 9 of the paper)."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from typing import Any

from slackline_benchmarks.flow_grid import Cell, cell
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
    workers, rate = COMPARED
    compared = [trial(mode, workers, rate, SECONDS, punctuation=_tenth(rate)) for _ in range(rounds) for mode in Mode]
    report = write_report(OUT, grid, virtual, real, compared)
    sys.stderr.write(f"report: {report.resolve()}\n")
    return [*_ratios(real, grid), *_latencies(compared, virtual), _traffic(compared)]


def _tenth(rate: float) -> int:
    """Pages between two promises: ten promises a second."""
    return max(1, round(rate / 10))


def _entry(name: str, value: float, baseline: float, unit: str) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "baseline": baseline, "ratio": value / baseline}


def _ratios(real: list[Trial], grid: list[Cell]) -> list[dict[str, Any]]:
    """Baseline 1: as many arrivals as results."""
    unit = "arrivals/result"
    calm = [e.ratio for e in real if e.rate < REAL_RATES[-1] and e.early <= CALM] or [
        min(real, key=lambda each: each.early).ratio
    ]
    high = {each.workers: each.ratio for each in grid if each.rate == RATES[-1]}
    return [
        _entry("flow.ratio", max(calm), 1.0, unit),
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
