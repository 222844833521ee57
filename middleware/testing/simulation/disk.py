"""A disk for simulated nodes: slow, refuses writes when full, and at a crash keeps some of the writes under way.

It can be damaged; the consequences here are those of ``runtime.storage.store`` with real files (decision 026).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from middleware.broker.log.log_records import Record, decode_record, encode_record
from middleware.durability.checkpoint import Piece
from middleware.durability.durable_core import Write

DAMAGES = ("flip a byte", "cut log", "older log", "older folder")
"""The damages of a log while its node is down: a byte of a record changes; the last records are gone, with the
checkpoints among them (the write-ahead file was cut, emptied or removed); the log is an older copy, with today's witness,
or with one as old."""

_CUT = 12
"""The most records that a cut log loses."""


class _Page(msgspec.Struct):
    """A transaction: a record with the offsets it spans, a piece of a checkpoint, or both."""

    number: int = 0
    last: int = 0
    record: bytes | None = None
    pieces: list[Piece] = []
    needed: int = 0
    ready: int = 0
    is_damaged: bool = False


class _Past(NamedTuple):
    """An earlier state of the log."""

    pages: list[_Page]
    checkpoint: tuple[int, list[bytes]] | None
    oldest: int
    witness: int


class Disk:
    """The stored data of one node. It outlives the node.

    ``latency``
        the longest time a write takes, ns. ``is_full``: it refuses all writes. ``epoch``: of the node's last life.
    ``retained``
        how many records are kept that no one needs any more. ``remembers``: whether older copies are kept.
    """

    def __init__(self, line: int, rng: random.Random) -> None:
        self.line = line
        self.epoch = 0
        self.latency = self.retained = 0
        self.is_full = self.remembers = False
        self.oldest = 0
        self._witness = 0
        self._past: list[_Past] = []
        self.lost = 0
        """Records lost in a crash: none of them may have had any effect."""
        self._random = rng
        self._pages: deque[_Page] = deque()
        self._checkpoint: tuple[int, list[bytes]] | None = None
        self._begun: tuple[int, list[bytes]] = (0, [])
        """The pieces of an incomplete checkpoint."""
        self._under_way: deque[_Page] = deque()
        self._new: list[Record] = []

    def write(self, write: Write, now: int) -> None:
        """Begin to store; ``stored`` tells when it is done. Transactions are stored in order."""
        last = max((number for number, *_ in write.record.blocks()), default=write.record.first)
        self._begin(_Page(write.record.number, last, encode_record(write.record), write.pieces, write.needed), now)

    def write_piece(self, piece: Piece, now: int) -> None:
        """Write a further piece of a checkpoint."""
        self._begin(_Page(pieces=[piece]), now)

    def _begin(self, page: _Page, now: int) -> None:
        before = self._under_way[-1].ready if self._under_way else now
        page.ready = max(before, now + self._random.randint(0, self.latency))
        self._under_way.append(page)

    def stored(self, now: int) -> list[Record]:
        """The records stored since the last call, also those of a former life that did not learn of it."""
        while self._under_way and self._under_way[0].ready <= now and not self.is_full:
            self._keep(self._under_way.popleft())
        done, self._new = self._new, []
        return done

    def _keep(self, page: _Page) -> None:
        for piece in page.pieces:
            self._keep_piece(piece)
        if page.record is None:
            return
        self._pages.append(page)
        self._witness = page.number
        self._new.append(decode_record(page.record))
        if self._checkpoint is not None and not page.pieces:  # retention: never what a recovery or a reader may still need
            unneeded = (each for each in self._pages if each.number <= self._checkpoint[0] and each.last <= page.needed)
            for _ in range(sum(1 for _ in unneeded) - self.retained):
                self.oldest = max(self.oldest, self._pages.popleft().last)
        if self.remembers:
            self._past.append(_Past(list(self._pages), self._checkpoint, self.oldest, self._witness))

    def _keep_piece(self, piece: Piece) -> None:
        pieces = self._begun[1] if piece.part else []
        self._begun = (piece.number, [*pieces, piece.data])
        if piece.is_last:
            self._checkpoint = self._begun

    def crash(self) -> None:
        """The node is gone. A prefix of the writes under way was done; the next one is torn, which counts as not begun."""
        for _ in range(self._random.randint(0, len(self._under_way)) if not self.is_full else 0):
            self._keep(self._under_way.popleft())
        self.lost += sum(page.record is not None for page in self._under_way)
        self._under_way.clear()

    # -- damage -------------------------------------------------------------------------------------------------------

    def damage(self, kind: str) -> bool:
        """Do one of DAMAGES to it while its node is down; returns whether there was anything to damage."""
        if kind == "flip a byte":
            if self._pages:
                self._random.choice(self._pages).is_damaged = True
            return bool(self._pages)
        reach = _CUT if kind == "cut log" else len(self._past)
        before = self._past[-reach - 1 : -1]
        if before:
            past = self._random.choice(before)
            self._pages, self._checkpoint, self.oldest = deque(past.pages), past.checkpoint, past.oldest
            self._witness = past.witness if kind == "older folder" else self._witness
            self._begun, self._past = (0, []), []
            self._new.clear()
        return bool(before)

    def examine(self) -> bool:
        """Check the log as a node does at its start; returns whether it lacks its end. Records after damage are dropped."""
        last = self._checkpoint[0] if self._checkpoint is not None else 0
        for index, page in enumerate(self._pages):
            if page.number > last and page.is_damaged:
                while len(self._pages) > index:
                    self._pages.pop()
                break
        return max(last, self._pages[-1].number if self._pages else 0) < self._witness

    def read(self, offset: int, size: int) -> Iterator[Record]:
        """Stored records with blocks after an offset, about ``size`` bytes; see ``Store.read`` for damaged ones."""
        is_begun = False
        for page in self._pages:
            if page.record is not None and page.last > offset:
                if page.is_damaged:
                    if is_begun:
                        return
                    continue
                is_begun = True
                yield decode_record(page.record)
                size -= len(page.record)
                if size <= 0:
                    return

    def checkpoint(self) -> list[bytes] | None:
        """The pieces of the last complete checkpoint."""
        return self._checkpoint[1] if self._checkpoint is not None else None

    def behind_checkpoint(self) -> Iterator[Record]:
        """The records after the checkpoint."""
        number = self._checkpoint[0] if self._checkpoint is not None else 0
        return (decode_record(page.record) for page in self._pages if page.record is not None and page.number > number)
