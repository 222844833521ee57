"""``slackline bench window-figures``: the experiments of the paper's figures 11 to 14, drawn from runs made now.

Tangwongsan, Hirzel and Schneider (VLDB 2019), section 5. One HTML file, ``out/window-figures.html``, with all in it.
"""

from __future__ import annotations

import base64
import io
import platform
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any

import numpy as np
from slackline_benchmarks import window_baselines
from slackline_benchmarks.core_baselines import baseline
from slackline_benchmarks.plain_fiba import PlainFiba
from slackline_benchmarks.window import MONOIDS, measured
from slackline_benchmarks.window_workload import columns, cost, filled

from detectors.window.aggregation.fiba import Fiba
from detectors.window.aggregation.monoid import Monoid

ARITIES = (2, 4, 8)
N = 1 << 13
ROUNDS = 20_000
IN_ORDER_SIZES = tuple(1 << power for power in range(4, 19, 2))
LATENCIES = 5_000
OPERATORS = ("sum", "geomean", "bloom")
IN_ORDER = ("daba-lite", "two-stacks", "reactive", "b-tree")
"""Baselines of Figure 13. All are native, and driven as FiBA is."""


REPORT = Path("out/window-figures.html")

Line = tuple[str, list[float], list[float]]
"""Label, x, y."""


def _classic(monoid: Monoid, **options: Any) -> Any:
    """The classic B-tree with augmented aggregates."""
    return baseline("b-tree", monoid, **options)


def bench_figures(rounds: int) -> list[dict[str, Any]]:
    """Run the experiments, each ``rounds`` times, write the report, and give the points as entries."""
    figures = [
        ("Figure 11: distance", "out-of-order distance", "million rounds a second", list(_distance(rounds))),
        ("Figure 12: latency", "round, sorted by latency (%)", "ns a round", list(_latency())),
        ("Figure 13: in order", "window size", "million rounds a second", list(_in_order(rounds))),
        ("Figure 14: sharing", "size of the small window", "million rounds a second", list(_sharing(rounds))),
    ]
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(_page(figures), encoding="utf-8")
    return [
        {"name": f"{title.split(':')[0]} {label} {x:g}", "value": y, "unit": unit, "baseline": ys[0], "ratio": y / ys[0]}
        for title, _, unit, lines in figures
        for label, xs, ys in lines
        for x, y in zip(xs, ys, strict=True)
    ]


def _throughput(name: str, n: int, distance: int, rounds: int, kind: Any = Fiba, **options: Any) -> float:
    """Million rounds a second, in batches; the median of some runs."""
    count = ROUNDS // 10 if name == "bloom" else ROUNDS
    measure = measured(kind, MONOIDS[name], n, distance, count, **options)
    return 1e3 / median(measure() for _ in range(rounds))


def _distance(rounds: int) -> Iterator[Line]:
    distances = [0, *(1 << power for power in range(2, N.bit_length(), 2)), N]
    xs = [float(max(distance, 1)) for distance in distances]
    for name in OPERATORS:
        for arity in ARITIES:
            yield (
                f"{name}, MIN_ARITY {arity}",
                xs,
                [_throughput(name, N, distance, rounds, min_arity=arity) for distance in distances],
            )
        yield f"{name}, classic B-tree", xs, [_throughput(name, N, distance, rounds, _classic) for distance in distances]


def _latency() -> Iterator[Line]:
    """One call a round; how long each took."""
    shares = [1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9]
    for name in OPERATORS:
        for distance in (0, 1_024):
            for kind, called in ((Fiba, ""), (_classic, ", classic B-tree")):
                window = filled(kind, MONOIDS[name], N, distance)
                taken = []
                rows = zip(*(column.tolist() for column in columns(MONOIDS[name], N, distance, LATENCIES)), strict=True)
                for gone, ts, value in rows:
                    started = perf_counter_ns()
                    window.round(gone, ts, value)
                    taken.append(float(perf_counter_ns() - started))
                yield f"{name}, d = {distance}{called}", shares, np.percentile(taken, shares).tolist()


