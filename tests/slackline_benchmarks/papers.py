"""``slackline bench papers``: every figure of the papers that can be measured here, by one command.

Reports go to ``out``: windows (VLDB 2019), sequences (ICDCSW 2007), flows (2018) and the evaluation (DEBS 2013). The thesis on
FlinkCQL has no figures; its examples are golden tests. ``docs/papers.md`` holds the figures beside those that were printed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from slackline_benchmarks.flow import bench_flow
from slackline_benchmarks.sequence_figures import bench_figures as sequence_figures
from slackline_benchmarks.window_figures import bench_figures as window_figures
from slackline_benchmarks.window_panes import bench_panes

from middleware.model.errors import RunError, SlacklineError

FILE = Path("out/papers.json")

Entries = list[dict[str, Any]]


def bench_papers(rounds: int) -> Entries:
    """All figures, within an hour on a machine that has nothing else to do. With ``--rounds 1``, the quick look, a few minutes.

    The figures are in ``out/papers.json`` after each part; a part that fails is reported, and costs no other its figures.
    """
    parts: dict[str, Callable[[], Entries]] = {
        "vldb2019": lambda: window_figures(rounds),
        "vldb2019.panes": lambda: bench_panes(rounds),
        "icdcsw2007": lambda: sequence_figures(rounds),
        "flows2018": lambda: bench_flow(rounds),
        "debs2013": lambda: _evaluated(rounds == 1),
        "debs2013.retraction": lambda: _retracted(rounds == 1),
    }
    found: Entries = []
    failed: list[str] = []
    for name, measure in parts.items():
        sys.stderr.write(f"{name} ...\n")
        begun = time.monotonic()
        try:
            found += [{**entry, "name": f"{name}: {entry['name']}"} for entry in measure()]
        except SlacklineError as error:
            sys.stderr.write(f"{name}: {error}\n")
            failed.append(name)
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(json.dumps(found, indent=1))
        sys.stderr.write(f"{name}: {time.monotonic() - begun:.0f} s\n")
    if failed:
        raise RunError(f"{', '.join(failed)} failed, as reported above; the figures of the others are in {FILE}")
    return found


def _evaluated(quick: bool) -> Entries:
    """``slackline evaluate``: speculation against buffering, by what is detected; real nodes. Writes ``out/evaluation``."""
    return evaluation_entries(_results(["--quick"] * quick))


def _retracted(quick: bool) -> Entries:
    """``slackline evaluate --retraction``: 45 light minutes, or two; what each way of retraction affects, memory by part."""
    return retraction_entries(_results(["--scenario", "half", "--retraction", *["--seconds", "120"] * quick]))


def _results(options: list[str]) -> dict[str, Any]:
    with TemporaryDirectory(prefix="slackline-") as folder:
        file = Path(folder, "results.json")
        command = [sys.executable, "-m", "middleware.cli.main", "evaluate", "--json", str(file)]
        ended = subprocess.run([*command, *options], stdout=sys.stderr, check=False)
        if ended.returncode:
            raise RunError(f"slackline evaluate ended with {ended.returncode}: see above")
        found: dict[str, Any] = json.loads(file.read_bytes())
        return found


def evaluation_entries(results: dict[str, Any]) -> Entries:
    """The mean latency of every mode that detected something; baseline: the first, which buffers."""
    means = [(mode["mode"]["title"], mode["latency"]["mean"]) for mode in results["modes"]]
    known = [(title, mean) for title, mean in means if mean is not None]
    return [
        {"name": f"latency {title}", "value": mean, "unit": "ms", "baseline": known[0][1], "ratio": mean / known[0][1]}
        for title, mean in known
    ]


def retraction_entries(results: dict[str, Any]) -> Entries:
    """Results affected and memory held, by mode; baseline: full retraction, and pure buffering."""
    modes = {mode["mode"]["title"]: mode for mode in results["modes"]}
    affected = {title: mode["corrections"]["corrected_at_all"] for title, mode in modes.items()}
    memory = {title: sum(mode["memory"].values()) / 1e3 for title, mode in modes.items()}
    full = next((affected[title] for title, mode in modes.items() if mode["mode"]["changes"].get("retraction") == "full"), 0)
    first = next(iter(memory.values()))
    return [
        {"name": f"{what} {title}", "value": value, "unit": unit, "baseline": base, "ratio": value / base if base else 0.0}
        for what, unit, base, by_mode in (("affected", "results", full, affected), ("memory", "KB", first, memory))
        for title, value in by_mode.items()
    ]
