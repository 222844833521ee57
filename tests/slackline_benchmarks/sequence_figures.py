"""``slackline bench sequence-figures``: Figures 6 to 9 of Li et al. (ICDCSW 2007), measured now, as a report with pictures.

The algorithms are those of ``study``, in plain Python; beside Figure 9 stands the overhead of the native core. As in the paper:
SEQ(A, B, C, D, E, F), a window of 20, six types; one event a unit of time, each delayed by up to K with a given probability.
"""

from __future__ import annotations

import gc
import platform
import random
import re
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from slackline_benchmarks.sequence import PLAIN, TYPES, core_run
from slackline_benchmarks.sequence_study import Reading, Scan
from slackline_benchmarks.workload import tagged, timed

from detectors.sequence.algorithm import Algorithm
from detectors.sequence.sequence_operator import SequenceQuery

STEPS = "ABCDEF"
WITHIN = 20
SIZES = (20_000, 40_000, 60_000, 80_000, 100_000)
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
SLACKS = (5, 10, 20, 40)
FEWER = 6_000
"""Events where sequences are constructed in vain by the thousand: Figures 7 and 8."""

FOLDER = Path("out/sequence")


class Point(NamedTuple):
    """One measurement: where it stands on the x axis, the two sides, and what the first gains (1 - second / first)."""

    x: float
    before: float
    after: float

    @property
    def gain(self) -> float:
        return 1 - self.after / self.before


Series = dict[str, list[Point]]


def stream(count: int, share: float, slack: int, seed: int = 1) -> list[Reading]:
    """Readings in order of arrival: each is delayed by up to ``slack`` with probability ``share``."""
    rng = random.Random(seed)
    ordered = [Reading(rng.choice(STEPS), ts) for ts in range(count)]
    arrival = [each.ts + (rng.randint(1, slack) if rng.random() < share else 0) for each in ordered]
    return [ordered[at] for at in sorted(range(count), key=lambda at: (arrival[at], at))]


def bench_figures(rounds: int) -> list[dict[str, Any]]:
    """Measure, draw, write ``out/sequence/report.md``; one entry for each figure's last point."""
    figures = {
        "6": _figure_6(rounds),
        "7": _figure_7_and_8(rounds, by_time=False),
        "8": _figure_7_and_8(rounds, by_time=True),
        "9": _figure_9(rounds),
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    for number, series in figures.items():
        _draw(number, series)
    (FOLDER / "report.md").write_text(_report(figures, rounds), encoding="utf-8")
    entries = []
    for number, series in figures.items():
        for name, points in series.items():
            last = points[-1]
            entries.append(
                {
                    "name": f"sequence.figure{number}.{_slug(name)}",
                    "value": last.after,
                    "unit": "s" if number != "7" else "bytes" if name.endswith("bytes") else "sequences",
                    "baseline": last.before,
                    "ratio": last.after / last.before,
                }
            )
    return entries


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "", name)


def _scan(arrived: list[Reading], algorithm: Algorithm, slack: int | None, produces: bool = True) -> Callable[[], Scan]:
    def run() -> Scan:
        scan = Scan(STEPS, WITHIN, algorithm, slack, produces=produces)
        for event in arrived:
            scan.take(event)
        return scan

    return run


def _pair(sides: Sequence[Callable[[], Any]], rounds: int) -> tuple[float, float]:
    """Processor time of two, in turn; the medians."""
    before, after = sides
    times = [(timed(before), timed(after)) for _ in range(rounds)]
    return median(each[0] for each in times), median(each[1] for each in times)


def _figure_6(rounds: int) -> Series:
    """AIS construction (stacks and RIPs, no sequences): Algorithm 1 against Algorithm 2."""
    series: Series = {}
    for share in (0.9, 0.3):
        points = []
        for size in SIZES:
            arrived = stream(size, share, WITHIN)
            sides: list[Callable[[], Any]] = [
                _scan(arrived, algorithm, WITHIN, False) for algorithm in (Algorithm.SORT, Algorithm.CLOCK)
            ]
            points.append(Point(size, *_pair(sides, rounds)))
        series[f"{share:.0%} delayed"] = points
    return series