def _in_order(rounds: int) -> Iterator[Line]:
    """FiBA and what is made for order alone, both native, in batches; at the end both in plain Python."""
    sizes = IN_ORDER_SIZES
    for name in OPERATORS:
        some = sizes if name != "bloom" else sizes[:5]
        xs = [float(n) for n in some]
        yield name, xs, [_throughput(name, n, 0, rounds) for n in some]
        yield f"{name}, MIN_ARITY 32", xs, [_throughput(name, n, 0, rounds, min_arity=32) for n in some]
        for kind in IN_ORDER:
            yield f"{name}, {kind}", xs, [_throughput(name, n, 0, rounds, partial(baseline, kind)) for n in some]
        few = [n for n in some if n <= 1 << 8]
        recomputed = [_throughput(name, n, 0, rounds, partial(baseline, "recompute")) for n in few]
        yield f"{name}, recompute", [float(n) for n in few], recomputed
    plain = [1e3 / median(measured(PlainFiba, MONOIDS["sum"], n, 0, 2_000, "call")() for _ in range(rounds)) for n in sizes[:5]]
    yield "sum, plain Python", [float(n) for n in sizes[:5]], plain
    stacks = [
        1e3 / median(window_baselines.measured(window_baselines.two_stacks_sorted, n, 0, ROUNDS)() for _ in range(rounds))
        for n in sizes
    ]
    yield "sum, two stacks in plain Python", [float(n) for n in sizes], stacks


def _sharing(rounds: int) -> Iterator[Line]:
    """A big and a small window: a tree each, or one tree and a range query. New events come in the middle of the small one."""
    sizes = [1 << power for power in range(3, N.bit_length(), 2)]
    for label, shared in (("one tree, range queries", True), ("a tree each", False)):
        ys = [1e3 / median(_shared(size, shared) for _ in range(rounds)) for size in sizes]
        yield label, [float(size) for size in sizes], ys


def _shared(small_size: int, shared: bool) -> float:
    monoid, distance, rounds = MONOIDS["sum"], small_size // 2, ROUNDS // 4
    big, small = filled(Fiba, monoid, N, distance), filled(Fiba, monoid, small_size, distance)
    behind = small_size - distance
    evicted, inserted, values = (column.tolist() for column in columns(monoid, N, distance, rounds))

    def work() -> None:
        for gone, ts, value in zip(evicted, inserted, values, strict=True):
            big.round(gone, ts, value)
            if shared:
                big.range_query(ts - behind + 1, 1 << 62)
            else:
                ts = ts - inserted[0] + behind
                small.round(ts - behind, ts, value)

    return cost(work, rounds)


def _page(figures: list[tuple[str, str, str, list[Line]]]) -> str:
    machine = f"{platform.machine()}, Python {platform.python_version()}; processor time; the machine may have had other work"
    parts = [f'<h2>{title}</h2><img alt="{title}" src="{_drawn(x, y, lines)}">' for title, x, y, lines in figures]
    return (
        "<!doctype html><meta charset=utf-8><title>FiBA windows</title>"
        "<style>body{font:16px sans-serif;max-width:60em;margin:2em auto}img{max-width:100%}</style>"
        f"<h1>FiBA: the paper's experiments</h1><p>n = {N} unless it varies. {machine}.</p>" + "".join(parts)
    )


def _drawn(x_label: str, y_label: str, lines: list[Line]) -> str:
    """A figure as a data URL."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5))
    axes = figure.add_subplot()
    for label, xs, ys in lines:
        axes.plot(xs, ys, marker="o", markersize=3, label=label)
    if "%" not in x_label:
        axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110, bbox_inches="tight")
    return "data:image/png;base64," + base64.b64encode(image.getvalue()).decode()
