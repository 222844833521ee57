"""What has arrived for the local detectors since they were last run, as one batch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import compress
from operator import not_

from middleware.broker.ingress.checks import Ingress
from middleware.broker.ingress.seen import skipped
from middleware.broker.log.log_records import PeerKey
from middleware.broker.merge import merged
from middleware.broker.pacing import spacing
from middleware.broker.watermarks.combining import CombinedWatermarks
from middleware.link.codec import (
    MOST_ORDERED,
    BlockHead,
    Drops,
    EventCodec,
    arrival_order_of,
    arrival_order_of_columns,
    arrival_order_of_kept,
    encode,
    name_of,
)
from middleware.link.encoding import encode_delta
from middleware.model.change import Batch, Delta, some_inserts
from middleware.model.event import NEVER, Event

_Block = tuple[BlockHead, bytes, Delta | None, int | None]
"""Head, bytes, changes if they are decoded already, and the arrival index of its payload, if it is known."""


class Inbox:
    """Blocks that wait for the detectors. ``pending``: how many events they hold. ``taken``: how many were handed over."""

    def __init__(self, subscriptions: frozenset[str], codec: EventCodec, drops: Drops, ingress: Ingress) -> None:
        self.pending = self.taken = 0
        self._subscriptions, self._codec, self._drops, self._ingress = subscriptions, codec, drops, ingress
        self._blocks: dict[str, list[_Block]] = {}
        self._came: list[tuple[PeerKey, str, int | None]] = []  # sender, type and least time of each block
        self._taken_from = self._came
        self._next = 0  # the arrival index of the next payload
        self._payloads: dict[PeerKey, tuple[int, int]] = {}  # the last one of each peer: its number, and its arrival index
        self._known: tuple[dict[str, int], int | None] | None = ({}, None)
        self._missing: Collection[str] = ()
        self._version = self._turns = -1
        self._spacing, self._whole_at = spacing(len(subscriptions)), 0

    def put(self, origin: PeerKey, head: BlockHead, block: bytes, delta: Delta | None) -> None:
        """Add a block from a peer, and its changes if they are decoded already."""
        index = self._arrival_index(origin, head) if head.arrival and head.inserts else None
        self._blocks.setdefault(head.type, []).append((head, block, delta, index))
        self.pending += head.count
        self._came.append((origin, head.type, head.oldest))

    def senders(self, name: str, until: int) -> set[PeerKey]:
        """The publishers whose events of a type in the last batch may lie at or before a time. O(blocks)."""
        return {
            origin
            for origin, kind, oldest in self._taken_from
            if kind == name and origin[0] == "publisher" and (oldest is None or oldest <= until)
        }

    def announce_again(self) -> None:
        """Give the detectors what has been promised, though it has not changed."""
        self._known = None

    def _arrival_index(self, origin: PeerKey, head: BlockHead) -> int:
        """The index of a payload in the local order of arrival; its blocks may come in several frames."""
        number, index = self._payloads.get(origin, (0, 0))
        if number != head.arrival:
            index, self._next = self._next, self._next + max(head.inserts, MOST_ORDERED)
            self._payloads[origin] = head.arrival, index
        return index

    def blocks(self) -> Iterator[tuple[BlockHead, bytes]]:
        """The blocks that wait, type by type."""
        return ((head, block) for same in self._blocks.values() for head, block, _, _ in same)

    def take(
        self,
        promises: CombinedWatermarks,
        clock: int | None,
        missing: Collection[str],
        floor: int | None = None,
        now: int | None = None,
    ) -> Batch | None:
        """All blocks, decoded and merged; None if nothing has changed: no events, no watermark, no clock. O(bytes).

        ``floor``: the time from which ended streams resume, if the detectors do not know it yet. ``now``: if given, watermarks
        that merely rise may be left for a later call, so that a step costs O(types that came): see ``due_at``.
        """
        if not self._subscriptions:
            return None
        if now is None or floor is not None or self._known is None or self._is_due(promises, missing, now):
            watermarks = self._watermarks(promises, missing)
            self._version, self._turns, self._missing = promises.version, promises.turns, frozenset(missing)
            self._whole_at = now or 0
            if not self._blocks and self._known == (watermarks, clock) and floor is None:
                return None
            self._known = watermarks, clock
            return Batch(self._taken(), dict(watermarks), clock, floor=floor)
        if not self._blocks:
            return None
        return Batch(self._taken(), self._known[0], clock, is_partial=True)

    def _is_due(self, promises: CombinedWatermarks, missing: Collection[str], now: int) -> bool:
        """Whether all units are to get watermarks and clock: time has passed, or a type opened, ended, or went back."""
        return now - self._whole_at >= self._spacing or promises.turns != self._turns or self._missing != frozenset(missing)

    def due_at(self, promises: CombinedWatermarks, clock: int | None) -> int | None:
        """When ``take`` is to be called again, because it has left watermarks or the clock for later; None if it has not."""
        is_left = self._known is not None and (promises.version != self._version or clock != self._known[1])
        return self._whole_at + self._spacing if self._spacing and self._subscriptions and is_left else None

    def _taken(self) -> dict[str, Delta]:
        """The changes in all blocks, by type; none waits any more."""
        blocks, self._blocks, self.pending = self._blocks, {}, 0
        self._next, self._payloads = 0, {}
        self._taken_from, self._came = self._came, []
        deltas: dict[str, Delta] = {}
        for name, same in blocks.items():
            if net := merged([self._in_arrival_order(each, len(blocks) > 1) for each in same]):
                deltas[name] = net
                self.taken += len(net)
        return deltas

    def _in_arrival_order(self, block: _Block, is_one_of_many: bool) -> Delta:
        """The changes in a block; of several types, with their arrival indexes, if these are known."""
        head, data, known, first = block
        delta = known or self._decoded(head, data)
        if first is None or not is_one_of_many:
            delta.arrival_order = None
        elif delta.given is not None:
            import numpy as np

            own = delta.arrival_order if delta.arrival_order is not None else arrival_order_of_columns(head, delta.inserted)
            delta.arrival_order = np.asarray(own, np.int64) + first
        else:
            indexes = delta.arrival_order or arrival_order_of(head, delta.inserted) or range(delta.inserted)
            delta.arrival_order = [first + index for index in indexes]
        return delta

    def _decoded(self, head: BlockHead, block: bytes) -> Delta:
        """What is in a block from another node. Raw events that came in here, too (their publisher moved), count once."""
        delta = self._codec.decode(head, block, self._drops)
        if not head.raw:
            return delta
        ingress = self._ingress
        if (columns := delta.columns) is not None and (new := ingress.seen.take_columns(columns)) is not None:
            if 0 not in new:
                kept, again = delta, []
            else:
                kept = some_inserts(Delta(columns, arrival_order=arrival_order_of(head, len(new))), map(bool, new))
                again = list(compress(delta.inserts, map(not_, new)))
        else:
            inserts = ingress.seen.take_new(delta.inserts)
            again = skipped(delta.inserts, inserts)
            kept = Delta(
                inserts, delta.revises, delta.retracts, arrival_order=arrival_order_of_kept(head, delta.inserts, inserts)
            )
        if again:
            ingress.came_again(head.type, ((event.ts, event.id, event.source, encode(event)) for event in again))
        for part, data in encode_delta(head.type, kept) if again else [(head, block)]:
            ingress.copies.keep(part, data)
        return kept

    def _watermarks(self, promises: CombinedWatermarks, missing: Collection[str]) -> dict[str, int]:
        values = promises.values
        watermarks = {name: values[name] for name in self._subscriptions if name in values}
        if missing:  # a peer that is still to come may send any of it, too
            watermarks = dict.fromkeys(self._subscriptions - promises.open, NEVER)
        return watermarks


def times_by_type(events: Iterable[Event]) -> dict[str, list[int]]:
    """The times of events, by the name of their type."""
    times: dict[str, list[int]] = {}
    for event in events:
        times.setdefault(name_of(event), []).append(event.ts)
    return times
