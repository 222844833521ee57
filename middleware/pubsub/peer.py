"""What a broker knows about one peer: its link, what it wants and offers, and what is waiting to be told to it."""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from middleware.clock import MILLISECOND
from middleware.event import NEVER
from middleware.pubsub.codec import BLOCK_TARGET, BlockHead, Changes, Interest, OnSlow, encode
from middleware.pubsub.link import Link, LinkStatistics
from middleware.pubsub.wire import Parts, Role

Channel = Hashable
"""How the runtime knows where a message comes from or goes to: the name of a dialled node, or the bytes of a router."""

PeerKey = tuple[Role, str]

SPREAD = 20 * MILLISECOND
"""Progress without events travels at most this often, and so do clock marks. News after a quiet time travels at once."""


class PeerStatistics(msgspec.Struct):
    """One peer of a broker. ``slow``: it has no room, and what it reads waits at the source."""

    role: Role
    name: str
    up: bool
    slow: bool
    link: LinkStatistics


class Peer:
    """See the module."""

    def __init__(self, role: Role, name: str, link: Link, channel: Channel, owner: str | None = None) -> None:
        self.role, self.name, self.link, self.channel = role, name, link, channel
        self.owner = owner
        """Whose key it has shown, if there are keys: no one else gets its link."""
        self.key: PeerKey = (role, name)
        self.patterns: frozenset[str] = frozenset()
        self.on_slow: OnSlow = "block"
        self.slow = False
        self.paused: frozenset[str] = frozenset()
        self.offered: frozenset[str] = frozenset()
        """Raw types it sends, if it is a publisher."""
        self.ready_number: int | None = None
        """Number of an Interest that it is to be told about once all nodes know it."""
        self.told_interest = 0
        """Number of the Interest it was last told, 0 if none."""
        self._interest_frame = 0
        self._blocks: list[tuple[BlockHead, bytes]] = []
        self._told_progress: dict[str, int] = {}
        self._told_version = -1
        self._told_clock = NEVER
        self._progress_at = self._clock_at = -SPREAD

    def take(self, block: tuple[BlockHead, bytes]) -> None:
        """Let a block go out with the next frame."""
        self._blocks.append(block)

    def forget_progress(self) -> None:
        """It wants other types from now on, so all of the progress is news to it."""
        self._told_version = -1

    def news_due(self, version: int, clock: int, now: int) -> bool:
        """Whether there is news of progress or clock, and it is time to tell it: with events at once, else each by itself
        as soon as it was not told without events for a while.
        """
        moved, ticked = version != self._told_version, clock > self._told_clock
        if self._blocks:
            return moved or ticked
        return (moved and now - self._progress_at >= SPREAD) or (ticked and now - self._clock_at >= SPREAD)

    def post(self, progress: dict[str, int] | None, version: int, clock: int, now: int) -> None:
        """Send the waiting blocks, and behind them the progress (None: no news) and the clock mark (NEVER: none)."""
        if progress is not None:
            self._told_version = version
            if progress == self._told_progress:
                progress = None
            else:
                self._told_progress = progress
        mark = clock if clock > self._told_clock else None
        if mark is not None:
            self._told_clock = mark
        if not self._blocks:
            self._progress_at = now if progress is not None else self._progress_at
            self._clock_at = now if mark is not None else self._clock_at
        blocks = self._blocks
        if not blocks and progress is None and mark is None:
            return
        self._blocks = []
        start, size = 0, 0
        for at, (_, data) in enumerate(blocks):
            if size and size + len(data) > BLOCK_TARGET:
                self.link.send(_payload(None, None, blocks[start:at]))
                start, size = at, 0
            size += len(data)
        self.link.send(_payload(mark, progress, blocks[start:]))

    def tell_interest(self, interest: Interest) -> None:
        """Send what this node wants and offers."""
        self.told_interest = interest.number
        self._interest_frame = self.link.send([encode(interest)])

    def knows(self, interest: Interest) -> bool:
        """Whether it has taken this Interest in."""
        return self.told_interest == interest.number and self._interest_frame <= self.link.acked

    def statistics(self) -> PeerStatistics:
        """A record of this peer."""
        return PeerStatistics(self.role, self.name, self.link.up, self.slow, self.link.statistics())


def _payload(clock: int | None, progress: dict[str, int] | None, blocks: list[tuple[BlockHead, bytes]]) -> Parts:
    return [encode(Changes(clock, progress, [head for head, _ in blocks])), *(data for _, data in blocks)]
