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
        everything up to it has been let go: the least watermark of the subscribed types. A type subscribed by its exact
        name counts from the start, one that a pattern covers from when it is first heard of. It goes back only from END, to the
        newest that was let go, when what had ended goes on (``Batch.ground``).
    ``violations``
        changes to what was final already, by kind. They are not let go; a stream that keeps its promises has none.
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
        """Take changes, then promises; the events that are final now. O(log n) per change."""
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
        """A new era: what has ended in it is to be said again, and nothing comes that is as old as what was let go."""
        self._promised = {name: until if until != END else NEVER for name, until in self._promised.items()}
        if self.watermark == END:
            self.watermark = self._newest

    def __contains__(self, identity: object) -> bool:
        """Whether an event is held back."""
        return identity in self._held

    def forget(self) -> int:
        """Give up what is held back, since what would change it is lost; returns how many events that were."""
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
