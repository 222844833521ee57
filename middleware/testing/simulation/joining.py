"""Sinks that come in the midst of a simulated world, and what holds for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from middleware.model.event import NEVER, Event
from middleware.testing.simulation.plans.world_plan import SinkPlan
from middleware.testing.simulation.promise_watch import WatchedSink
from middleware.testing.simulation.world_sources import WorldSource

_MARGIN = 20
"""Results at most this much later (ns) than the latest event may rest on nothing newer."""


class Joiners:
    """The sinks that join a world, each with the latest time that was sent before all nodes knew it."""

    def __init__(self, plans: Iterable[SinkPlan], make: Callable[[str, SinkPlan], WatchedSink]) -> None:
        self._to_come, self._make = list(plans), make
        self._leaving: list[tuple[int, WatchedSink]] = []
        self._here: list[tuple[WatchedSink, int]] = []

    @property
    def sinks(self) -> list[WatchedSink]:
        """The subscribers that have joined."""
        return [sink for sink, _ in self._here]

    def step(self, passed: int, sources: Iterable[WorldSource]) -> None:
        """Let those come, and leave, that are due ``passed`` ns after the first event."""
        while self._to_come and self._to_come[0].joins <= passed:
            plan = self._to_come.pop(0)
            sink = self._make(f"joiner{len(self._here)}", plan)
            self._here.append((sink, NEVER))
            if plan.leaves:
                self._leaving.append((plan.joins + plan.leaves, sink))
        for due, sink in self._leaving:
            if due <= passed:
                sink.link.bye("has read enough")
        self._leaving = [(due, sink) for due, sink in self._leaving if due > passed]
        if any(not sink.ready for sink, _ in self._here):
            latest = max((each.event.ts for source in sources for each in source.so_far), default=NEVER)
            self._here = [(sink, before if sink.ready and before != NEVER else latest) for sink, before in self._here]

    def check(self, expected: list[Event], is_complete: bool) -> Counter[str]:
        """Check that their finals are right and in order and, if ``is_complete``, that all are there that follow from later
        events. Returns what happened."""
        for sink, before in self._here:
            assert not sink.drops, f"{sink.name} dropped {dict(sink.drops)}"
            assert not sink.violations, f"{sink.name}: {sink.violations}"
            known, is_due = set(sink.finals), is_complete and not sink.lacks and sink.link.closed is None
            due = [event for event in expected if event in known or (is_due and event.ts > before + _MARGIN)]
            extra, missing = (
                [event for event in sink.finals if event not in due],
                [event for event in due if event not in known],
            )
            assert sink.finals == due, f"finals of {sink.name}: missing {missing[:2]}, not expected {extra[:2]}"
        return Counter(joined=len(self._here))
