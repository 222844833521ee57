"""The figures, as PNG files: those of the paper's section 5, and those of what goes beyond it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from middleware.evaluation.measuring.corrections import AffectedEvents
from middleware.evaluation.measuring.measures import Interval, ModeMeasures, rolling
from middleware.evaluation.modes import BUFFERING, DYNAMIC, FAST_DYNAMIC, FAST_PAPER, FEW, MODES, PAPER, UNKEYED, WEIGHTED, Mode
from middleware.installation import install
from middleware.model.errors import ScenarioError
from middleware.ordering.alpha.adaptation import LOWER, UPPER
from middleware.ordering.hierarchy import Adaptation
from middleware.runtime.plan import EvaluationPlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis


class Look(NamedTuple):
    """How a mode is drawn: colours that differ in lightness too, and line styles and markers that need no colour."""

    colour: str
    line: str | tuple[int, tuple[int, ...]]
    marker: str


_LOOKS = {
    "buffering": Look("#1b2a41", "-", "s"),
    "dynamic": Look("#d1495b", "-", "o"),
    "algorithm-3": Look("#2e86ab", "-.", "D"),
    "speculation": Look("#e9a23b", "--", "^"),
}
_OTHER = [
    Look("#3f7d20", (0, (7, 2)), "p"),
    Look("#66a182", ":", "v"),
    Look("#8d6a9f", (0, (5, 1)), "P"),
    Look("#8c564b", (0, (1, 1)), "X"),
    Look("#5f6b73", (0, (3, 1, 1, 1)), "<"),
    Look("#a9b665", (0, (4, 2)), ">"),
    Look("#7f7f7f", (0, (2, 2)), "d"),
    Look("#c77dba", (0, (6, 1, 1, 1)), "*"),
]
_ROW = 0.24
"""Height of a detector's row, inches."""


def check_drawing() -> None:
    """Raise ScenarioError if figures cannot be drawn here. Cheap: nothing is loaded."""
    if find_spec("matplotlib") is None:
        raise ScenarioError(f"the figures need matplotlib; {install('evaluate')}")


