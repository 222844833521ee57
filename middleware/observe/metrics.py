"""A node's status as Prometheus metrics. Pure: nothing is counted here; all figures come from the status.

Names follow Prometheus' conventions (base units, ``_total`` on counters). Every label is bounded: nodes, detectors and their
event types come from the configuration, reasons are bounded, and for all else only some values get a series of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, islice
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily, Metric

from middleware import __version__
from middleware.broker.ingress.receipts import REJECTIONS
from middleware.model.time import SECOND
from middleware.ordering.records import UnitStatistics
from middleware.runtime.latencies import BOUNDS, Histogram
from middleware.runtime.status import LogStatus, Status, Vitals, lag

MOST_REASONS = 32
"""The most reasons with a series of their own; the rest count together, as ``other``."""

MOST_TYPES = 500
"""The most event types with a series of their own (MOST_NAMED: of named subscriptions); the others get none."""

MOST_NAMED = 100

_DUPLICATE = "duplicate"
_ROLES = ("node", "publisher", "subscriber")

Labels = TypeVar("Labels", bound=tuple[str, ...])
"""The label values of a sample, except the node's."""

_UNIT_COUNTERS: tuple[tuple[str, str, Callable[[UnitStatistics], float]], ...] = (
    ("received", "Events that a detector's unit has taken in.", lambda unit: unit.received),
    ("emitted", "Events that were given to the detector, in order.", lambda unit: unit.emitted),
    ("calls", "Calls of the detector; those beyond the events emitted were replays.", lambda unit: unit.executed),
    ("late", "Events that came later than the allowed lateness, and were skipped.", lambda unit: unit.late),
    ("failures", "How often the detector has raised.", lambda unit: unit.failures),
    ("rollbacks", "How often the detector went back to a snapshot.", lambda unit: unit.rollbacks),
    ("busy_seconds", "Time spent in the unit; its rate is the unit's busy factor.", lambda unit: unit.spent / SECOND),
    ("correction_seconds", "Time spent on corrections alone.", lambda unit: unit.corrections / SECOND),
)

_UNIT_GAUGES: tuple[tuple[str, str, Callable[[UnitStatistics], float]], ...] = (
    ("alpha", "Attenuation of the slack: 1 is pure buffering, 0 full speculation.", lambda unit: unit.alpha),
    ("slack_seconds", "Slack K: how late events come.", lambda unit: unit.k / SECOND),
    ("waiting_events", "Events in the buffer that were not given to the detector yet.", lambda unit: unit.waiting),
    ("held_events", "Events given to the detector and kept, because they may yet be disturbed.", lambda unit: unit.held),
    ("keys", "Keys that the detector has state for.", lambda unit: unit.keys),
    ("halted", "Whether the detector has stopped for good.", lambda unit: unit.halted is not None),
)

_LOG: tuple[tuple[str, str, Callable[[LogStatus], float | None]], ...] = (
    ("log_size_bytes", "Bytes of the records that the log keeps.", lambda log: log.size),
    ("log_blocks_total", "Blocks of events that the log has taken in all its lives.", lambda log: log.offset),
    ("log_commits_total", "Transactions of this life.", lambda log: log.commits),
    ("log_commit_seconds_total", "Time spent on them, by the log's own thread.", lambda log: log.committing),
    ("recovery_duration_seconds", "How long the recovery took with which this life began.", lambda log: log.recovering),
    ("checkpoints_total", "Checkpoints completed in this life.", lambda log: log.checkpoints),
    (
        "checkpoint_timestamp_seconds",
        "When the last checkpoint of this life was complete.",
        lambda log: log.checkpoint_at and log.checkpoint_at / SECOND,
    ),
    ("checkpoint_duration_seconds", "What it took of the node's time.", lambda log: log.checkpoint_seconds),
    ("checkpoint_size_bytes", "Its size.", lambda log: log.checkpoint_size),
)


def families(status: Status) -> Iterator[Metric]:
    """All metrics of a node. O(peers + types + detectors)."""
    make = _Maker(status.node)
    vitals = status.vitals
    yield from _streams(make, status)
    yield from _life(make, status, vitals)
    yield from _traffic(make, vitals)
    yield from _peers(make, status, vitals)
    yield from _units(make, status)
    yield from _results(make, vitals)
    if vitals.log is not None:
        yield from _log(make, vitals.log)


