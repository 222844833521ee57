"""Covering: a publisher is admitted, and its promises are acknowledged, only once all nodes that rely on them hold them.

A node that does not wait for a type from here calls events final without it. So two things have to come before:

- **Admission.** A type is *uncovered* when a publisher offers it and nobody here sends it, or all here have ended it. The next
  ``Interest`` names the type. Each node that takes this Interest waits for this node from then on, and answers with ``Cover``:
  the time up to which it has called the type final, if anyone reads it there. This node takes nothing of the type until all
  nodes have answered, and rejects events as old as their answers. So an event that is taken is late nowhere.
- **Promises.** A type is *open* while some publisher of it has promised nothing: other nodes go by the clock. This node takes
  the promise that closes the type at once, and acknowledges it once all nodes have the watermark. So a publisher that has
  flushed a promise can rely on it everywhere.

This node waits for nodes with a link, and for nodes with a log that are away and read the type: they resume what they know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from middleware.broker.log.log_records import Floors, PeerKey
from middleware.broker.log.null_log import AnyLog
from middleware.broker.peers.peers import Peer
from middleware.broker.routing import is_subscribed
from middleware.broker.watermarks.tracker import WatermarkTracker
from middleware.link.codec import Cover, Interest, encode
from middleware.model.event import NEVER


class Covering:
    """See the module. ``peers``: all peers that are attached or dialled, by key."""

    def __init__(self, tracker: WatermarkTracker, log: AnyLog, peers: Mapping[PeerKey, Peer]) -> None:
        self._tracker, self._log, self._peers = tracker, log, peers
        self._uncovered: dict[str, int] = {}
        """By type that may not come in yet: the number of the first Interest that names it, 0 before there is one."""
        self._closing: dict[str, int] = {}
        """By type that was open: the version of this node's promises in which it is promised."""
        self._withheld: dict[PeerKey, frozenset[str]] = {}
        """Publishers whose promises are not acknowledged yet, and the types of these."""

    # -- admission ----------------------------------------------------------------------------------------------------

    def offered(self, names: Iterable[str], announced: Interest) -> None:
        """A publisher offers these types. ``announced``: the last Interest made: nodes already wait for its types."""
        for name in names:
            if name not in announced.raw and (self._tracker.durable or self._links()):
                self._uncovered.setdefault(name, 0)

    def announced(self, interest: Interest) -> None:
        """This Interest is about to be sent to all nodes."""
        for name, number in list(self._uncovered.items()):
            if name not in interest.raw:
                del self._uncovered[name]  # its publisher has left, or has ended it
            elif not number:
                self._uncovered[name] = interest.number

    def taken(self, peer: Peer, interest: Interest) -> None:
        """A node has announced which types it may send, and this node waits for it from now on."""
        peer.owes = interest

    def answered(self, peer: Peer, cover: Cover) -> None:
        """A node waits for all that this one offered in an Interest."""
        peer.covered = max(cover.number, peer.covered)
        if floors := {name: at for name, at in cover.floors.items() if at > self._tracker.for_nodes.floor(name)}:
            self._log.noted(Floors(floors))
            self._tracker.covered(floors)

    def is_shut(self, peer: Peer) -> bool:
        """Whether a publisher may not send yet, because some node does not wait for one of its types."""
        if not self._uncovered:
            return False
        return not self._uncovered.keys().isdisjoint(peer.offered.difference(self._tracker.for_nodes.ended_by(peer.key)))

    # -- promises -----------------------------------------------------------------------------------------------------

    def promised(self, peer: Peer, names: Collection[str], opened: Collection[str]) -> None:
        """A publisher has promised these types, of which those in ``opened`` were open before."""
        promises = self._tracker.for_nodes
        closed = [name for name in names if name in opened and name not in promises.open]
        if closed and (self._tracker.durable or self._links()):
            self._closing |= dict.fromkeys(closed, promises.version)
        if waits := self._closing.keys() & names:
            self._withheld[peer.key] = self._withheld.get(peer.key, frozenset()) | waits
            peer.link.withhold()

    # -- the end of a step --------------------------------------------------------------------------------------------

    @property
    def is_under_way(self) -> bool:
        """Whether something is uncovered or withheld here."""
        return bool(self._uncovered or self._closing or self._withheld)

    @property
    def is_urgent(self) -> bool:
        """Whether watermarks are to be sent at once, as acknowledgements wait for them."""
        return bool(self._closing)

    def look(self) -> None:
        """Nodes may have answered, left or come: publishers that wait for no one any more resume. O(types that wait *
        nodes)."""
        self._uncovered = {name: at for name, at in self._uncovered.items() if not at or self._without_cover(name, at)}
        self._closing = {name: at for name, at in self._closing.items() if self._without_watermarks(name, at)}
        for key, names in list(self._withheld.items()):
            if names.isdisjoint(self._closing):
                del self._withheld[key]
                if key in self._peers:
                    self._peers[key].link.confirm()

    def answer(self, peer: Peer, interest: Interest) -> None:
        """Notify a node that this one waits for it, unless a type that it offers has ended here: that resumes first."""
        promises = (self._tracker.for_subscribers, self._tracker.for_detectors)
        if any(promises[0].has_ended(name) for name in interest.raw):
            return
        floors = {name: max(each.floor(name) for each in promises) for name in interest.raw}
        peer.link.send([encode(Cover(interest.number, {name: at for name, at in floors.items() if at != NEVER}))])
        peer.owes = None

    def awaited(self) -> list[str]:
        """The nodes that publishers here wait for."""
        if not (self._uncovered or self._closing):  # nearly always, and each step asks
            return []
        uncovered = (self._without_cover(name, number) for name, number in self._uncovered.items())
        closing = (self._without_watermarks(name, version) for name, version in self._closing.items())
        return sorted({node for nodes in (*uncovered, *closing) for node in nodes})

    def _without_cover(self, name: str, number: int) -> list[str]:
        """The awaited nodes that have not answered the Interest of this number, or any before there is one."""
        return self._lacking(name, lambda peer: 0 < number <= peer.covered)

    def _without_watermarks(self, name: str, version: int) -> list[str]:
        """The awaited nodes that do not hold the promises of this version."""
        return self._lacking(name, lambda peer: peer.has_watermarks(version))

    def _lacking(self, name: str, is_done: Callable[[Peer], bool]) -> list[str]:
        """The awaited nodes that are not done, those that are away included."""
        links = self._links()
        away = self._tracker.durable.difference(peer.key for peer in links)
        return [peer.name for peer in links if not is_done(peer)] + [
            key[1] for key in away if is_subscribed(self._tracker.reads(key), name)
        ]

    def _links(self) -> list[Peer]:
        """The nodes with a link."""
        return [peer for peer in self._peers.values() if peer.role == "node" and peer.is_linked]
