"""The evaluation as a whole: run every mode, hold it against the oracle, count corrections, score, draw, report."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import msgspec

from middleware.evaluation.evaluation_report import write_report
from middleware.evaluation.evaluation_runs import CountedRun, counted, replay
from middleware.evaluation.figures import Figures
from middleware.evaluation.measuring.accuracy import Accuracy
from middleware.evaluation.measuring.buffers import Sizes, event_sizes
from middleware.evaluation.measuring.corrections import AffectedEvents, affected, retraction_ratios
from middleware.evaluation.measuring.measures import ModeMeasures, Results, builtins_of, in_zone, measure, ratios
from middleware.evaluation.modes import (
    AUTO,
    BUFFERING,
    DYNAMIC,
    EVERY,
    FULL,
    MODES,
    PAPER,
    QUICK,
    SPARSE,
    UNKEYED,
    Mode,
)
from middleware.evaluation.setting import line, setting
from middleware.model.errors import ScenarioError, TraceError
from middleware.model.event import Event
from middleware.recordings.prepare.fitting import check_fit, read_types
from middleware.recordings.traces import load_trace, read_trace
from middleware.runtime.report import NodeReport
from middleware.runtime.scenario import Scenario, load_object
from middleware.testing.oracle import LenientOracle, first_arrivals

Say = Callable[[str], None]

_RETRACTION = (DYNAMIC, FULL, AUTO)
_COUNTED = (*_RETRACTION, EVERY, SPARSE)


class EvaluationExtent(msgspec.Struct, frozen=True):
    """How much is run: the modes, and the seconds of the recording and rounds that counted runs take.

    ``unkeyed_seconds``
        of the run without keys, which costs many times as much.
    """

    modes: tuple[Mode, ...]
    counted: tuple[Mode, ...]
    counted_seconds: float
    rounds: int
    unkeyed_seconds: float


WHOLE = EvaluationExtent(MODES, _COUNTED, 30.0, 3, 5.0)
SHORT = EvaluationExtent(QUICK, _RETRACTION, 2.0, 1, 0.4)


class Evaluation:
    """One evaluation of a scenario whose trace is prepared; ``say`` gets what is being done.

    ``speed``: how many times as fast as it was a recording is replayed, in every mode.
    """

    def __init__(
        self, scenario: Scenario, trace: Path, extent: EvaluationExtent, command: str, say: Say, speed: float = 1.0
    ) -> None:
        self._scenario = scenario
        self._trace = trace
        self._extent = extent
        self._say = say
        self._speed = speed
        self._seconds = _length(scenario, trace)
        self._setting = setting(scenario.plan.recording.seed, self._seconds, command)
        self._left_out: dict[str, str] = {}
        self._failed: dict[str, str] = {}

    def run(self, out: Path) -> Results:
        """Run everything and write report and figures into ``out``. Raises RunError, ScenarioError, TraceError."""
        figures = Figures(_folder(out), line(self._setting), self._scenario.plan.evaluation)
        missing = check_fit(self._trace, self._scenario.types, read_types(self._scenario))
        missing = [name for name in missing if name not in self._scenario.derived]
        replays = []
        for mode in self._extent.modes:
            self._say(f"{mode.title}: {self._seconds:g} s at {self._pace}")
            replays.append(replay(self._scenario, self._trace, mode, self._seconds / self._speed, self._speed, missing))
        self._say("reading the recording")
        arrivals = list(itertools.chain.from_iterable(read_trace(self._trace, self._scenario.types)))
        raw = first_arrivals(arrivals, self._scenario.detectors)
        oracle = LenientOracle(raw, self._scenario.detectors)
        measured: dict[str, ModeMeasures] = {}
        sizes: Sizes = {}
        for one in replays:
            self._note_failures(one.mode, one.report)
            self._say(f"{one.mode.title}: holding the finals against the in-order oracle")
            expected = oracle.finals([one.report.late])
            sizes = sizes or event_sizes(self._scenario.detectors, itertools.chain(raw, expected))
            measured[one.mode.name] = measure(one, self._scenario, expected, sizes)
        touched = self._count(arrivals)
        self._say("scoring")
        results = self._results(measured, touched, replays[0].finals)
        self._say("drawing")
        table = list(touched.values())
        drawn = figures.draw(measured, table, _RETRACTION)
        write_report(out / "report.html", results, measured, table, drawn)
        return results

    @property
    def _pace(self) -> str:
        return "real speed" if self._speed == 1 else f"{self._speed:g} times its speed"

    def _count(self, arrivals: list[Event]) -> dict[str, AffectedEvents]:
        """Runs in this process: pure buffering over everything, the others at alpha = 0 over the first seconds.

        Modes take turns, since the machine may slow down; of several rounds the one with the median CPU time counts.
        """
        runs = [self._counted(BUFFERING, arrivals, None, self._seconds)]
        rounds: dict[str, list[CountedRun]] = {mode.name: [] for mode in self._extent.counted}
        for number, mode in itertools.product(range(self._extent.rounds), self._extent.counted):
            rounds[mode.name].append(self._counted(mode, arrivals, 0.0, self._extent.counted_seconds, f", round {number + 1}"))
        runs += [sorted(each, key=lambda run: run.cpu)[len(each) // 2] for each in rounds.values()]
        runs.append(self._counted(UNKEYED, arrivals, 0.0, self._extent.unkeyed_seconds))
        return {one.mode.name: affected(one, self._scenario) for one in runs}

    def _counted(self, mode: Mode, arrivals: list[Event], alpha: float | None, seconds: float, which: str = "") -> CountedRun:
        """One run in this process over the first seconds."""
        seconds = min(seconds, self._seconds)
        at = "" if alpha is None else f", alpha = {alpha:g}"
        self._say(f"{mode.title}: counting {seconds:g} s in one process{at}{which}")
        return counted(self._scenario, arrivals[: round(len(arrivals) * seconds / self._seconds)], mode, alpha, seconds)

    def _results(self, measured: dict[str, ModeMeasures], touched: dict[str, AffectedEvents], finals: list[Event]) -> Results:
        corrections = retraction_ratios(touched)
        factors = {name: one.real_time_factor for name, one in touched.items()}
        accuracy = self._scores(finals)
        return Results(
            scenario=self._scenario.plan.name,
            seconds=self._seconds,
            seed=self._scenario.plan.recording.seed,
            detectors=len(self._scenario.detectors),
            levels=max(self._scenario.levels.values()),
            event_types=self._event_types(),
            latency_of=self._scenario.plan.evaluation.latency,
            corrections_of=self._scenario.plan.evaluation.corrections,
            latency_ratio=ratios(measured),
            retraction_ratio=corrections["cascade"],
            retraction_ratios=corrections,
            real_time_factor=factors[BUFFERING.name],
            real_time_factors=factors,
            oracle_equal=all(one.oracle_equal for one in measured.values()),
            cpu_in_zone=in_zone(measured[PAPER.name]),
            f1={name: one.f1 if one else None for name, one in accuracy.items()},
            accuracy=accuracy,
            setting=self._setting,
            modes=[builtins_of(one) for one in measured.values()],
            retraction=[msgspec.to_builtins(one) for one in touched.values()],
            left_out=self._left_out,
            failed=self._failed,
        )

    def _note_failures(self, mode: Mode, report: NodeReport) -> None:
        """Detectors that failed at events of a run, and what they raised at the first."""
        for name, raised in report.failures.items():
            if raised:
                first = report.first_failed.get(name, "")
                self._failed[f"{name}, {mode.title}"] = f"failed at {len(raised):,} events: {raised[0]}, first at {first}"

    def _event_types(self) -> int:
        """Event types that occur in the scenario: as its own function counts them, else its classes."""
        target = self._scenario.plan.evaluation.types
        return int(load_object(target, self._scenario.folder)()) if target else len(self._scenario.types)

    def _scores(self, finals: list[Event]) -> dict[str, Accuracy | None]:
        """By name, what the scenario's scorer gives; None where scorer or data are missing."""
        plan = self._scenario.plan
        scores: dict[str, Accuracy | None] = dict.fromkeys(plan.evaluation.scores)
        if plan.evaluation.scorer is None:
            return scores
        try:
            scorer = load_object(plan.evaluation.scorer, self._scenario.folder)
            by_detector: dict[str, list[Event]] = {name: [] for name in self._scenario.detectors}
            for event in finals:
                by_detector[event.source].append(event)
            given = scorer(by_detector, seed=plan.recording.seed, seconds=self._seconds)
        except (ScenarioError, TraceError, FileNotFoundError) as error:
            self._left_out["scores"] = str(error)
            return scores
        why = "no such thing in this recording, or its data are not here, or not looked for in so short a run"
        self._left_out |= {f"F1 {name}": why for name in scores if given.get(name) is None}
        return {**scores, **given}


def _length(scenario: Scenario, trace: Path) -> float:
    """Seconds of the recording: as many as were generated, or from its first arrival to its last."""
    if scenario.plan.recording.generate is not None:
        return scenario.plan.recording.seconds
    description = load_trace(trace)
    return max((description.last_arrival - description.first_arrival) / 1e9, 1e-3)


def _folder(out: Path) -> Path:
    """The folder for the report, there before anything has been run for nothing."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ScenarioError(f"{out} cannot be written: {error.strerror}; name another folder with --out") from None
    return out