class _Maker:
    """Makes metric families whose samples all have the label ``node``."""

    def __init__(self, node: str) -> None:
        self.node = node

    def gauge(self, name: str, text: str, samples: Mapping[Labels, float], labels: Iterable[str] = ()) -> Metric:
        return self._filled(GaugeMetricFamily(f"slackline_{name}", text, labels=["node", *labels]), samples)

    def counter(self, name: str, text: str, samples: Mapping[Labels, float], labels: Iterable[str] = ()) -> Metric:
        return self._filled(CounterMetricFamily(f"slackline_{name}", text, labels=["node", *labels]), samples)

    def single(self, name: str, text: str, value: float | None) -> Metric:
        """A counter if the name says so, else a gauge; without a sample if there is no value."""
        samples: dict[tuple[()], float] = {(): value} if value is not None else {}
        return self.counter(name, text, samples) if name.endswith("_total") else self.gauge(name, text, samples)

    def histogram(self, name: str, text: str, samples: Mapping[Labels, Histogram], labels: Iterable[str] = ()) -> Metric:
        family = HistogramMetricFamily(f"slackline_{name}", text, labels=["node", *labels])
        for values, histogram in samples.items():
            bounds = [*map(str, BOUNDS), "+Inf"]
            buckets = list(zip(bounds, accumulate(histogram.counts), strict=True))
            family.add_metric([self.node, *values], buckets, histogram.sum / SECOND)
        return family

    def _filled(self, family: GaugeMetricFamily | CounterMetricFamily, samples: Mapping[Labels, float]) -> Metric:
        for values, value in samples.items():
            family.add_metric([self.node, *values], value)
        return family


def _life(make: _Maker, status: Status, vitals: Vitals) -> Iterator[Metric]:
    info = InfoMetricFamily("slackline_node", "The node and its version.", labels=["node"])
    info.add_metric([make.node], {"version": __version__})
    yield info
    single = make.single
    yield single("start_time_seconds", "When the node was started.", vitals.started / SECOND)
    yield single("status_timestamp_seconds", "When the node's thread made this status.", vitals.at / SECOND)
    yield single("busy_ratio", "Busy factor of its detectors in the last half second.", status.busy)
    yield single("loop_waiting_seconds_total", "Time for which its loop had nothing to do.", vitals.waiting)
    steps = "How long the steps of its detectors took."
    yield make.histogram("step_duration_seconds", steps, {(): vitals.steps} if any(vitals.steps.counts) else {})


def _traffic(make: _Maker, vitals: Vitals) -> Iterator[Metric]:
    counts, single = vitals.counts, make.single
    yield single("events_received_total", "Events that came from publishers and other nodes.", counts.events_in)
    yield single("events_delivered_total", "Events handed to its own detectors.", counts.events_local)
    yield single("events_sent_total", "Events sent to subscribers and other nodes.", counts.events_out)
    drops = dict(counts.drops)
    repeats = "Events that came again with a source and id known already."
    yield single("events_duplicate_total", repeats, drops.pop(_DUPLICATE, 0))
    rejected = {(reason,): drops.pop(counted, 0) for reason, counted in REJECTIONS.items()}
    text = "Events that the node did not take from a publisher, and listed."
    yield make.counter("events_rejected_total", text, rejected, ["reason"])
    others = {(reason,): count for reason, count in _bounded(drops).items()}
    yield make.counter("dropped_total", "Events or frames dropped, by reason.", others, ["reason"])
    yield single("late_ledger_entries_total", "Events listed because they were not taken into account.", vitals.listed)
    yield single("late_ledger_lost_total", "Entries that the late ledger had to let go.", vitals.unlisted)


