"""The barrier at a sink: holds events back until nothing can change them, and lets each go once, in total order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from heapq import heappop, heappush

from middleware.broker.routing import wanted
from middleware.model.change import Batch, Delta
from middleware.model.event import END, IDENTITY, NEVER, ORDER, Event, Identity, Order


class Barrier:
    """Events of the subscribed types, final ones only, each once, in total order.

    ``watermark``
        everything up to it has been released: the least watermark of the subscribed types. A type subscribed by its exact
        name counts from the start, a type covered by a pattern from its first appearance. It goes back only from END, to the
        newest event released, when streams that had ended go on (``Batch.ground``).
    ``violations``
        changes to events that were final already, by kind. They are not released; a stream that keeps its promises has none.
    """

    def __init__(self, patterns: Collection[str]) -> None:
        self.watermark = NEVER
        self.violations: Counter[str] = Counter()
        self._patterns = frozenset(patterns)
        self._promised = {name: NEVER for name in patterns if not name.endswith("*")}
        self._held: dict[Identity, Event] = {}
        self._heap: list[Order] = []
        self._newest = NEVER

    def __len__(self) -> int:
        """How many events are held back."""
        return len(self._held)

    def take(self, batch: Batch) -> list[Event]:
        """Take changes, then watermarks; return the events that are final now. O(log n) per change."""
        if batch.ground is not None:
            self._go_on()
        for name in batch.deltas.keys() | batch.watermarks.keys():
            if name not in self._promised and wanted(self._patterns, name):
                self._promised[name] = NEVER
        for delta in batch.deltas.values():
            self._retract(delta)
        for delta in batch.deltas.values():
            self._insert(delta)
        for name, until in batch.watermarks.items():
            if until > self._promised.get(name, until):
                self._promised[name] = until
        self.watermark = max(self.watermark, min(self._promised.values(), default=NEVER))
        return self._released()

    def _go_on(self) -> None:
        """A new era: streams that end in it say so again, and nothing comes that is as old as what was released."""
        self._promised = {name: until if until != END else NEVER for name, until in self._promised.items()}
        if self.watermark == END:
            self.watermark = self._newest

    def __contains__(self, identity: object) -> bool:
        """Whether an event is held back."""
        return identity in self._held

    def forget(self) -> int:
        """Drop the events held back, because changes to them are lost; returns how many they were."""
        count = len(self._held)
        self._held.clear()
        self._heap.clear()
        return count

    def _retract(self, delta: Delta) -> None:
        for event in delta.retracts:
            held = self._held.get(IDENTITY(event))
            if held is None or held.__class__ is not event.__class__:
                self.violations["retraction of what is final or unknown"] += 1
            else:
                del self._held[IDENTITY(event)]

    def _insert(self, delta: Delta) -> None:
        for old, new in delta.revises:
            if self._held.pop(IDENTITY(old), None) is None:
                self.violations["revision of what is final or unknown"] += 1
            else:
                self._hold(new)
        for event in delta.inserts:
            self._hold(event)

    def _hold(self, event: Event) -> None:
        if event.ts <= self.watermark:
            self.violations["event at or below the watermark promised"] += 1
            return
        self._held[IDENTITY(event)] = event
        heappush(self._heap, ORDER(event))

    def _released(self) -> list[Event]:
        heap, held, free = self._heap, self._held, list[Event]()
        while heap and heap[0][0] <= self.watermark:
            order = heappop(heap)
            event = held.get((order[2], order[3]))
            if event is not None and ORDER(event) == order:  # else retracted or revised since
                free.append(event)
                self._newest = event.ts
                del held[IDENTITY(event)]
        return free
