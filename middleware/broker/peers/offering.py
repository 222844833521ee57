"""The Interest of a node, which it announces to the others: subscriptions, types that it may send, and its generation."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from middleware.broker.log.null_log import AnyLog
from middleware.broker.peers.peers import Peer
from middleware.broker.routing import RoutingTable, fitted
from middleware.broker.watermarks.tracker import WatermarkTracker
from middleware.link.codec import MOST_NAME_BYTES, MOST_TYPES, Interest


class Offering:
    """See the module. ``interest``: the last one made; ``is_stale``: it may have changed since."""

    def __init__(self, subscriptions: frozenset[str], publications: frozenset[str]) -> None:
        self.interest, self.is_stale = Interest(0), True
        self._subscriptions, self._publications = subscriptions, sorted(publications)

    def current(
        self,
        peers: Collection[Peer],
        table: RoutingTable[Peer],
        log: AnyLog,
        tracker: WatermarkTracker,
        paused: frozenset[str],
    ) -> Interest:
        """The interest, under a new number if it has changed."""
        if not self.is_stale:
            return self.interest
        self.is_stale = False
        subscribed = table.patterns([peer for peer in peers if peer.role == "subscriber"]) | self._subscriptions
        subscribed |= log.subscriptions()
        log.subscribe_only(subscribed)
        named, full = (fitted(patterns, MOST_TYPES, MOST_NAME_BYTES) for patterns in (subscribed, paused))
        now = Interest(0, named, "block", sorted(tracker.to_come()), self._publications, full, keeps=log.keeps)
        generations = tracker.generations
        now.generation, now.reached, now.backdate = generations.number, generations.reached, generations.backdate
        now.floor, now.before = generations.floor if generations.number else None, generations.before
        if self.interest.number == 0 or replace(self.interest, number=0) != now:
            self.interest = replace(now, number=self.interest.number + 1)
        return self.interest


def with_log(interest: Interest, peer: Peer, ever: Collection[str]) -> Interest:
    """The interest for a node that is served from the log, or may yet be: it also names the types that come from there.

    ``ever``: raw types that were ever sent here.

    Otherwise the node would not wait for types of publishers that have left, and call final what the log is about to change.
    """
    if peer.role != "node" or (peer.begun and peer.behind is None):
        return interest
    logged = sorted({*ever}.difference(interest.raw))
    return replace(interest, logged=logged) if logged else interest
