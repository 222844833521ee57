"""A whole scenario in one process, without sockets or Spark: for tests, notebooks and debugging."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

import msgspec

from middleware.change import Batch, Delta
from middleware.detector import Detector
from middleware.event import END, IDENTITY, TS, Event, Identity, type_name
from middleware.ordering.costs import Timer
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.unit import Late, Policies, UnitStatistics
from middleware.pubsub.barrier import Barrier
from middleware.pubsub.seen import SeenIds

_PRICE_EVERY = 64
"""Batches after which units are told again what their results cost those that read them."""


class Run(msgspec.Struct):
    """What a run came to.

    ``finals``
        final results by detector name, in total order.
    ``late``
        by detector name, the ledger of what came behind the horizon and was left out.
    ``duplicates``
        how many arrivals repeated an earlier (source, id).
    ``published``, ``corrected``
        events published early, and how many of those publications were revised or withdrawn later.
    ``halted``
        by detector of which nothing more came, why: its finals are right, but none is later than when it stopped.
    """

    finals: dict[str, list[Event]]
    late: dict[str, list[Late]]
    statistics: list[UnitStatistics]
    events: int = 0
    duplicates: int = 0
    published: int = 0
    corrected: int = 0
    halted: dict[str, str] = {}

    def late_identities(self) -> dict[str, set[Identity]]:
        """The ledgers as the oracle wants them: by detector, which raw events are excused."""
        return {name: {IDENTITY(entry.event) for entry in ledger} for name, ledger in self.late.items()}


def run(
    events: Iterable[Event],
    detectors: Iterable[Detector] | Mapping[str, Detector],
    *,
    policies: Policies | Mapping[str, Policies] | None = None,
    batch: int = 256,
    watch: Callable[[Batch], None] | None = None,
    timer: Timer | None = None,
) -> Run:
    """Run detectors over events in their order of arrival, to the end of the stream.

    ``batch`` events are taken to arrive at once. Every batch of changes that detectors publish is shown to ``watch``.
    Policies default to full speculation (alpha = 0), since nothing else waits for the processor here. ``timer`` (ns, such
    as ``time.perf_counter_ns``) lets auto retraction and snapshot spacing go by measured cost; without one they go by
    counts, and the same input gives the same changes whatever the machine does.

    >>> from middleware import Detector, Event
    >>> class Tick(Event):
    ...     price: float
    >>> class Rise(Event):
    ...     by: float
    >>> class Rises(Detector):
    ...     subscribes, publishes = (Tick,), (Rise,)
    ...     def __init__(self):
    ...         self.last = None
    ...     def on_event(self, tick):
    ...         last, self.last = self.last, tick.price
    ...         return Rise(tick.price - last, ts=tick.ts) if last is not None and tick.price > last else None
    >>> late = [Tick(1.0, ts=1, id=1, source="x"), Tick(3.0, ts=3, id=3, source="x"), Tick(2.0, ts=2, id=2, source="x")]
    >>> [rise.by for rise in run(late, [Rises()], batch=1).finals["Rises"]]
    [1.0, 1.0]
    """
    hierarchy = Hierarchy(detectors, policies=policies if policies is not None else Policies(alpha=0.0), timer=timer)
    barrier = Barrier(sorted(hierarchy.publications))
    seen = SeenIds()
    result = Run({unit.name: [] for unit in hierarchy.units}, {}, [])
    for number, arrived in enumerate(_batches(events, batch), 1):
        fresh = [event for event in arrived if seen.add(event.source, event.id)]
        result.events += len(fresh)
        result.duplicates += len(arrived) - len(fresh)
        mark = max(fresh, key=TS).ts if fresh else None
        _deliver(hierarchy.process(Batch(_by_type(fresh), {}, mark)), barrier, result, watch)
        if number % _PRICE_EVERY == 0:
            hierarchy.price()
    ended = dict.fromkeys(hierarchy.subscriptions, END)
    _deliver(hierarchy.process(Batch({}, ended)), barrier, result, watch)
    if barrier.violations:
        raise AssertionError(f"final results were changed, which must never happen: {dict(barrier.violations)}")
    result.late = {unit.name: unit.ledger for unit in hierarchy.units}
    result.statistics = hierarchy.statistics()
    result.halted = hierarchy.halted
    return result


def _deliver(batches: list[Batch], barrier: Barrier, result: Run, watch: Callable[[Batch], None] | None) -> None:
    for batch in batches:
        for delta in batch.deltas.values():
            result.published += len(delta.inserts)
            result.corrected += len(delta.revises) + len(delta.retracts)
        for event in barrier.take(batch):
            result.finals[event.source].append(event)
        if watch is not None:
            watch(batch)


def _batches(events: Iterable[Event], size: int) -> Iterator[list[Event]]:
    rest = iter(events)
    while part := list(islice(rest, size)):
        yield part


def _by_type(events: list[Event]) -> dict[str, Delta]:
    kinds: dict[type[Event], list[Event]] = {}
    for event in events:
        kinds.setdefault(event.__class__, []).append(event)
    return {type_name(kind): Delta(of_kind) for kind, of_kind in kinds.items()}
