"""The barrier at a sink: holds events back until nothing can change them, and lets each go once, in total order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from middleware.broker.routing import wanted
from middleware.delivery.held_events import HeldEvents
from middleware.model.change import Batch, Delta
from middleware.model.event import END, NEVER, Event


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
        self._held = HeldEvents()
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
        return count

    def _retract(self, delta: Delta) -> None:
        for event in delta.retracts:
            if not self._held.discard(event):
                self.violations["retraction of what is final or unknown"] += 1

    def _insert(self, delta: Delta) -> None:
        for old, new in delta.revises:
            if self._held.discard(old, of_any_type=True):
                self._hold([new])
            else:
                self.violations["revision of what is final or unknown"] += 1
        self._hold(delta.inserts)

    def _hold(self, events: list[Event]) -> None:
        if refused := self._held.hold(events, self.watermark):
            self.violations["event at or below the watermark promised"] += refused

    def _released(self) -> list[Event]:
        free: list[Event] = self._held.release(self.watermark)
        if free:
            self._newest = free[-1].ts
        return free

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_held": self._held.events()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._held = HeldEvents()
        self._held.hold(state["_held"], NEVER)
