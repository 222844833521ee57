"""What publishers send is checked where it enters: raw events of known types, each (source, id) once."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec

from middleware.change import Delta
from middleware.event import MAX_TS, MIN_TS, EventTypes
from middleware.pubsub.codec import BlockHead, Drops, EventCodec, encode, encode_delta
from middleware.pubsub.seen import SeenIds

_identities = attrgetter("source", "id")
_rows = msgspec.msgpack.Decoder(list[list[Any]]).decode

Admitted = tuple[BlockHead, bytes, Delta | None]
"""A block that may go on, and the changes in it if they had to be decoded."""


class Ingress:
    """Admits blocks from publishers. Events that were seen before, or may not come from outside, are dropped and counted.

    A block that names the identities it holds, all of them new, passes unread; O(runs). Any other is decoded; O(events).
    """

    def __init__(self, types: EventTypes, codec: EventCodec, drops: Drops) -> None:
        self.seen = SeenIds()
        self._types, self._codec, self._drops = types, codec, drops

    def admit(self, head: BlockHead, block: bytes, decode: bool) -> list[Admitted]:
        """What of the block may go on; ``decode``: the changes themselves are wanted here, too."""
        runs, head.runs, head.raw = head.runs, None, True
        if head.type not in self._types and len(self._types):
            self._drops["unknown type"] += max(head.count, 1)
            return []
        if runs and not decode and head.plain and self._trusted(head, runs) and self.seen.add_runs(runs):
            return [(head, block, None)]
        if head.type not in self._types:
            return self._admit_unknown(head, block)
        dropped = self._drops.total()
        delta = self._codec.decode(head, block, self._drops)
        fresh = self._fresh(delta)
        if not fresh:
            return []
        if self._drops.total() == dropped:
            return [(head, block, fresh)]
        blocks = encode_delta(head.type, fresh, raw=True)
        if len(blocks) == 1:
            return [(*blocks[0], fresh)]
        return [(part, data, self._codec.decode(part, data, self._drops)) for part, data in blocks]

    def _trusted(self, head: BlockHead, runs: list[tuple[str, int, int]]) -> bool:
        """Whether the identities named can be those of the block's events."""
        count = 0
        for source, first, last in runs:
            if not source:
                return False
            count += last - first + 1
        return count == head.inserts

    def _fresh(self, delta: Delta) -> Delta:
        """Without repeats, and without changes to events that never came. O(changes)."""
        seen, drops = self.seen, self._drops
        new = [event for event in delta.inserts if event.source and seen.add(event.source, event.id)]
        if len(new) < len(delta.inserts):
            nameless = sum(not event.source for event in delta.inserts)
            if nameless:
                drops["no source"] += nameless
            if repeats := len(delta.inserts) - len(new) - nameless:
                drops["duplicate"] += repeats
        if not delta.revises and not delta.retracts:
            return Delta(new)
        revises = [pair for pair in delta.revises if _identities(pair[0]) == _identities(pair[1]) in seen]
        retracts = [event for event in delta.retracts if _identities(event) in seen]
        if strays := len(delta.revises) - len(revises) + len(delta.retracts) - len(retracts):
            drops["change to an event never seen"] += strays
        return Delta(new, revises, retracts)

    def _admit_unknown(self, head: BlockHead, block: bytes) -> list[Admitted]:
        """A broker that was told no types still looks for duplicates: identities stand at the end of every record."""
        try:
            rows = _rows(block) if head.plain else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            rows = None
            if head.plain:
                self._drops["malformed block"] += max(head.count, 1)
                return []
        if rows is None:
            return [(head, block, None)]  # revisions and retractions are checked by who knows the type
        kept = self._admit_rows(rows)
        if not kept:
            return []
        head.inserts = len(kept)
        return [(head, block if len(kept) == len(rows) else encode(kept), None)]

    def _admit_rows(self, rows: list[list[Any]]) -> list[list[Any]]:
        """The rows that are events, each for the first time: (..., ts, id, source, level) with level 0."""
        kept = []
        malformed = 0
        adders: dict[str, Callable[[int], bool]] = {}
        for row in rows:
            if len(row) >= 4:
                ts, number, source, level = row[-4:]
                if (
                    source.__class__ is str
                    and source
                    and number.__class__ is ts.__class__ is int
                    and MIN_TS < ts < MAX_TS
                    and level.__class__ is int
                    and not level
                ):
                    add = adders.get(source)
                    if add is None:
                        add = adders[source] = self.seen.of(source).add
                    if add(number):
                        kept.append(row)
                    continue
            malformed += 1
        if malformed:
            self._drops["malformed event"] += malformed
        if repeats := len(rows) - len(kept) - malformed:
            self._drops["duplicate"] += repeats
        return kept
