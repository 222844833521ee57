"""From what runs left behind to numbers: latencies, courses over time, CPU, memory, corrections, and the ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import msgspec

from middleware.evaluation.evaluation_runs import Replay
from middleware.evaluation.measuring.accuracy import Accuracy
from middleware.evaluation.measuring.buffers import BufferSizes, Sizes, buffered
from middleware.evaluation.measuring.corrections import CorrectionCounts, corrected
from middleware.evaluation.modes import BUFFERING, DYNAMIC, Mode
from middleware.model.errors import RunError
from middleware.model.event import IDENTITY, Event, type_name
from middleware.model.values.state import same_events
from middleware.ordering.alpha.adaptation import UPPER
from middleware.runtime.scenario import Scenario


class LatencySummary(msgspec.Struct, frozen=True):
    """Milliseconds from the replayed moment of an event to the delivery of the content that stayed.

    A recording that every mode replays faster than it was counts in its own time: so long its clock ran meanwhile.
    """

    mean: float
    p50: float
    p99: float
    count: int


class Detection(msgspec.Struct, frozen=True):
    """A final result: seconds into the recording, and its latency (ms)."""

    at: float
    latency: float


class Interval(msgspec.Struct, frozen=True):
    """A node in one interval of adaptation, ``at`` its end (seconds from the first arrival).

    ``alpha``
        mean over units, with ``least`` and ``most``.
    ``busy``, ``cpu``
        busy factor and processor time, each per time.
    ``memory``
        resident bytes beyond those before the first event; ``buffers`` what of it are events in ordering buffers.
    ``k``
        slack of the unit looked at, or the largest of all, ms.
    """

    at: float
    alpha: float
    least: float
    most: float
    busy: float
    cpu: float
    memory: int
    k: float
    buffers: BufferSizes = BufferSizes()


class ModeMeasures(msgspec.Struct):
    """A mode's run in numbers.

    ``latency``
        over all detections that are subscribed to; ``results`` over the scenario's results, ``focus`` over those of the
        detector looked at. ``ratios``: their means per those of pure buffering.
    ``by_level``, ``by_result``
        by level of the hierarchy ("1", "2", ...), and by each of the scenario's results: most detections are of the lowest
        levels, so that a mean over all of them says little about what people wait for.
    ``cpu``, ``busy``, ``alpha``
        means over the run; ``cpu_seconds`` altogether.
    ``memory``, ``peak``
        mean and largest growth of the resident size, bytes; ``buffers``: mean size of what the ordering buffers hold.
    ``behind``
        how far (ms) the feed was held back at most; ``seconds`` until all was taken.
    """

    mode: Mode
    latency: LatencySummary
    results: LatencySummary | None
    focus: LatencySummary | None
    by_detector: dict[str, LatencySummary]
    by_level: dict[str, LatencySummary]
    by_result: dict[str, LatencySummary]
    detections: list[Detection]
    focus_detections: list[Detection]
    intervals: list[Interval]
    corrections: CorrectionCounts
    cpu: float
    busy: float
    alpha: float
    cpu_seconds: float
    memory: float
    peak: float
    behind: float
    seconds: float
    events: int
    finals: int
    late: int
    oracle_equal: bool
    ratios: dict[str, float] = {}
    buffers: BufferSizes = BufferSizes()


def measure(replay: Replay, scenario: Scenario, expected: list[Event], sizes: Sizes | None = None) -> ModeMeasures:
    """A run in numbers; ``expected`` are the oracle's results in total order, without those the run lists as late.

    ``sizes``: of the events that each detector reads (``buffers.event_sizes``).
    """
    plan = scenario.plan
    focus, results = plan.evaluation.latency, frozenset(plan.results)
    by_detector: dict[str, list[Detection]] = {}
    by_level: dict[int, list[Detection]] = {}
    by_result: dict[str, list[Detection]] = {}
    for event in replay.finals:
        detection, name = _detection(replay, event), type_name(event.__class__)
        by_detector.setdefault(event.source, []).append(detection)
        by_level.setdefault(event.level, []).append(detection)
        if name in results:
            by_result.setdefault(name, []).append(detection)
    everything = [detection for some in by_detector.values() for detection in some]
    own = [event for event in expected if type_name(event.__class__) in replay.types]
    chosen = by_detector.get(focus or "", [])
    latency = latency_of(everything)
    if latency is None:
        raise RunError(f"the run in mode {replay.mode.name} found nothing: give it a longer recording (--seconds)")
    intervals = _intervals(replay, focus, sizes or {})
    report = replay.report
    return ModeMeasures(
        mode=replay.mode,
        latency=latency,
        results=latency_of([detection for some in by_result.values() for detection in some]),
        focus=latency_of(chosen),
        by_detector=_latencies(by_detector),
        by_level=_latencies({str(level): by_level[level] for level in sorted(by_level)}),
        by_result=_latencies({name: by_result[name] for name in plan.results if name in by_result}),
        detections=sorted(everything, key=lambda detection: detection.at),
        focus_detections=sorted(chosen, key=lambda detection: detection.at),
        intervals=intervals,
        corrections=corrected(report.units, scenario),
        cpu=_mean([one.cpu for one in intervals]),
        busy=_mean([one.busy for one in intervals]),
        alpha=_mean([one.alpha for one in intervals]),
        cpu_seconds=report.cpu,
        memory=_mean([one.memory for one in intervals]),
        peak=max((one.memory for one in intervals), default=0),
        behind=replay.fed.behind / 1e6,
        seconds=replay.fed.seconds,
        events=replay.fed.events,
        finals=len(replay.finals),
        late=sum(map(len, report.late.values())),
        oracle_equal=same_events(replay.finals, own) and not replay.violations,
        buffers=BufferSizes(*(_mean([getattr(one.buffers, part) for one in intervals]) for part in ("waiting", "held"))),
    )


def _detection(replay: Replay, event: Event) -> Detection:
    fed = replay.fed
    at = event.ts - fed.first_arrival
    own_time = fed.speed / replay.mode.speed
    return Detection(at / 1e9, (replay.delivered[IDENTITY(event)] - fed.start - at / fed.speed) * own_time / 1e6)


def _latencies(detections: Mapping[str, Sequence[Detection]]) -> dict[str, LatencySummary]:
    return {name: one for name, some in detections.items() if (one := latency_of(some))}


def latency_of(detections: Sequence[Detection]) -> LatencySummary | None:
    """Mean, median and 99th percentile; None if there is nothing to measure. O(n log n)."""
    if not detections:
        return None
    ranked = sorted(detection.latency for detection in detections)
    last = len(ranked) - 1
    return LatencySummary(fmean(ranked), ranked[last // 2], ranked[min(last, int(len(ranked) * 0.99))], len(ranked))


def _intervals(replay: Replay, focus: str | None, sizes: Sizes) -> list[Interval]:
    """The intervals from the first arrival to the end of the feed: what comes before or after is not the run."""
    fed = replay.fed
    end = fed.start + round(fed.seconds * 1e9)
    during = [entry for entry in replay.report.adaptation if fed.start < entry.time <= end]
    if not during:
        return []
    idle = [entry.memory for entry in replay.report.adaptation if entry.time <= fed.start]
    base = idle[-1] if idle else during[0].memory
    return [
        Interval(
            at=(entry.time - fed.start) / 1e9,
            alpha=_mean(list(entry.alpha.values())),
            least=min(entry.alpha.values()),
            most=max(entry.alpha.values()),
            busy=entry.busy,
            cpu=entry.cpu,
            memory=entry.memory - base,
            k=(entry.k[focus] if focus in entry.k else max(entry.k.values())) / 1e6,
            buffers=buffered(entry.waiting, entry.held, sizes),
        )
        for entry in during
    ]


class Results(msgspec.Struct):
    """Everything that ``--json`` holds: the ratios first, then what they come from.

    ``latency_of``, ``corrections_of``
        the detectors looked at.
    ``latency_ratio``
        dynamic speculation to pure buffering: ``all`` over all detections, ``pass`` over those of the detector looked at,
        ``results`` over the scenario's results, ``detectors`` over the means of the detectors.
    ``retraction_ratio``
        events that on-demand retraction corrects in the cascade to those that full retraction does, same arrivals;
        ``retraction_ratios`` at the detector looked at, in its cascade, and in the whole hierarchy.
    ``real_time_factor``
        seconds of the recording per second of processing on one core, with pure buffering, which adaptation falls back
        to; ``real_time_factors`` for each counted run.
    ``cpu_in_zone``
        whether the mean busy factor by Algorithm 3 lies below the upper end of the target zone.
    ``accuracy``
        what the scenario's scorer found, with precision, recall, intervals and counts; ``f1``: that figure alone.
    """

    scenario: str
    seconds: float
    seed: int
    detectors: int
    levels: int
    event_types: int
    latency_of: str | None
    corrections_of: str | None
    latency_ratio: dict[str, float | None]
    retraction_ratio: float | None
    retraction_ratios: dict[str, float | None]
    real_time_factor: float | None
    real_time_factors: dict[str, float]
    oracle_equal: bool
    cpu_in_zone: bool
    f1: dict[str, float | None]
    accuracy: dict[str, Accuracy | None]
    setting: dict[str, str]
    modes: list[dict[str, Any]]
    retraction: list[dict[str, Any]]
    left_out: dict[str, str]
    failed: dict[str, str] = {}


def ratios(measured: Mapping[str, ModeMeasures]) -> dict[str, float | None]:
    """Mean latency of dynamic speculation per mean latency of pure buffering; sets each mode's own ratios too."""
    buffering = measured[BUFFERING.name]
    for one in measured.values():
        if one.mode.speed != buffering.mode.speed:
            continue
        pairs = {
            "all": (one.latency, buffering.latency),
            "results": (one.results, buffering.results),
            "pass": (one.focus, buffering.focus),
        }
        if one.mode.results_only:
            del pairs["all"]  # fewer types: not the same detections
        one.ratios = {what: mine.mean / base.mean for what, (mine, base) in pairs.items() if mine and base}
    dynamic = measured[DYNAMIC.name]
    both = dynamic.by_detector.keys() & buffering.by_detector.keys()
    means = [_mean([side.by_detector[name].mean for name in both]) for side in (dynamic, buffering)]
    return {"pass": None, "results": None, **dynamic.ratios, "detectors": means[0] / means[1]}


def in_zone(measured: ModeMeasures) -> bool:
    """Whether the mean busy factor lies below the upper end of the target zone."""
    return measured.busy <= UPPER


def builtins_of(measured: ModeMeasures) -> dict[str, Any]:
    """A mode for ``--json``: all but the single detections."""
    fields = msgspec.to_builtins(measured)
    for name in ("detections", "focus_detections"):
        del fields[name]
    return fields  # type: ignore[no-any-return]


def rolling(detections: Sequence[Detection], width: float = 1.0) -> tuple[list[float], list[float]]:
    """Mean latency of the detections of each ``width`` seconds: middles and means; seconds without any are skipped."""
    bins: dict[int, list[float]] = {}
    for detection in detections:
        bins.setdefault(int(detection.at // width), []).append(detection.latency)
    numbers = sorted(bins)
    return [(number + 0.5) * width for number in numbers], [fmean(bins[number]) for number in numbers]


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
