"""Events as they came first: the latest blocks that came in, as bytes, to distinguish a clash from a repeat.

Keeping a block costs O(1), and no block is looked into before the first repeat comes: then the blocks kept are indexed, once
each, by the identities that they name, or, if they name none, by those in their events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from middleware.link.codec import BlockHead, Run, encode
from middleware.link.columnar import records_of, unpack_columns
from middleware.link.identities import Identities, identities_in
from middleware.model.errors import WireError
from middleware.model.event import Identity

MOST_BYTES = 8 * 2**20
"""Most bytes of blocks that are kept, with _OVERHEAD for each; the oldest go first."""

MOST_READ = 2**20
"""Most bytes of blocks that are read for the repeats of one block; repeats spread over more old blocks are not compared."""

_OVERHEAD = 512
_BUCKET = 6
"""Ids that differ only in this many last bits are looked for together."""

_MOST_OPEN = 2
"""Blocks whose records stay at hand."""

_raws = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_parts = msgspec.msgpack.Decoder(tuple[list[msgspec.Raw], msgspec.Raw, msgspec.Raw, msgspec.Raw]).decode
_row = msgspec.msgpack.Decoder(list).decode
_BAD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, TypeError, WireError)

Copy = tuple[str, int, bytes]
"""Type, ts and record of an event."""

Record = msgspec.Raw | list[Any]
"""The fields of an event, then ts, id, source and level: encoded, or read from columns."""


class _Kept:
    """A block. ``at``: it lies after this offset of the node's log. ``buckets``: where it is found, if it is indexed."""

    __slots__ = ("_found", "at", "block", "buckets", "head", "runs")

    def __init__(self, head: BlockHead, block: bytes, runs: list[Run] | None, at: int) -> None:
        self.head, self.block, self.runs, self.at = head, block, runs, at
        self.buckets: set[tuple[str, int]] | None = None
        self._found: Identities | None = None

    def records(self) -> Sequence[Record]:
        """Those of its new events; none if it passed unread, and is malformed. O(bytes)."""
        try:
            if self.head.columns:
                return records_of(unpack_columns(self.block, self.head.inserts))
            return _raws(self.block) if self.head.plain else _parts(self.block)[0]
        except _BAD:
            return []

    def find_buckets(self) -> set[tuple[str, int]]:
        """The buckets of the identities that it names or, if those cannot be right, of those in its events. O(bytes)."""
        runs = self.runs
        if runs and all(run[1] <= run[2] for run in runs) and sum(run[2] - run[1] + 1 for run in runs) == self.head.inserts:
            return {
                (source, bucket) for source, first, last in runs for bucket in range(first >> _BUCKET, (last >> _BUCKET) + 1)
            }
        self.runs = None
        found = identities_in(self.block, self.head.inserts) if self.head.columns else None  # a 20th of the time of records
        self._found = found if found is not None else Identities.of(map(_identity, self.records()))
        return {(source, number >> _BUCKET) for source, number in self._found.each()}

    def may_have(self, identity: Identity) -> bool:
        """Whether it has this event, by the identities that it names or, if it names none, those in its events."""
        if self._found is not None:
            return self._found.index_of(*identity) is not None
        source, number = identity
        return any(run[0] == source and run[1] <= number <= run[2] for run in self.runs or ())


class _Opened:
    """The events of a block at hand: a look-up costs O(1)."""

    def __init__(self, kept: _Kept) -> None:
        self._type, self._records = kept.head.type, kept.records()
        self._indexes = {_identity(record): index for index, record in enumerate(self._records)}

    def find(self, identity: Identity) -> Copy | None:
        index = self._indexes.get(identity)
        if index is None:
            return None
        record = self._records[index]
        if isinstance(record, list):
            return self._type, record[-4], encode(record)
        return self._type, _row(record)[-4], bytes(record)


def _identity(record: Record) -> Identity | None:
    """None if it is malformed."""
    try:
        ts, number, source, _ = (record if isinstance(record, list) else _row(record))[-4:]
    except _BAD:
        return None
    return (source, number) if source.__class__ is str and number.__class__ is ts.__class__ is int else None


class Copies:
    """See the module. ``at``: the offset of the node's log after which blocks kept from now on lie."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.at = 0
        self._most = most
        self._size = 0
        self._left = MOST_READ
        self._indexed: deque[_Kept] = deque()
        self._fresh: deque[_Kept] = deque()
        """Those that are not indexed yet, the newest."""
        self._index: dict[tuple[str, int], list[_Kept]] = {}
        self._open: dict[_Kept, _Opened] = {}

    def __len__(self) -> int:
        return len(self._indexed) + len(self._fresh)

    def keep(self, head: BlockHead, block: bytes, runs: list[Run] | None = None) -> None:
        """Keep a block that was admitted; ``runs``: the identities it names. O(1) until a repeat comes, then O(runs)."""
        if not head.inserts:
            return
        self._fresh.append(_Kept(head, block, runs, self.at))
        self._size += len(block) + _OVERHEAD
        while self._size > self._most:
            self._drop((self._indexed or self._fresh).popleft())

    @property
    def since(self) -> int | None:
        """The offset of the log after which the blocks kept lie; None if there are none."""
        blocks = self._indexed or self._fresh
        return blocks[0].at if blocks else None

    def begin(self, most: int = MOST_READ) -> None:
        """The repeats of another block are about to be looked for, in so many bytes at most."""
        self._left = most

    @property
    def left(self) -> int:
        """Bytes that may still be read; less than none if the last block was larger."""
        return self._left

    def find(self, source: str, number: int) -> Copy | None:
        """The event that came with this identity, if it is still known. O(1) where repeats come together."""
        identity = (source, number)
        while self._fresh:
            self._enter(self._fresh.popleft())
        for opened in self._open.values():
            if (copy := opened.find(identity)) is not None:
                return copy
        for kept in self._index.get((source, number >> _BUCKET), ()):
            if kept not in self._open and kept.may_have(identity) and (copy := self._look_into(kept, identity)) is not None:
                return copy
        return None

    def _look_into(self, kept: _Kept, identity: Identity) -> Copy | None:
        """O(bytes), unless that would be too much."""
        if self._left <= 0:
            return None
        self._left -= len(kept.block) + _OVERHEAD
        while len(self._open) >= _MOST_OPEN:
            del self._open[next(iter(self._open))]
        self._open[kept] = opened = _Opened(kept)
        return opened.find(identity)

    def _enter(self, kept: _Kept) -> None:
        self._indexed.append(kept)
        kept.buckets = kept.find_buckets()
        for bucket in kept.buckets:
            self._index.setdefault(bucket, []).append(kept)

    def _drop(self, kept: _Kept) -> None:
        self._size -= len(kept.block) + _OVERHEAD
        self._open.pop(kept, None)
        for bucket in kept.buckets or ():
            same = self._index[bucket]
            same.remove(kept)
            if not same:
                del self._index[bucket]

    def check(self) -> None:
        assert self._size == sum(len(kept.block) + _OVERHEAD for kept in (*self._indexed, *self._fresh))
        assert self._size <= self._most or not self
        assert all(kept.buckets is not None for kept in self._indexed)
        assert all(kept.buckets is None for kept in self._fresh)
        assert {kept for same in self._index.values() for kept in same} <= set(self._indexed)
