"""Backpressure by type: which readers have no room, and which sources must therefore wait.

A peer that leaves more than QUEUE_HIGH unread is slow until QUEUE_LOW. The types it reads are *paused*: this node announces
them to the others, and publishers of these types that are attached here get no further credit. A reader that asked not to be
waited for holds no one up: it is served from the log where there is one, and disconnected where there is none. The same happens
to a reader that asked to be waited for, once it has held sources up for ``hold`` and has taken less than LEAST_READ in that
time. If what rests on a type at the local detectors is paused, so is the type; not what other detectors of this node read, or
two nodes that read each other's results would hold each other for ever. So backpressure runs from a slow reader to the sources
of what it reads, and stops nothing else. What is queued for a slow reader is bounded by QUEUE_HIGH and the credit of those
sources; if they are at other nodes, by what they may send until the news reaches them.

An event that a node rejects, or reports as late, costs it more than one that it takes. So it costs its publisher, too: CHARGE
for each such event, in which the publisher gets no further credit. If several publishers are charged at a time, each pays for
all of them: together they never take more of the node's time than one would.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from middleware.broker.log.log_records import PeerKey
from middleware.broker.peers.peers import Peer
from middleware.broker.routing import is_subscribed
from middleware.model.quantities import spoken_duration
from middleware.model.time import MILLISECOND, SECOND

QUEUE_HIGH = 1024 * 1024
"""Bytes waiting for a peer's credit beyond which it is slow."""

QUEUE_LOW = QUEUE_HIGH // 2
"""Bytes at which a slow peer is slow no more."""

LEAST_READ = 64 * 1024
"""Bytes that a slow reader must take within ``hold``, so that sources keep waiting: it may be slow, but not stand still."""

CHARGE = MILLISECOND // 10
"""How long a publisher gets no credit for each event that is rejected or late: about five times what it costs the node."""

MOST_CHARGED = 60 * SECOND
"""The longest time for which a publisher gets no credit for that."""


class Pressure:
    """``paused``: patterns of the types that readers at this node have no room for. ``hold``: how long (ns) sources wait for a
    reader that takes nothing.
    """

    def __init__(self, hold: int) -> None:
        self.hold = hold
        self._charged = 0  # publishers that get no credit at the moment, because of rejected events
        self.paused: frozenset[str] = frozenset()

    def update(
        self,
        peers: Collection[Peer],
        rests: Mapping[str, Collection[str]],
        too_soon: bool,
        offset: int = 0,
        now: int = 0,
        stalled: Collection[PeerKey] = (),
    ) -> bool:
        """Look at the queues, hold or release the publishers' credit; returns whether ``paused`` has changed. O(peers).

        ``rests``: by type that local detectors read, what they publish that rests on it. ``too_soon``: nothing may be taken
        from publishers yet. ``offset``: of this node's log. ``stalled``: publishers of which too much waits already.
        """
        paused: frozenset[str] = frozenset()
        announced: frozenset[str] = frozenset()
        for peer in peers:
            queued = peer.link.queued_bytes
            if peer.on_slow == "disconnect":
                if queued > QUEUE_HIGH:
                    _pass_by(
                        peer, offset, f"more than {QUEUE_HIGH >> 20} MiB was left unread; its subscription holds nobody up"
                    )
                peer.slow = False
            elif queued > (QUEUE_LOW if peer.slow else QUEUE_HIGH):
                self._wait_for(peer, offset, now)
            else:
                peer.slow = False
            if peer.slow:
                paused |= peer.patterns
            if peer.paused:
                announced |= peer.paused
        self._charged = 0
        full = paused | announced
        if full:
            paused |= {name for name, made in rests.items() if any(is_subscribed(full, each) for each in made)}
            full |= paused
        for peer in peers:
            if peer.role == "publisher":
                if peer.charged_until > now:
                    self._charged += 1
                    peer.link.credit_paused = True
                else:
                    is_paused = bool(full) and any(is_subscribed(full, name) for name in peer.offered)
                    peer.link.credit_paused = too_soon or is_paused or peer.key in stalled
        changed, self.paused = paused != self.paused, paused
        return changed

    def charge(self, peer: Peer, count: float, now: int) -> None:
        """Charge a publisher for events that were rejected, or are late: it gets no further credit for a while."""
        if not count:  # they were repeats
            return
        until = max(now, peer.charged_until) + round(count * CHARGE) * max(1, self._charged)
        peer.charged_until = min(until, now + MOST_CHARGED)

    def _wait_for(self, peer: Peer, offset: int, now: int) -> None:
        """A peer has no room: sources wait for it, unless it is a reader that has taken next to nothing for ``hold``."""
        if not peer.slow or peer.link.sent_bytes - peer.read_bytes >= LEAST_READ:
            peer.slow, peer.read_bytes, peer.read_at = True, peer.link.sent_bytes, now
        elif peer.role == "subscriber" and now - peer.read_at >= self.hold:
            peer.slow, peer.on_slow = False, "disconnect"  # until it subscribes again: it gets one budget
            _pass_by(peer, offset, f"sources have waited {spoken_duration(self.hold)} for it, and it took nothing")

    def describe(self, peer: Peer, now: int) -> str:
        """A slow peer, and how long sources wait for it, in words."""
        who = f"{peer.role} {peer.name}"
        if peer.role != "subscriber":
            return who
        waited, left = now - peer.read_at, max(0, self.hold - (now - peer.read_at))
        return f"{who} (took nothing for {spoken_duration(waited)}; in {spoken_duration(left)} sources continue without it)"


def _pass_by(peer: Peer, offset: int, why: str) -> None:
    """Wait for a reader no longer: from here on it is served from the log, at its own pace, or not at all."""
    if not peer.begun_in_log:
        peer.link.refuse(f"too slow: {why}, and this node keeps no log to serve it from")
    elif peer.behind is None:
        peer.behind = offset
