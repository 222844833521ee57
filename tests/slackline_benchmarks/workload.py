"""What the benchmarks of operators share: events, their disorder, and how they are run and timed."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from statistics import median
from typing import Any, ClassVar

import numpy as np

from middleware.delivery.barrier import Barrier
from middleware.link.codec import Drops, EventCodec
from middleware.link.encoding import encode_delta
from middleware.model.block.block import Block
from middleware.model.change import Batch, Delta
from middleware.model.detector import Detector
from middleware.model.event import END, Event, EventTypes, type_name
from middleware.model.time import MILLISECOND, SECOND
from middleware.ordering.arrival import in_order
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.policies import Policies

EVENTS = 1_000_000
KEYS = 1_000
LATE, DELAY = 0.1, 500 * MILLISECOND
"""A tenth of the events comes up to half a second late."""

SIZES = (256, 64)
"""Events in a batch."""

COLUMN_SIZES = (256, 4_096, 65_536)
"""The same, for columns: what little Python is left costs by the batch."""


class A(Event):
    namespace: ClassVar[str] = "bench"
    tag: int


class B(Event):
    namespace: ClassVar[str] = "bench"
    tag: int


class C(Event):
    namespace: ClassVar[str] = "bench"
    tag: int


class D(Event):
    namespace: ClassVar[str] = "bench"
    tag: int


class E(Event):
    namespace: ClassVar[str] = "bench"
    tag: int


class F(Event):
    namespace: ClassVar[str] = "bench"
    tag: int


class Found(Event):
    namespace: ClassVar[str] = "bench"
    tag: int
    first: int
    last: int


WITHIN = 2 * SECOND
"""How long a sequence may take."""


class Reading(Event):
    sensor: int
    value: float


class Sparse(Event):
    sensor: int
    value: float | None


class Aggregated(Event):
    sensor: int
    start: int
    end: int
    value: float | None


class Average(Event):
    sensor: int
    start: int
    end: int
    mean: float
    most: float


class Alarm(Event):
    sensor: int
    smoothed: float


class Tick(Event):
    symbol: int
    price: float
    quantity: int


class Bid(Event):
    symbol: int
    price: float


class Match(Event):
    symbol: int
    price: float
    bid: float


class Large(Event):
    symbol: int
    amount: float | None


SIZE, EVERY = 10 * SECOND, SECOND
"""The windows: how long, and how often one ends."""

ALARM = 0.75
"""The smoothed value above which there is an alarm."""


def tagged(count: int = EVENTS, seed: int = 1) -> list[Event]:
    """Events in order: six types, a thousand tags, one a millisecond."""
    rng, types = random.Random(seed), (A, B, C, D, E, F)
    return [
        rng.choice(types)(rng.randrange(KEYS), ts=number * MILLISECOND, id=number, source="bench") for number in range(count)
    ]


def readings(count: int = EVENTS, seed: int = 1, keys: int = KEYS) -> list[Event]:
    """Readings of so many sensors in order, one a millisecond."""
    rng = random.Random(seed)
    return [
        Reading(rng.randrange(keys), rng.random(), ts=number * MILLISECOND + 1, id=number, source="bench")
        for number in range(count)
    ]


def sparse(given: Iterable[Any]) -> list[Event]:
    """The same readings, each tenth without a value."""
    return [
        Sparse(each.sensor, each.value if each.id % 10 else None, ts=each.ts, id=each.id, source=each.source) for each in given
    ]


def ticks(count: int, step: int) -> list[Event]:
    """Ticks of a thousand symbols in order, one every ``step`` ns."""
    rng = random.Random(1)
    return [
        Tick(rng.randrange(KEYS), rng.random() * 100, rng.randrange(1000), ts=n * step, id=n, source="ticks")
        for n in range(count)
    ]


def bids(count: int, step: int) -> list[Event]:
    """Bids in order, each 1 ns after the tick."""
    rng = random.Random(2)
    return [Bid(rng.randrange(KEYS), rng.random() * 100, ts=n * step + 1, id=n, source="bids") for n in range(count)]


def delayed(ordered: Sequence[Event], late: float = LATE, most: int = DELAY, seed: int = 2) -> list[Event]:
    """The same in an order of arrival in which a share ``late`` comes up to ``most`` (ns) late."""
    rng = random.Random(seed)
    arrival = [event.ts + (rng.randrange(most) if rng.random() < late else 0) for event in ordered]
    return [event for _, event in sorted(zip(arrival, ordered, strict=True), key=lambda pair: pair[0])]


def batches(arrived: list[Event], size: int) -> list[list[Any]]:
    """What arrives at once."""
    return [arrived[at : at + size] for at in range(0, len(arrived), size)]


def early(detector: Detector, given: Iterable[list[Any]]) -> list[Any]:
    """Run in a unit that speculates (alpha = 0), for a subscriber that gets every change; what stands at the end."""
    unit, subscribed = unit_for("Bench", detector, 1, Policies(alpha=0.0)), frozenset(detector.subscribes)
    provisional: dict[int, Any] = {}

    def take(deltas: list[Delta]) -> None:
        for delta in deltas:
            for event in delta.retracts:
                del provisional[event.id]
            provisional.update({new.id: new for _, new in delta.revises})
            provisional.update({event.id: event for event in delta.inserts})

    for batch in given:
        take(unit.push(Delta(_routed(batch, subscribed))))
    take(unit.push(Delta(), promised=END, is_open=False))
    return list(provisional.values())


def final(detector: Detector, given: Iterable[list[Any]]) -> list[Any]:
    """The same through the barrier, for a subscriber that gets what is final."""
    unit, subscribed = unit_for("Bench", detector, 1, Policies(alpha=0.0)), frozenset(detector.subscribes)
    name = type_name(detector.publishes[0])
    barrier, results = Barrier([name]), list[Any]()
    for batch in given:
        for delta in unit.push(Delta(_routed(batch, subscribed))):
            barrier.take(Batch({name: delta}))
        results += barrier.take(Batch(watermarks={name: unit.watermark}))
    for delta in unit.push(Delta(), promised=END, is_open=False):
        barrier.take(Batch({name: delta}))
    return results + barrier.take(Batch(watermarks={name: END}))


WAYS: dict[str, Callable[[Detector, Iterable[list[Any]]], list[Any]]] = {"": early, ".final": final}
"""How results are read, by the suffix in a benchmark's name."""


