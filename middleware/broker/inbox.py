"""What has arrived for the local detectors since they were last run, as one batch."""

from __future__ import annotations

from collections.abc import Collection

from middleware.broker.ingress.checks import Ingress
from middleware.broker.ingress.seen import left_out
from middleware.broker.merge import merged
from middleware.broker.watermarks.combining import CombinedWatermarks
from middleware.link.codec import BlockHead, Drops, EventCodec, encode, encode_delta
from middleware.model.change import Batch, Delta
from middleware.model.event import NEVER


class Inbox:
    """Blocks that wait for the detectors. ``pending``: how many events they hold. ``taken``: how many were handed over."""

    def __init__(self, subscriptions: frozenset[str], codec: EventCodec, drops: Drops, ingress: Ingress) -> None:
        self.pending = self.taken = 0
        self._subscriptions, self._codec, self._drops, self._ingress = subscriptions, codec, drops, ingress
        self._blocks: dict[str, list[tuple[BlockHead, bytes, Delta | None]]] = {}
        self._known: tuple[dict[str, int], int | None] = ({}, None)

    def put(self, head: BlockHead, block: bytes, delta: Delta | None) -> None:
        """Add a block, and its changes if they are decoded already."""
        self._blocks.setdefault(head.type, []).append((head, block, delta))
        self.pending += head.count

    def take(
        self, promises: CombinedWatermarks, clock: int | None, missing: Collection[str], ground: int | None = None
    ) -> Batch | None:
        """All blocks, decoded and merged; None if nothing has changed: no events, no watermark, no clock. O(bytes).

        ``ground``: the time from which ended streams go on, if the detectors are to be told.
        """
        if not self._subscriptions:
            return None
        watermarks = self._watermarks(promises, missing)
        if not self._blocks and self._known == (watermarks, clock) and ground is None:
            return None
        blocks, self._blocks, self.pending, self._known = self._blocks, {}, 0, (watermarks, clock)
        deltas: dict[str, Delta] = {}
        for name, same in blocks.items():
            if net := merged([delta or self._decoded(head, block) for head, block, delta in same]):
                deltas[name] = net
                self.taken += len(net)
        return Batch(deltas, dict(watermarks), clock, ground=ground)

    def _decoded(self, head: BlockHead, block: bytes) -> Delta:
        """What is in a block from another node. Raw events that came in here, too (their publisher moved), count once."""
        delta = self._codec.decode(head, block, self._drops)
        if not head.raw:
            return delta
        ingress = self._ingress
        inserts = ingress.seen.take_new(delta.inserts)
        again = left_out(delta.inserts, inserts)
        if again:
            ingress.came_again(head.type, ((event.ts, event.id, event.source, encode(event)) for event in again))
        kept = Delta(inserts, delta.revises, delta.retracts)
        for part, data in encode_delta(head.type, kept) if again else [(head, block)]:
            ingress.copies.keep(part, data)
        return kept

    def _watermarks(self, promises: CombinedWatermarks, missing: Collection[str]) -> dict[str, int]:
        values = promises.values
        watermarks = {name: values[name] for name in self._subscriptions if name in values}
        if missing:  # a peer that is still to come may send any of it, too
            watermarks = dict.fromkeys(self._subscriptions - promises.open, NEVER)
        return watermarks
