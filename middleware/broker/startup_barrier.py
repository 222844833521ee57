"""Until the nodes of the configuration have all been here: nothing is taken from publishers, and output waits for them."""

from __future__ import annotations

from collections.abc import Collection

from middleware.broker.log.null_log import AnyLog
from middleware.broker.watermarks.tracker import WatermarkTracker
from middleware.link.codec import BlockHead
from middleware.model.time import SECOND

GATHER = 30 * SECOND
"""How long a new node waits for the peers in its configuration before it takes anything from publishers. One with a log waits
as long as it takes, once in its life: results that are final without a peer would be wrong with it."""


class StartupBarrier:
    """See the module. ``missing``: names of the nodes that have not been here yet."""

    def __init__(self, names: Collection[str], tracker: WatermarkTracker, log: AnyLog, now: int) -> None:
        self.missing = set(names)
        self._tracker, self._log, self._born = tracker, log, now
        self._early: list[tuple[BlockHead, bytes]] = []
        tracker.gather(bool(self.missing))

    def keep(self, head: BlockHead, block: bytes) -> None:
        """Keep what was made here while nodes are missing: they may subscribe to it later. A log keeps it
        anyway."""
        if self.missing and not self._log.keeps:
            self._early.append((head, block))

    def joined(self, name: str) -> list[tuple[BlockHead, bytes]]:
        """A node has announced its interest; returns the blocks kept for it, if it was missing."""
        if name not in self.missing:
            return []
        early = self._early
        self.exempt([name])
        return early

    def exempt(self, names: Collection[str]) -> None:
        """These nodes are not waited for any more."""
        self.missing -= set(names)
        if not self.missing:
            self._early = []
        self._tracker.gather(bool(self.missing))

    def expire(self, now: int) -> int:
        """Stop waiting for nodes that have not come in time; returns how many. A node with a log waits for ever."""
        count = len(self.missing)
        if not count or self._log.keeps or now - self._born < GATHER:
            return 0
        self.exempt(self.missing)
        return count