def _routed(batch: list[Any], subscribed: frozenset[Any]) -> list[Any]:
    """A broker hands on what is subscribed to."""
    return list(compress(batch, map(subscribed.__contains__, map(type, batch)))) if len(subscribed) > 1 else batch


Portion = list[tuple[Block, Any]]
"""What arrives at once, as columns: those of each type, and their places in the order of arrival, an array, as in a node."""


def blocks(arrived: list[Event], size: int, kinds: Iterable[type[Event]]) -> list[Portion]:
    """Batches as columns, of the types that are subscribed to; no events are made yet. They are as they come off a wire."""
    return [
        [
            (_columns(kind, [batch[place] for place in places]), np.array(places))
            for kind in kinds
            if (places := [place for place, event in enumerate(batch) if event.__class__ is kind])
        ]
        for batch in batches(arrived, size)
    ]


def _columns(kind: type[Event], events: list[Event]) -> Block:
    """The events, sent in columns and read from their blocks: several, if they are many."""
    codec, name = EventCodec(EventTypes([kind]), in_columns=True), type_name(kind)
    sent = encode_delta(name, Delta(Block.from_events(kind, events)), fewest=1)
    first, *others = (each for head, block in sent if (each := codec.decode(head, block, Drops()).columns) is not None)
    return first.joined(others)


def _as_new(columns: Block) -> Block:
    """The same as they come off a wire: nothing was looked up in them in the round before."""
    kind, block = columns.event_type, columns.core_block
    return Block(kind, columns.batch) if block is None else Block.from_core(kind, block)


def by_columns(detector: Detector, given: Iterable[Portion]) -> list[Delta]:
    """``early`` with columns in, for a subscriber that takes results in the form in which they come, with all corrections."""
    unit, results = unit_for("Bench", detector, 1, Policies(alpha=0.0)), list[Delta]()
    for block in given:
        if block:
            parts = [Delta(_as_new(columns), arrival_order=places) for columns, places in block]
            results += unit.push(in_order(parts, unit.min_rows_for_columns))
    return results + unit.push(Delta(), promised=END, is_open=False)


def column_cases(
    name: str,
    made: Callable[[], Detector],
    arrived: list[Event],
    loop: Callable[[list[list[Any]]], Any],
    sizes: Sequence[int] = COLUMN_SIZES,
) -> list[Case]:
    """The same in columns, in each size of batch, beside the same loop over batches of as many events."""
    return [
        (
            f"{name}.columns{'' if size == sizes[0] else f'.batch{size}'}",
            len(arrived),
            lambda given=given: by_columns(made(), given),  # type: ignore[misc]
            lambda size=size: loop(batches(arrived, size)),  # type: ignore[misc]
        )
        for size in sizes
        for given in [blocks(arrived, size, made().subscribes)]
    ]


Case = tuple[str, int, Callable[[], Any], Callable[[], Any]]
"""Name, events, what is measured, and its baseline."""


def cases(name: str, made: Callable[[], Detector], arrived: list[Event], loop: Callable[[list[list[Any]]], Any]) -> list[Case]:
    """A detector through the whole path, in each way and size of batch, beside a loop over the same batches."""
    return [
        (
            f"{name}{suffix}{'' if size == SIZES[0] else f'.batch{size}'}",
            len(arrived),
            lambda way=way, given=given: way(made(), given),  # type: ignore[misc]
            lambda given=given: loop(given),  # type: ignore[misc]
        )
        for size in SIZES
        for given in [batches(arrived, size)]
        for suffix, way in WAYS.items()
    ]


def ways(name: str, made: Callable[[], Detector], arrived: list[Event], loop: Callable[[list[list[Any]]], Any]) -> list[Case]:
    """By rows and by columns."""
    return [*cases(name, made, arrived, loop), *column_cases(name, made, arrived, loop)]


def measured(given: list[Case], rounds: int) -> list[dict[str, Any]]:
    """Events per second of processor time, baselines interleaved; ``ratio``: how many times as fast as the baseline."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name, *_ in given}
    for _ in range(rounds):
        for name, _, work, loop in given:
            times[name].append((timed(work), timed(loop)))
    entries = []
    for name, events, *_ in given:
        value, baseline = (events / median(side) for side in zip(*times[name], strict=True))
        ratio = median(loop / work for work, loop in times[name])
        entries.append({"name": name, "value": value, "unit": "events/s", "baseline": baseline, "ratio": ratio})
    return entries


def timed(work: Callable[[], Any]) -> float:
    """Processor time of a call, in seconds."""
    gc.collect()
    started = time.process_time()
    work()
    return time.process_time() - started
