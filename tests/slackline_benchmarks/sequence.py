"""``slackline bench sequence``: sequence queries over disorder against a plain Python loop, and what disorder costs."""

from __future__ import annotations

import gc
import random
import time
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import compress
from statistics import median
from typing import Any, ClassVar

from detectors.sequence.native import specification
from detectors.sequence.operator import SequenceQuery
from detectors.sequence.plan import Plan
from middleware import native
from middleware.model.change import Delta
from middleware.model.errors import SlacklineError
from middleware.model.event import END, NEVER, Event
from middleware.model.time import MILLISECOND, SECOND
from middleware.ordering.policies import Policies
from middleware.ordering.unit import Unit

EVENTS = 1_000_000
TAGS = 1_000
LATE = 0.1
DELAY = 500
"""Late events come up to this many milliseconds late; there is one event a millisecond."""

WITHIN = 2 * SECOND
BATCH = 256


class A(Event, frozen=True):
    namespace: ClassVar[str] = "bench"
    tag: int


class B(Event, frozen=True):
    namespace: ClassVar[str] = "bench"
    tag: int


class C(Event, frozen=True):
    namespace: ClassVar[str] = "bench"
    tag: int


class D(Event, frozen=True):
    namespace: ClassVar[str] = "bench"
    tag: int


class E(Event, frozen=True):
    namespace: ClassVar[str] = "bench"
    tag: int


class F(Event, frozen=True):
    namespace: ClassVar[str] = "bench"
    tag: int


class Found(Event, frozen=True):
    namespace: ClassVar[str] = "bench"
    tag: int
    first: int
    last: int


TYPES = (A, B, C, D, E, F, Found)
RETURN = "WITHIN 2 s RETURN Found(a.tag AS tag, a.ts AS first, c.ts AS last)"
NEGATION = f"EVENT SEQ(A a, !(B b), C c) WHERE a.tag = b.tag AND b.tag = c.tag {RETURN}"
PLAIN = f"EVENT SEQ(A a, B b, C c) WHERE a.tag = b.tag AND b.tag = c.tag {RETURN}"


def bench_sequence(rounds: int) -> list[dict[str, Any]]:
    """Events per second of both queries, results early, in a unit that speculates (alpha = 0); baseline: the plain loop.

    ``sequence.overhead`` is processor time per event (ns) of input in order, with all that disorder asks for against the
    same stacks without it (append semantics, construction for the last step alone).
    """
    if not native.AVAILABLE:
        raise SlacklineError("bench sequence measures the native core: build it (cargo), or unset SLACKLINE_NATIVE=0")
    ordered = events()
    arrivals = delayed(ordered)
    cases: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "sequence.negation": (_unit(NEGATION, arrivals), lambda: by_hand_negation(arrivals)),
        "sequence.plain": (_unit(PLAIN, arrivals), lambda: by_hand_plain(arrivals)),
    }
    for ours, by_hand in cases.values():
        if sorted(ours()) != sorted(by_hand()):
            raise SlacklineError("the benchmark's query and its loop by hand do not find the same: one of them is wrong")
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in (*cases, "sequence.overhead")}
    plan = SequenceQuery(PLAIN, TYPES, "Bench").plan
    plain: list[Event] = [event for event in ordered if isinstance(event, (A, B, C))]
    for _ in range(rounds):
        for name, (ours, by_hand) in cases.items():
            times[name].append((timed(ours), timed(by_hand)))
        for _ in range(3):  # short runs, small difference
            times["sequence.overhead"].append((timed(core_run(plan, plain, False)), timed(core_run(plan, plain, True))))
    entries = [_speed(name, times[name]) for name in cases]
    value, baseline = (median(side) / len(plain) * 1e9 for side in zip(*times["sequence.overhead"], strict=True))
    ratio = median(ours / bare for ours, bare in times["sequence.overhead"])
    return [*entries, {"name": "sequence.overhead", "value": value, "unit": "ns/event", "baseline": baseline, "ratio": ratio}]


def _speed(name: str, pairs: list[tuple[float, float]]) -> dict[str, Any]:
    ours, by_hand = (EVENTS / median(side) for side in zip(*pairs, strict=True))
    ratio = median(hand / own for own, hand in pairs)
    return {"name": name, "value": ours, "unit": "events/s", "baseline": by_hand, "ratio": ratio}


def events(count: int = EVENTS, seed: int = 1) -> list[Event]:
    """Events in order: six types, a thousand tags, one a millisecond."""
    rng = random.Random(seed)
    return [
        rng.choice(TYPES[:6])(rng.randrange(TAGS), ts=number * MILLISECOND, id=number, source="bench")
        for number in range(count)
    ]


