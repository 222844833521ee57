"""Backpressure by type: which readers have no room, and which sources must therefore wait.

A peer that leaves more than QUEUE_HIGH unread is slow until QUEUE_LOW. The types it reads are *paused*: other nodes are told,
and publishers of these types that are attached here get no further credit. A reader that asked not to be waited for holds no
one up: it is served from the log where there is one, and disconnected where there is none. If what rests on a type at the local
detectors is paused, so is the type; not what other detectors of this node read, or two nodes that read each other's results
would hold each other for ever. So backpressure runs from a slow reader to the sources of what it reads,
and stops nothing else. What is queued for a slow reader is bounded by QUEUE_HIGH and the credit of those sources; if they
are at other nodes, by what they may send until the news reaches them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from middleware.broker.peers import Peer
from middleware.broker.routing import wanted

QUEUE_HIGH = 1024 * 1024
"""Bytes waiting for a peer's credit beyond which it is slow."""

QUEUE_LOW = QUEUE_HIGH // 2
"""Bytes at which a slow peer is slow no more."""


class Pressure:
    """``paused``: patterns of the types that readers at this node have no room for."""

    def __init__(self) -> None:
        self.paused: frozenset[str] = frozenset()

    def update(
        self,
        peers: Collection[Peer],
        rests: Mapping[str, Collection[str]],
        too_soon: bool,
        offset: int = 0,
    ) -> bool:
        """Look at the queues, hold or release the publishers' credit; returns whether ``paused`` has changed. O(peers).

        ``rests``: by type that local detectors read, what they publish that rests on it. ``too_soon``: nothing may be taken
        from publishers yet. ``offset``: of this node's log.
        """
        paused: frozenset[str] = frozenset()
        told: frozenset[str] = frozenset()
        for peer in peers:
            queued = peer.link.queued_bytes
            if peer.on_slow == "disconnect":
                if queued > QUEUE_HIGH:
                    _pass_by(peer, offset)
                peer.slow = False
            else:
                peer.slow = queued > (QUEUE_LOW if peer.slow else QUEUE_HIGH)
            if peer.slow:
                paused |= peer.patterns
            if peer.paused:
                told |= peer.paused
        held = paused | told
        if held:
            paused |= {name for name, made in rests.items() if any(wanted(held, each) for each in made)}
            held |= paused
        for peer in peers:
            if peer.role == "publisher":
                peer.link.held = too_soon or (bool(held) and any(wanted(held, name) for name in peer.offered))
        changed, self.paused = paused != self.paused, paused
        return changed


def _pass_by(peer: Peer, offset: int) -> None:
    """A reader that is not to be waited for leaves too much unread: from here on it is served from the log, at its own pace."""
    if not peer.begun_in_log:
        peer.link.refuse(
            f"too slow: more than {QUEUE_HIGH >> 20} MiB was left unread; its subscription holds nobody up, and this node "
            "keeps no log to serve it from"
        )
    elif peer.behind is None:
        peer.behind = offset
