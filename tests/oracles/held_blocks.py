"""The readable model of ``native.HeldBlocks``: a sorted list of events."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from middleware.model.event import ORDER, Event


class ModelHeldBlocks:
    """Events of one type that wait until their time has passed."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    def __len__(self) -> int:
        return len(self._events)

    def put(self, events: Iterable[Event], above: int) -> int:
        """Hold the events later than ``above``; returns how many others there are."""
        events = list(events)
        kept = [event for event in events if event.ts > above]
        self._events = sorted(self._events + kept, key=ORDER)
        return len(events) - len(kept)

    def pick(self, ids: Collection[int]) -> list[Event]:
        """Take out the events that have these ids, of whatever source."""
        return self._taken([event.id in ids for event in self._events])

    def first(self) -> Event | None:
        """The first event in total order."""
        return self._events[0] if self._events else None

    def release(self, until: int) -> list[Event]:
        """Take out the events with ts <= ``until``, in total order."""
        return self._taken([event.ts <= until for event in self._events])

    def _taken(self, chosen: list[bool]) -> list[Event]:
        gone = [event for event, is_chosen in zip(self._events, chosen, strict=True) if is_chosen]
        self._events = [event for event, is_chosen in zip(self._events, chosen, strict=True) if not is_chosen]
        return gone
