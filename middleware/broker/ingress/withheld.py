"""Events that wait where they came in, until others bear out their times (see ``sources``). Pure."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from middleware.broker.ingress.checks import RejectedEvent
from middleware.broker.log.log_records import PeerKey
from middleware.link.codec import BlockHead, encode
from middleware.model.event import END, Identity

MOST_EVENTS = 10_000
"""Events of one publisher that may wait."""

MOST_BYTES = 64 * 1024 * 1024
"""Bytes that may wait at a node."""

_EVENT_BYTES = 300
"""What one event that waits takes beside its record."""

WaitingKey = tuple[int, str, int]
"""(ts, source, id) of an event that waits."""


class Waiting:
    """The events of one publisher that wait, in order of time, and its promises as it made them.

    ``least``: by type, the time of the first event that waits. ``promised``: what the publisher promised, if less counts now;
    ``counted``: that less, as it was last announced.
    """

    __slots__ = ("counted", "events", "least", "order", "promised")

    def __init__(self) -> None:
        self.order: list[WaitingKey] = []
        self.events: dict[Identity, RejectedEvent] = {}
        self.least: dict[str, int] = {}
        self.promised: dict[str, int] = {}
        self.counted: dict[str, int] = {}


class WaitingRoom:
    """Events and promises that wait, by publisher. ``leaving``: publishers that left and whose last events still wait."""

    def __init__(self) -> None:
        self._of: dict[PeerKey, Waiting] = {}
        self._bytes = 0
        self.leaving: set[PeerKey] = set()

    def __bool__(self) -> bool:
        return bool(self._of)

    @property
    def keys(self) -> list[PeerKey]:
        """The publishers of which something waits."""
        return list(self._of)

    def of(self, key: PeerKey) -> Waiting:
        """The events and promises of a publisher that wait; empty if there are none."""
        return self._of.get(key) or Waiting()

    def fits(self, key: PeerKey, event: RejectedEvent) -> bool:
        """Whether there is room for one more event of a publisher."""
        return len(self.of(key).order) < MOST_EVENTS and self._bytes + _size(event) <= MOST_BYTES

    def is_over(self, key: PeerKey) -> bool:
        """Whether more waits of a publisher than there is room for."""
        waiting = self._of.get(key)
        return waiting is not None and bool(waiting.order) and (len(waiting.order) > MOST_EVENTS or self._bytes > MOST_BYTES)

    def add(self, key: PeerKey, event: RejectedEvent) -> bool:
        """An event is to wait. Returns whether it is new: one that came before with the same identity waits already."""
        waiting = self._of.setdefault(key, Waiting())
        identity = event.source, event.id
        if identity in waiting.events:
            return False
        waiting.events[identity] = event
        waiting.least[event.type] = min(event.ts, waiting.least.get(event.type, END))
        insort(waiting.order, (event.ts, event.source, event.id))
        self._bytes += _size(event)
        return True

    def take(self, key: PeerKey, count: int) -> list[RejectedEvent]:
        """Take out the first events of a publisher. O(its events)."""
        waiting = self._of[key]
        taken = [waiting.events.pop((source, number)) for _, source, number in waiting.order[:count]]
        del waiting.order[:count]
        self._bytes -= sum(map(_size, taken))
        waiting.least = {}
        for event in waiting.events.values():
            waiting.least[event.type] = min(event.ts, waiting.least.get(event.type, END))
        self._clear(key)
        return taken

    def promises(self, key: PeerKey, promised: Mapping[str, int], counted: Mapping[str, int]) -> None:
        """A publisher has promised this, of which less counts now. Nothing: all that it promised counts."""
        waiting = self._of.setdefault(key, Waiting())
        waiting.promised, waiting.counted = dict(promised), dict(counted)
        self._clear(key)

    def _clear(self, key: PeerKey) -> None:
        if not self._of[key].order and not self._of[key].promised:
            del self._of[key]

    def counts(self) -> dict[str, tuple[int, int]]:
        """By name of their publisher, how many events wait, and the time of the first."""
        return {key[1]: (len(each.order), each.order[0][0]) for key, each in self._of.items() if each.order}

    def state(self) -> dict[str, Any]:
        """The whole state as values, for ``restore``."""
        return {
            "of": {
                key: (list(each.events.values()), dict(each.promised), dict(each.counted)) for key, each in self._of.items()
            },
            "leaving": set(self.leaving),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Return to ``state``."""
        for key, (events, *promises) in state["of"].items():
            for event in events:
                self.add(key, event)
            self.promises(key, *promises)
        self.leaving = set(state["leaving"])

    def check(self) -> None:
        assert all(each.order or each.promised for each in self._of.values())
        for each in self._of.values():
            assert each.order == sorted((event.ts, *identity) for identity, event in each.events.items())
        assert self._bytes == sum(_size(event) for each in self._of.values() for event in each.events.values())


def _size(event: RejectedEvent) -> int:
    return len(event.record) + _EVENT_BYTES


def blocks_of(events: Iterable[RejectedEvent]) -> list[tuple[BlockHead, bytes]]:
    """The blocks of events that waited, one for each type."""
    by_type: dict[str, list[RejectedEvent]] = {}
    for event in events:
        by_type.setdefault(event.type, []).append(event)
    return [
        (
            BlockHead(name, len(same), oldest=min(e.ts for e in same), newest=max(e.ts for e in same)),
            encode([msgspec.Raw(event.record) for event in same]),
        )
        for name, same in by_type.items()
    ]