class Figures:
    """Draws into a folder. ``setting`` is the line below every figure: seed, machine, versions, command."""

    def __init__(self, folder: Path, setting: str, plan: EvaluationPlan) -> None:
        check_drawing()
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        self._context, self._figure = rc_context, Figure
        self._folder = folder
        self._setting = setting
        self._focus = plan.latency or "all units"
        self._corrections = plan.corrections or "all detectors"

    def draw(
        self, measured: Mapping[str, ModeMeasures], counted: Sequence[AffectedEvents], retraction: Sequence[Mode]
    ) -> dict[str, Path]:
        """All figures: files by title, in the order in which they are to be read.

        ``retraction``: the modes among ``counted`` that distinguish the ways of retraction.
        """
        runs = list(measured.values())
        runs = [one for one in runs if one.mode.speed == 1]
        basic = [one for one in runs if one.mode.name in _LOOKS]
        drawn = {
            "Detection latency over time": self._save("latency", 2, 7.0, lambda axes: self._latency(axes, basic)),
            "alpha, busy factor and slack": self._save("alpha", 3, 7.5, lambda axes: self._alpha(axes, measured)),
            "alpha by Algorithm 3": self._save(
                "algorithm-3", 2, 5.2, lambda axes: self._control(axes[0], axes[1], measured[PAPER.name])
            ),
            "CPU by mode": self._save("cpu", 1, 4.4, lambda axes: self._cpu(axes[0], basic)),
            "Memory by mode": self._save("memory", 2, 2.8 + 0.8 * len(runs), lambda axes: self._memory(axes, runs)),
            "Latency of every detector": self._save(
                "detectors", 1, 2.2 + _ROW * len(runs[0].by_detector), lambda axes: self._detectors(axes[0], basic)
            ),
            "All modes": self._save("modes", 3, 2.6 + 0.9 * len(runs), lambda axes: self._modes(axes, runs)),
        }
        if FAST_DYNAMIC.name in measured:
            fast = [one for one in measured.values() if one.mode.speed != 1]
            drawn["alpha at twice the speed"] = self._save("overload", 5, 12.0, lambda axes: self._overload(axes, fast))
        if WEIGHTED.name in measured:
            pair = [measured[mode.name] for mode in (FEW, WEIGHTED)]
            drawn["Weighted alpha"] = self._save("weighted", 2, 6.0, lambda axes: self._weighted(axes, pair))
        if counted:
            drawn["Cost of corrections"] = self._save(
                "cost", 1, 1.4 + 0.35 * len(counted), lambda axes: self._cost(axes[0], counted)
            )
        if ways := [one for one in counted if one.mode in retraction]:
            height = 2.6 + 1.2 * len(ways)
            drawn["Events affected by retraction"] = self._save(
                "retraction", 3, height, lambda axes: self._retraction(axes, ways)
            )
        return drawn

    def _save(self, name: str, rows: int, height: float, draw: Callable[[list[Axes]], None]) -> Path:
        file = self._folder / f"{name}.png"
        look: dict[Any, Any] = {
            "font.size": 9.5,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titleweight": "bold",
        }
        with self._context({**look, "axes.titlesize": 10.5, "axes.titlelocation": "left", "axes.axisbelow": True}):
            figure = self._figure(figsize=(9.0, height + 0.4), dpi=150, layout="constrained")
            axes = list(figure.subplots(rows, 1, squeeze=False)[:, 0])
            draw(axes)
            figure.supxlabel(self._setting, fontsize=6, color="#555555", x=0.01, ha="left")
            figure.savefig(file)
        return file

    def _latency(self, axes: list[Axes], runs: Sequence[ModeMeasures]) -> None:
        above, below = axes
        for run in runs:
            look, mean = look_of(run.mode), run.focus.mean if run.focus else None
            label = run.mode.title + (f" (mean {mean:,.0f} ms)" if mean is not None else " (none found)")
            points = [[getattr(one, what) for one in run.focus_detections] for what in ("at", "latency")]
            above.plot(*points, color=look.colour, linestyle=look.line, marker=look.marker, lw=1.0, ms=5, label=label)
        above.set(title=f"Detection latency of {self._focus}, each detection (as Fig. 10)", ylabel="latency (ms)", yscale="log")
        _write_out_numbers(above.yaxis)
        _legend(above)
        self._rolling(below, runs, "Detection latency of all detectors, mean of each second")
        above.sharex(below)

    def _alpha(self, axes: list[Axes], measured: Mapping[str, ModeMeasures]) -> None:
        alpha, busy, slack = axes
        run = measured[DYNAMIC.name]
        self._control(alpha, busy, run)
        for one in (measured[BUFFERING.name], run):
            look = look_of(one.mode)
            points = [[entry.at for entry in one.intervals], [entry.k for entry in one.intervals]]
            slack.step(*points, where="post", color=look.colour, ls=look.line, label=one.mode.title)
        slack.set(ylabel="K (ms)", title=f"Slack K at {self._focus}", xlabel="time since the first arrival (s)")
        slack.set_ylim(bottom=0)
        slack.sharex(alpha)
        _legend(slack)

    def _paper(self, axes: list[Axes], run: ModeMeasures) -> None:
        alpha, busy = axes
        self._control(alpha, busy, run)
        busy.set_xlabel("time since the first arrival (s)")

    def _control(self, alpha: Axes, busy: Axes, run: ModeMeasures) -> None:
        """The input and steps of the adaptation of alpha."""
        at, look = [one.at for one in run.intervals], look_of(run.mode)
        alpha.step(at, [one.alpha for one in run.intervals], where="post", color=look.colour, lw=1.6, label="alpha")
        failed = back_offs(run.intervals) if run.mode.changes["alpha"] == Adaptation.EACH else []
        if failed:
            lines = [(1 - best) / 2 for _, best in failed]
            since = [moment for moment, _ in failed]
            alpha.step(
                [*since, at[-1]], [*lines, lines[-1]], where="post", color="#1b2a41", lw=1.0, ls=":", label="bisection line"
            )
            alpha.plot(since, [1.0] * len(since), "v", color="#1b2a41", ms=6, label="back-off")
        suffix = " (as Fig. 11)" if failed else ""
        alpha.set(ylim=(0, 1.08), ylabel="alpha", title=f"{run.mode.title}: 1 buffers, 0 speculates fully{suffix}")
        _legend(alpha)
        busy.axhspan(LOWER, UPPER, color="#cccccc", alpha=0.6, label=f"target zone {LOWER} to {UPPER}")
        busy.plot(at, [one.busy for one in run.intervals], color="#1b2a41", lw=1.4, label="busy factor")
        busy.plot(at, [one.cpu for one in run.intervals], color="#2e86ab", lw=1.1, ls="--", label="CPU of the node (cores)")
        busy.set(ylim=(0, 1.15), ylabel="share", title=f"Busy factor (mean {run.busy:.2f}) and CPU (mean {run.cpu:.2f})")
        busy.sharex(alpha)
        _legend(busy)

    def _overload(self, axes: list[Axes], runs: Sequence[ModeMeasures]) -> None:
        *controls, latency = axes
        for mode, alpha, busy in zip((FAST_DYNAMIC, FAST_PAPER), controls[::2], controls[1::2], strict=True):
            self._control(alpha, busy, next(run for run in runs if run.mode.name == mode.name))
            busy.set_xlabel("time since the first arrival (s)")
        self._rolling(latency, runs, "Detection latency of all detectors, mean of each second of the recording")

    def _weighted(self, axes: list[Axes], runs: Sequence[ModeMeasures]) -> None:
        alpha, latency = axes
        for run in runs:
            look, at = look_of(run.mode), [one.at for one in run.intervals]
            least, most = [one.least for one in run.intervals], [one.most for one in run.intervals]
            alpha.fill_between(at, least, most, step="post", color=look.colour, alpha=0.2, lw=0)
            label = f"{run.mode.title} (mean {run.alpha:.2f})"
            alpha.step(at, [one.alpha for one in run.intervals], where="post", color=look.colour, ls=look.line, label=label)
        alpha.set(ylim=(0, 1.05), ylabel="alpha", title="alpha: mean of the units, and from the least to the largest")
        alpha.set_xlabel("time since the first arrival (s)")
        _legend(alpha)
        self._rolling(latency, runs, "Detection latency of the scenario's results, mean of each second")

    def _rolling(self, axis: Axes, runs: Sequence[ModeMeasures], title: str) -> None:
        """Mean latency of each second, on a logarithmic axis."""
        for run in runs:
            look = look_of(run.mode)
            label = f"{run.mode.title} (mean {run.latency.mean:,.0f} ms)"
            axis.plot(*rolling(run.detections), color=look.colour, linestyle=look.line, lw=1.6, label=label)
        axis.set(title=title, xlabel="time of the event in the recording (s)", ylabel="latency (ms)", yscale="log")
        _write_out_numbers(axis.yaxis)
        _legend(axis)

    def _cpu(self, axis: Axes, runs: Sequence[ModeMeasures]) -> None:
        for run in runs:
            look = look_of(run.mode)
            points = [[one.at for one in run.intervals], [100 * one.cpu for one in run.intervals]]
            label = f"{run.mode.title} (mean {100 * run.cpu:.0f} %)"
            axis.plot(*points, color=look.colour, linestyle=look.line, lw=1.4, label=label)
        axis.axhspan(100 * LOWER, 100 * UPPER, color="#cccccc", alpha=0.6, label="target zone of the busy factor")
        axis.set(
            title="CPU of the node by mode (as Fig. 12)", xlabel="time since the first arrival (s)", ylabel="CPU (% of a core)"
        )
        axis.set_ylim(0, 119)
        _legend(axis)

    def _memory(self, axes: list[Axes], runs: Sequence[ModeMeasures]) -> None:
        buffers, resident = axes
        names, rows = [run.mode.title for run in runs], range(len(runs))
        waiting, held = ([getattr(run.buffers, part) / 1e3 for run in runs] for part in ("waiting", "held"))
        buffers.barh(rows, held, 0.6, color="#2e86ab", label="emitted, may be disturbed")
        bars = buffers.barh(rows, waiting, 0.6, left=held, color="#1b2a41", label="waiting")
        whole = [f"{run.buffers.whole / 1e3:,.0f} ({part:,.0f} waiting)" for run, part in zip(runs, waiting, strict=True)]
        buffers.bar_label(bars, whole, padding=3, fontsize=8)
        buffers.set(title="Events in the ordering buffers, mean over the run", xlabel="encoded size (KB)")
        for values, shift, colour, label in (
            ([run.memory / 2**20 for run in runs], -0.2, "#1b2a41", "mean"),
            ([run.peak / 2**20 for run in runs], 0.2, "#e9a23b", "largest"),
        ):
            bars = resident.barh([row + shift for row in rows], values, 0.38, color=colour, label=label)
            resident.bar_label(bars, fmt="{:,.1f}", padding=3, fontsize=8)
        resident.set(title="Resident memory of the node", xlabel="growth since before the first event (MiB)")
        for axis in axes:
            axis.set_yticks(rows, names)
            axis.invert_yaxis()
            axis.margins(x=0.2)
            _legend(axis, "x")

    def _detectors(self, axis: Axes, runs: Sequence[ModeMeasures]) -> None:
        first = runs[0].by_detector
        order = sorted(first, key=lambda name: first[name].mean)
        for run in runs:
            look = look_of(run.mode)
            known = [(row, run.by_detector[name]) for row, name in enumerate(order) if name in run.by_detector]
            rows = [row for row, _ in known]
            marker: dict[str, Any] = {"marker": look.marker, "linestyle": "none", "color": look.colour, "ms": 5}
            axis.plot([one.p99 for _, one in known], rows, **marker, mfc="white", label=f"{run.mode.title}: p99")
            axis.plot([one.mean for _, one in known], rows, **marker, label=f"{run.mode.title}: mean")
        axis.set_yticks(range(len(order)), [f"{name} ({first[name].count:,})" for name in order])
        axis.set_ylim(-0.6, len(order) - 0.4)
        axis.grid(axis="y", color="#dddddd", lw=0.6)
        axis.set_xscale("log")
        _write_out_numbers(axis.xaxis)
        axis.set(title="Latency of every detector (detections in brackets)", xlabel="latency (ms)")
        axis.figure.legend(fontsize=8, frameon=False, ncols=len(runs), loc="outside upper center")

    def _modes(self, axes: list[Axes], runs: Sequence[ModeMeasures]) -> None:
        panels: list[tuple[str, str, Callable[[ModeMeasures], float]]] = [
            ("Mean latency of the scenario's results", "ms", lambda run: run.results.mean if run.results else 0.0),
            ("CPU of the node", "% of a core", lambda run: 100 * run.cpu),
            ("Mean alpha", "1 buffers, 0 speculates fully", lambda run: run.alpha),
        ]
        for axis, (title, unit, value) in zip(axes, panels, strict=True):
            values = [value(run) for run in runs]
            colours = [look_of(run.mode).colour for run in runs]
            bars = axis.barh([run.mode.title for run in runs], values, 0.65, color=colours)
            axis.bar_label(bars, fmt="{:,.2f}" if max(values) <= 1 else "{:,.0f}", padding=3, fontsize=8)
            axis.invert_yaxis()
            axis.margins(x=0.1)
            axis.grid(axis="x", color="#dddddd", lw=0.6)
            axis.set(title=title, xlabel=unit)

    def _cost(self, axis: Axes, counted: Sequence[AffectedEvents]) -> None:
        values = [one.cpu / one.seconds for one in counted]
        bars = axis.barh([one.mode.title for one in counted], values, 0.65, color=[look_of(one.mode).colour for one in counted])
        axis.bar_label(bars, fmt="{:,.2f}", padding=3, fontsize=8)
        axis.invert_yaxis()
        axis.margins(x=0.1)
        axis.axvline(1.0, color="#555555", lw=1.0, ls="--")
        axis.grid(axis="x", color="#dddddd", lw=0.6)
        axis.set(title="Cost at alpha = 0 (but for pure buffering); dashed: real time on one core")
        axis.set_xlabel("processor seconds per second of the recording")

    def _retraction(self, axes: list[Axes], counted: Sequence[AffectedEvents]) -> None:
        names = [one.mode.title for one in counted]
        scopes = {
            f"At {self._corrections}": [one.corrections.corrected for one in counted],
            f"In the cascade: {self._corrections} and all detectors above it": [
                one.corrections.corrected_in_cascade for one in counted
            ],
            "In the whole hierarchy": [one.corrections.corrected_at_all for one in counted],
        }
        for axis, (title, values) in zip(axes, scopes.items(), strict=True):
            bars = axis.barh(names, values, 0.6, color=[look_of(one.mode).colour for one in counted])
            axis.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=8)
            axis.invert_yaxis()
            axis.margins(x=0.1)
            axis.grid(axis="x", color="#dddddd", lw=0.6)
            axis.set(title=title, xlabel="results revised or withdrawn")


def back_offs(intervals: Sequence[Interval]) -> list[tuple[float, float]]:
    """When alpha was set back to 1, and the alpha that was too much then."""
    pairs = pairwise(intervals)
    return [(after.at, before.alpha) for before, after in pairs if before.alpha < after.alpha == 1.0]


def look_of(mode: Mode) -> Look:
    """How a mode is drawn, the same in every figure."""
    name = mode.name.removesuffix("-fast")
    if name in _LOOKS:
        return _LOOKS[name]
    others = [one.name for one in (*MODES, UNKEYED) if one.name.removesuffix("-fast") not in _LOOKS]
    return _OTHER[others.index(name)]


def _write_out_numbers(axis: Axis) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def _legend(axis: Axes, grid: Literal["x", "y"] = "y") -> None:
    """Beside the axes, so that it covers nothing; with grid lines."""
    axis.grid(axis=grid, color="#dddddd", lw=0.6)
    axis.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