def _peers(make: _Maker, status: Status, vitals: Vitals) -> Iterator[Metric]:
    peers = vitals.counts.peers
    up = [peer for peer in peers if peer.up and (peer.reads or peer.role != "subscriber")]
    by_role = {role: [peer for peer in up if peer.role == role] for role in _ROLES}

    def each(value: Callable[[str], float]) -> dict[tuple[str], float]:
        return {(role,): value(role) for role in _ROLES}

    gauge = make.gauge
    yield gauge("peers", "Who is attached.", each(lambda role: len(by_role[role])), ["role"])
    slow = "Readers without room, for whom sources wait."
    yield gauge("peers_slow", slow, each(lambda role: sum(peer.slow for peer in by_role[role])), ["role"])
    queued = {role: [peer.link.queued_bytes for peer in by_role[role]] for role in _ROLES}
    yield gauge("queued_bytes", "What waits for peers to give credit.", each(lambda role: sum(queued[role])), ["role"])
    longest = "The same for the peer that is furthest behind."
    yield gauge("queued_longest_bytes", longest, each(lambda role: max(queued[role], default=0)), ["role"])
    unacked = "What was sent and not acknowledged yet: credit in use."
    yield gauge("unacked_bytes", unacked, each(lambda role: sum(p.link.unacked_bytes for p in by_role[role])), ["role"])
    paused = {origin.name for stream in status.streams.values() for origin in stream.origins if origin.credit_paused}
    yield make.single("publishers_held", "Publishers without credit, because a reader has no room.", len(paused))
    here = {peer.name for peer in by_role["node"]}
    others = {(name,): name in here for name in vitals.nodes}
    yield gauge("node_up", "Whether a node of the configuration is attached.", others, ["peer"])
    yield make.single("nodes_missing", "Nodes for which this one waits before it takes anything.", len(status.missing))
    left = [(*whole.partition(": ")[::2], count) for whole, count in _bounded(vitals.counts.left).items()]
    samples = {(role, reason): count for role, reason, count in left}
    yield make.counter("peers_left_total", "Peers that have gone, by role and reason.", samples, ["role", "reason"])


def _streams(make: _Maker, status: Status) -> Iterator[Metric]:
    streams = islice(status.streams.items(), MOST_TYPES)
    lags = _seconds({(name,): lag(stream.promised, status.clock) for name, stream in streams})
    text = "Event time between the newest raw event known and the watermark of a type."
    yield make.gauge("watermark_lag_seconds", text, lags, ["type"])
    yield make.single("types_paused", "Patterns of event types that readers here have no room for.", len(status.paused))
    yield make.single("clock_behind_seconds", "How far its clock is behind those of all others.", status.behind / SECOND)


def _units(make: _Maker, status: Status) -> Iterator[Metric]:
    units = [unit.counts for unit in status.units if unit.counts is not None]
    by_name = {(unit.detector,): unit for unit in units}
    for name, text, of in _UNIT_COUNTERS:
        yield make.counter(f"unit_{name}_total", text, {key: of(unit) for key, unit in by_name.items()}, ["detector"])
    for name, text, of in _UNIT_GAUGES:
        yield make.gauge(f"unit_{name}", text, {key: float(of(unit)) for key, unit in by_name.items()}, ["detector"])
    waits = {(unit.detector,): unit for unit in status.units}
    lateness = {key: unit.lateness / SECOND for key, unit in waits.items()}
    yield make.gauge("unit_lateness_seconds", "Allowed lateness where an input is open.", lateness, ["detector"])
    lags = _seconds({key: lag(unit.watermark, status.clock) for key, unit in waits.items()})
    text = "Event time between the newest raw event known and the watermark of a detector."
    yield make.gauge("unit_watermark_lag_seconds", text, lags, ["detector"])
    changes = {
        (unit.detector, change): count
        for unit in units
        for change, count in (("insert", unit.inserted), ("revise", unit.revised), ("retract", unit.retracted))
    }
    text = "Results published (insert), and corrections of them (revise, retract)."
    yield make.counter("unit_results_total", text, changes, ["detector", "change"])


def _results(make: _Maker, vitals: Vitals) -> Iterator[Metric]:
    samples = {
        (name, stage): histogram
        for name, latency in vitals.latencies.items()
        for stage, histogram in (("early", latency.early), ("stayed", latency.stayed), ("final", latency.final))
    }
    text = "Event time from a result's ts to its publication (early), of those that stayed (stayed), and until final (final)."
    yield make.histogram("result_latency_seconds", text, samples, ["type", "stage"])


def _log(make: _Maker, log: LogStatus) -> Iterator[Metric]:
    for name, text, of in _LOG:
        yield make.single(name, text, of(log))
    behind = sorted(log.readers.items(), key=lambda item: -item[1])[:MOST_NAMED]
    text = "Blocks of the log that a named subscription has not passed yet; of the furthest behind."
    yield make.gauge("subscriber_lag_blocks", text, {(name,): lag for name, lag in behind}, ["subscriber"])


def _seconds(durations: Mapping[Labels, int | None]) -> dict[Labels, float]:
    """The known durations in seconds."""
    return {labels: duration / SECOND for labels, duration in durations.items() if duration is not None}


def _bounded(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by reason, the first MOST_REASONS separately: these keep their series, however many more reasons follow."""
    bounded = dict(islice(counts.items(), MOST_REASONS))
    rest = sum(counts.values()) - sum(bounded.values())
    return bounded | {"other": bounded.get("other", 0) + rest} if rest else bounded