def _figure_7_and_8(rounds: int, by_time: bool) -> Series:
    """Purge by slack alone against purge with the divider: sequences constructed and bytes held, or processor time."""
    series: Series = {}
    memory: Series = {}
    for slack in SLACKS:
        points, most = [], []
        for share in SHARES:
            arrived = stream(FEWER, share, slack)
            sides: list[Callable[[], Any]] = [
                _scan(arrived, algorithm, slack) for algorithm in (Algorithm.CLOCK, Algorithm.PARTITION)
            ]
            if by_time:
                points.append(Point(1 - share, *_pair(sides, rounds)))
                continue
            before, after = (float(side().work.constructed) for side in sides)
            points.append(Point(1 - share, before, after))
            most.append(Point(1 - share, *map(_most_bytes, sides)))
        series[f"K = {slack}"] = points[::-1]
        if not by_time:
            memory[f"K = {slack}, bytes"] = most[::-1]
    return series | memory


def _most_bytes(run: Callable[[], Any]) -> float:
    """The most bytes that a run held beyond what was there before it: stacks, and the sequences built at once."""
    gc.collect()
    tracemalloc.start()
    try:
        run()
        return float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def _figure_9(rounds: int) -> Series:
    """Input in order: what was made for total order against what handles disorder, in Python and in the native core."""
    plain, core = [], []
    plan = SequenceQuery(PLAIN, TYPES, "Bench").plan
    ordered = [event for event in tagged(2 * SIZES[-1]) if event.__class__ in plan.types]
    for size in SIZES:
        arrived = stream(size, 0.0, WITHIN)
        sides = [_scan(arrived, algorithm, WITHIN) for algorithm in (Algorithm.TOTAL_ORDER, Algorithm.PARTITION)]
        plain.append(Point(size, *_pair(sides, rounds)))
        runs = [core_run(plan, ordered[:size], in_order) for in_order in (True, False)]
        core.append(Point(size, *_pair(runs, max(rounds, 5))))
    return {"in plain Python": plain, "native core": core}


_TITLES = {
    "6": ("AIS-CLOCK: time to build the stacks", "events", "gain over sort semantics"),
    "7": (
        "Divider: sequences constructed, and bytes held at most",
        "share of events in time",
        "gain over purge by slack alone",
    ),
    "8": ("Divider: processor time", "share of events in time", "gain over purge by slack alone"),
    "9": ("Input in order: overhead of handling disorder", "events", "overhead"),
}

_PAPER = {
    "6": "The paper: 8 % at 90 % out of order and 43 % at 30 %, for 80,000 events.",
    "7": "The paper: the gain grows with the share of events in time, and with K; sequences as ((K + W) / W)^6.",
    "8": "The paper: as Figure 7.",
    "9": "The paper: 5.1 % to 24.6 %, growing with the number of events.",
}


def _draw(number: str, series: Series) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:  # the report has the numbers
        return
    title, x, y = _TITLES[number]
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for (name, points), marker in zip(series.items(), "osD^osD^", strict=False):
        values = [-each.gain if number == "9" else each.gain for each in points]
        axes.plot([each.x for each in points], [100 * value for value in values], marker=marker, label=name)
    axes.set_title(f"Figure {number}. {title}")
    axes.set_xlabel(x)
    axes.set_ylabel(f"{y} (%)")
    axes.axhline(0, color="grey", linewidth=0.6)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(FOLDER / f"figure{number}.png", dpi=130)


def _report(figures: dict[str, Series], rounds: int) -> str:
    lines = [
        "# Sequence queries under disorder: the paper's figures, measured now",
        "",
        "Li et al., Event Stream Processing with Out-of-Order Data Arrival, ICDCSW 2007, Figures 6 to 9.",
        f"SEQ({', '.join(STEPS)}) WITHIN {WITHIN}; medians of {rounds} rounds in turn; processor time; "
        f"Python {platform.python_version()} on {platform.machine()}. Made by `slackline bench sequence-figures`.",
    ]
    for number, series in figures.items():
        title, x, _ = _TITLES[number]
        lines += ["", f"## Figure {number}. {title}", "", _PAPER[number], "", f"![Figure {number}](figure{number}.png)", ""]
        lines += _table(x, series, number)
    return "\n".join(lines) + "\n"


def _table(x: str, series: Series, number: str) -> Iterable[str]:
    what = "overhead" if number == "9" else "gain"
    yield f"| | {x} | before | after | {what} |"
    yield "|---|---:|---:|---:|---:|"
    for name, points in series.items():
        for each in points:
            value = -each.gain if number == "9" else each.gain
            shown = f"{each.before:,.0f} | {each.after:,.0f}" if number == "7" else f"{each.before:.3f} s | {each.after:.3f} s"
            yield f"| {name} | {each.x:,.6g} | {shown} | {value:.1%} |"
