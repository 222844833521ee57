"""A mesh at a glance: lines for nodes and detectors, and concerns for a person to look at. Pure: from one status, or two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from middleware.broker.effects import BrokerStatistics
from middleware.broker.ingress.receipts import LOST, REJECTIONS, REPEATS
from middleware.model.event import END
from middleware.model.quantities import spoken_duration
from middleware.model.time import SECOND
from middleware.model.words import counted
from middleware.ordering.records import UnitStatistics
from middleware.runtime.status import Status, Vitals, lag

MANY_BLOCKS = 1_000
"""Blocks that a named subscription may lag behind before it is a concern."""

_MILLION, _THOUSAND = 1_000_000, 1_000


class NodeLine(msgspec.Struct, frozen=True):
    """A node. Counts are since its start, or per second since the earlier status.

    ``uptime``, ``lag``
        ns; ``lag``: of its slowest detector behind its clock; None if it has no detector, or no clock yet.
    ``corrected``
        results revised or withdrawn / results published; None if there were none.
    ``busy``, ``cpu``
        load of its detectors, and of its process (1: one core).
    ``memory``, ``queued``
        bytes used by the process, and bytes queued for readers.
    """

    node: str
    address: str
    state: str
    uptime: int
    received: float
    results: float
    corrected: float | None
    late: float
    busy: float
    cpu: float
    memory: int
    lag: int | None
    publishers: int
    subscribers: int
    queued: int


class DetectorLine(msgspec.Struct, frozen=True):
    """A detector; see NodeLine. ``k``, ``lag``: ns. ``busy``: None if unknown."""

    detector: str
    node: str
    received: float
    results: float
    corrected: float | None
    late: float
    k: int
    alpha: float
    lag: int | None
    busy: float | None
    state: str


def node_lines(nodes: Iterable[Status], before: Iterable[Status] = ()) -> list[NodeLine]:
    """A line for each node. ``before``: earlier statuses; with these, counts are per second."""
    earlier = {each.node: each for each in before}
    return [_node_line(each, _since(each, earlier.get(each.node))) for each in nodes]


def detector_lines(nodes: Iterable[Status], before: Iterable[Status] = ()) -> list[DetectorLine]:
    """A line for each detector, in the order of the nodes."""
    earlier = {each.node: each for each in before}
    return [line for each in nodes for line in _detector_lines(each, _since(each, earlier.get(each.node)))]


def concerns(nodes: Sequence[Status]) -> list[str]:
    """The concerns for a person to look at, one line each; empty if all is well."""
    return [line for node in nodes for line in _concerns(node)]


class _Before(msgspec.Struct):
    """An earlier status, and the seconds since: nothing, and 1, if there is none, or only one of another life."""

    vitals: Vitals | None = None
    units: dict[str, UnitStatistics] = {}
    seconds: float = 1.0


def _since(now: Status, before: Status | None) -> _Before:
    if before is None or before.vitals.started != now.vitals.started or before.vitals.at >= now.vitals.at:
        return _Before()
    units = {unit.detector: unit for unit in _counts(before)}
    return _Before(before.vitals, units, (now.vitals.at - before.vitals.at) / SECOND)


def _counts(status: Status) -> list[UnitStatistics]:
    return [unit.counts for unit in status.units if unit.counts is not None]


def _node_line(status: Status, before: _Before) -> NodeLine:
    now, past, seconds = status.vitals, before.vitals, before.seconds
    life = seconds if past is not None else max((now.at - now.started) / SECOND, 1e-9)
    published, corrected = _results(_counts(status), before.units.values())
    received = _received(now) - (_received(past) if past is not None else 0)
    late = sum(unit.late for unit in _counts(status)) - sum(unit.late for unit in before.units.values())
    rejected = _rejected(now) - (_rejected(past) if past is not None else 0)
    lags = [behind for unit in status.units if (behind := lag(unit.watermark, status.clock)) is not None]
    up = [peer for peer in now.counts.peers if peer.up]
    return NodeLine(
        node=status.node,
        address=now.address,
        state=_state(status),
        uptime=now.at - now.started,
        received=received / seconds,
        results=published / seconds,
        corrected=corrected / published if published else None,
        late=(late + rejected) / seconds,
        busy=status.busy,
        cpu=(now.cpu - (past.cpu if past is not None else 0.0)) / life,
        memory=now.memory,
        lag=max(lags, default=None),
        publishers=sum(peer.role == "publisher" for peer in up),
        subscribers=sum(peer.role == "subscriber" and peer.reads for peer in up),
        queued=sum(peer.link.queued_bytes for peer in up),
    )


def _detector_lines(status: Status, before: _Before) -> Iterator[DetectorLine]:
    seconds = before.seconds
    for wait in status.units:
        unit = wait.counts
        if unit is None:
            continue
        old = before.units.get(unit.detector)
        published, corrected = _results([unit], [old] if old is not None else [])
        yield DetectorLine(
            detector=unit.detector,
            node=status.node,
            received=(unit.received - (old.received if old is not None else 0)) / seconds,
            results=published / seconds,
            corrected=corrected / published if published else None,
            late=(unit.late - (old.late if old is not None else 0)) / seconds,
            k=unit.k,
            alpha=unit.alpha,
            lag=lag(wait.watermark, status.clock),
            busy=(unit.spent - old.spent) / SECOND / seconds if old is not None else None,
            state="stopped" if unit.halted is not None else "ended" if unit.final == END else "runs",
        )


def _results(units: Iterable[UnitStatistics], before: Iterable[UnitStatistics]) -> tuple[int, int]:
    """The number of results published, and of their corrections."""
    now, past = list(units), list(before)
    published = sum(unit.inserted for unit in now) - sum(unit.inserted for unit in past)
    return published, sum(u.revised + u.retracted for u in now) - sum(u.revised + u.retracted for u in past)


def _received(vitals: Vitals) -> int:
    """The number of events that came to a node, without repeats: its detectors never see these."""
    return vitals.counts.events_in - sum(vitals.counts.drops.get(reason, 0) for reason in REPEATS)


def _rejected(vitals: Vitals) -> int:
    """The number of events that a node rejected."""
    return sum(vitals.counts.drops.get(reason, 0) for reason in REJECTIONS.values())


def _state(status: Status) -> str:
    if status.missing:
        return f"waits for {', '.join(status.missing)}"
    return "paused" if status.paused else "ready"


def _skipped(who: str, counts: BrokerStatistics) -> Iterator[str]:
    if lost := {reason: count for reason, count in counts.drops.items() if reason in LOST}:
        yield f"{who} has skipped events, and lists them nowhere: {counted(lost)}"
    if counts.attempts:
        yield f"{who} has rejected events of sources that belong to others: {counted(counts.attempts)}"


def _concerns(status: Status) -> Iterator[str]:
    who = f"node {status.node}"
    if status.missing:
        yield f"{who} takes nothing yet: it waits for {', '.join(status.missing)}"
    if status.behind:
        yield f"{who}: its clock is {spoken_duration(status.behind)} behind those of all others: set it"
    if status.paused:
        readers = ", ".join(status.slow) or "a reader at another node"
        yield f"{who}: {', '.join(status.paused)} is paused: {readers} has no room"
    for unit in status.units:
        if unit.halted:
            yield f"{who}: {unit.detector} has stopped: {unit.halted}"
        elif unit.counts is not None and unit.counts.failures:
            times = "once" if unit.counts.failures == 1 else f"{unit.counts.failures:,} times"
            yield f"{who}: {unit.detector} has raised {times}: slackline late list shows at which events"
    vitals = status.vitals
    yield from _skipped(who, vitals.counts)
    away = sorted(vitals.nodes.keys() - {peer.name for peer in vitals.counts.peers if peer.role == "node" and peer.up})
    if away and not status.missing:
        yield f"{who} has lost {', '.join(away)}"
    for name, blocks in vitals.log.readers.items() if vitals.log is not None else ():
        if blocks > MANY_BLOCKS:
            yield f"{who}: subscription {name!r} has not passed {blocks:,} blocks of the log"
    if vitals.unlisted:
        yield f"{who}: its late ledger had to let {vitals.unlisted:,} entries go"


def spoken_count(value: float) -> str:
    """A count or rate in four columns or so.

    >>> spoken_count(0), spoken_count(0.25), spoken_count(812.3), spoken_count(34_120), spoken_count(2_500_000)
    ('0', '0.25', '812', '34.1k', '2.5M')
    """
    for size, letter in ((_MILLION, "M"), (_THOUSAND, "k")):
        if value >= 10 * size or (size == _MILLION and value >= size):
            return f"{value / size:.1f}{letter}"
    return f"{value:,.0f}" if value == int(value) or value >= 10 else f"{value:.2g}"


def spoken_bytes(size: int) -> str:
    """Bytes in the largest unit that leaves them at least 1.

    >>> spoken_bytes(0), spoken_bytes(2_048), spoken_bytes(123 * 2**20)
    ('0 B', '2 KiB', '123 MiB')
    """
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 2**power:
            return f"{size / 2**power:.3g} {unit}"
    return f"{size} B"


def spoken_lag(nanoseconds: int | None) -> str:
    """A lag, to the millisecond."""
    return "" if nanoseconds is None else spoken_duration(round(nanoseconds, -6))


def spoken_share(share: float | None) -> str:
    """A share in percent; empty if there is none."""
    return "" if share is None else f"{share:.0%}" if share >= 0.1 or not share else f"{share:.1%}"