def delayed(ordered: list[Event], late: float = LATE, most: int = DELAY, seed: int = 2) -> list[Event]:
    """The same in an order of arrival in which a share ``late`` comes up to ``most`` ms late."""
    rng = random.Random(seed)
    arrival = [event.ts + (rng.randrange(most) * MILLISECOND if rng.random() < late else 0) for event in ordered]
    return [event for _, event in sorted(zip(arrival, ordered, strict=True), key=lambda pair: pair[0])]


def _unit(query: str, arrivals: list[Event]) -> Callable[[], list[tuple[int, int, int]]]:
    """A run of a query in a unit of its own, as a node runs it; what stands in the end, as (tag, first, last)."""
    batches = [arrivals[at : at + BATCH] for at in range(0, len(arrivals), BATCH)]
    operator = SequenceQuery(query, TYPES, "Bench")
    wanted = frozenset(operator.subscribes)

    def run() -> list[tuple[int, int, int]]:
        unit = Unit("Bench", operator, 1, Policies(alpha=0.0))
        standing: dict[int, Any] = {}
        for batch in batches:
            routed = list(
                compress(batch, map(wanted.__contains__, map(type, batch)))
            )  # a broker hands on what is subscribed to
            for delta in unit.push(Delta(routed)):
                for event in delta.retracts:
                    del standing[event.id]
                standing.update({event.id: event for event in delta.inserts})
        for delta in unit.push(Delta(), promised=END, is_open=False):
            standing.update({event.id: event for event in delta.inserts})
        return [(event.tag, event.first, event.last) for event in standing.values()]

    return run


def core_run(plan: Plan, ordered: list[Event], in_order: bool) -> Callable[[], None]:
    """The native core alone, over input in order; with ``in_order`` without all that disorder asks for."""
    batches = [ordered[at : at + BATCH] for at in range(0, len(ordered), BATCH)]

    def run() -> None:
        core = native.SequenceMatcher(specification(plan, "Bench", 1), lambda event, reason: None, in_order)
        for batch in batches:
            newest = batch[-1].ts
            core.apply(batch, [], newest, newest if in_order else max(NEVER, newest - DELAY * MILLISECOND))

    return run


def in_time(arrivals: list[Event]) -> Any:
    """The loop that anyone writes: a heap that holds events back for the slack, and gives them out in order."""
    heap: list[tuple[int, int, Event]] = []
    slack, clock = DELAY * MILLISECOND, 0
    for event in arrivals:
        if event.__class__ is not A and event.__class__ is not B and event.__class__ is not C:
            continue
        ts = event.ts
        heappush(heap, (ts, event.id, event))
        if ts > clock:
            clock = ts
            until = clock - slack
            while heap and heap[0][0] <= until:
                yield heappop(heap)[2]
    while heap:
        yield heappop(heap)[2]


def by_hand_negation(arrivals: list[Event]) -> list[tuple[int, int, int]]:
    """SEQ(A a, !(B b), C c) by tag, by hand: lists of A and B by tag, pruned as they are read."""
    seen: dict[int, tuple[deque[int], deque[int]]] = {}
    found: list[Any] = []
    for event in in_time(arrivals):
        lists = seen.get(event.tag)
        if lists is None:
            lists = seen[event.tag] = (deque(), deque())
        first, between = lists
        if event.__class__ is A:
            first.append(event.ts)
        elif event.__class__ is B:
            between.append(event.ts)
        else:
            ts = event.ts
            while first and first[0] < ts - WITHIN:
                first.popleft()
            while between and between[0] < ts - WITHIN:
                between.popleft()
            last = between[-1] if between else NEVER  # what came before the last B is ruled out
            found += [
                Found(event.tag, start, ts, ts=ts, id=len(found), source="hand", level=1) for start in first if start >= last
            ]
    return [(each.tag, each.first, each.last) for each in found]


def by_hand_plain(arrivals: list[Event]) -> list[tuple[int, int, int]]:
    """SEQ(A a, B b, C c) by tag, by hand."""
    seen: dict[int, tuple[deque[int], deque[int]]] = {}
    found: list[Any] = []
    for event in in_time(arrivals):
        lists = seen.get(event.tag)
        if lists is None:
            lists = seen[event.tag] = (deque(), deque())
        first, second = lists
        if event.__class__ is A:
            first.append(event.ts)
        elif event.__class__ is B:
            second.append(event.ts)
        else:
            ts = event.ts
            while first and first[0] < ts - WITHIN:
                first.popleft()
            while second and second[0] < ts - WITHIN:
                second.popleft()
            found += [
                Found(event.tag, start, ts, ts=ts, id=len(found), source="hand", level=1)
                for middle in second
                for start in first
                if start < middle
            ]
    return [(each.tag, each.first, each.last) for each in found]


def timed(work: Callable[[], Any]) -> float:
    """Processor time of a call, in seconds."""
    gc.collect()
    started = time.process_time()
    work()
    return time.process_time() - started
