"""How a broker begins an era, adopts that of another node, and learns the ground from which all go on (see ``eras``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from middleware.broker.log.null_log import AnyLog
from middleware.broker.log.records import Began, PeerKey, WentOn
from middleware.broker.peers.peers import Peer
from middleware.broker.watermarks.tracker import LOCAL, WatermarkTracker
from middleware.link.codec import Interest
from middleware.model.event import END


class Reopening:
    """See the module."""

    def __init__(self, tracker: WatermarkTracker, log: AnyLog) -> None:
        self._has_news = False
        self._next: dict[str, set[PeerKey]] = {}
        """By type that had ended, its new offerers. If all others have ended it, an era begins once the last one is settled."""
        self._tracker, self._log = tracker, log

    @property
    def is_under_way(self) -> bool:
        """Whether an era has begun, and it is not known yet from which ground all go on, or what has ended in it."""
        return self._tracker.eras.ground is None or bool(self._tracker.for_subscribers.fallen) or self._has_news

    def ended(self, key: PeerKey, names: Iterable[str]) -> list[str]:
        """The types offered by a publisher that have ended, but not by its own word, and that no publisher here still sends."""
        for_nodes, promises = self._tracker.for_nodes, self._tracker.for_subscribers
        return [
            name
            for name in names
            if promises.has_ended(name)
            and not promises.is_derived(name)
            and not (name in for_nodes.known and _goes_on(for_nodes.origins(name)[1], key))
        ]

    def offered(self, names: Iterable[str], key: PeerKey) -> None:
        """A peer offers types that had ended; it may not send yet: ``look`` begins an era, or finds that they go on anyway.

        No node skips an era: detectors elsewhere may have gone on in it.
        """
        for name in names:
            self._tracker.hold([name], anew=False)
            self._next.setdefault(name, set()).add(key)

    def received(self, key: PeerKey, interest: Interest) -> None:
        """A node's offer has been noted; the node may be in a newer era, or know the ground.

        If it may send a type that has ended here, and has not ended it in this era, it was unknown: the type goes on, too.
        """
        eras, promises = self._tracker.eras, self._tracker.for_subscribers
        if interest.era > eras.number:
            if interest.before is not None:  # what it said then did not come through: the link was down
                self._catch_up(interest.era - 1, interest.before)
            self._begin(interest.era)
        elif interest.era == eras.number and (
            names := [n for n in interest.raw if promises.lasts_ended(n) and promises.origins(n)[1].get(key) != END]
        ):
            self.offered(names, key)
        if interest.era == eras.number and interest.ground is not None and eras.ground is None:
            self._go_on(interest.ground)

    def look(self, peers: Collection[Peer], gathering: bool) -> bool:
        """Nodes may have said more: if that was all, go on. Returns whether there is news for nodes.

        Attached nodes are awaited, and those that will be back; while ``gathering``, so are others.
        """
        while not gathering and not self._awaited(peer.key for peer in peers) and self._move():
            pass
        has_news, self._has_news = self._has_news, False
        return has_news

    def _move(self) -> bool:
        """All have said what has ended: go on, then begin the next era, or settle. Whether there may be more to do."""
        tracker = self._tracker
        if tracker.eras.ground is None:
            self._go_on(tracker.eras.common())
        names, self._next = [name for name, keys in self._next.items() if self._has_ended_but(name, keys)], {}
        if names:
            self._begin(tracker.eras.number + 1, sorted(names))
        else:
            tracker.settle_era()
        return bool(names)

    def _has_ended_but(self, name: str, keys: set[PeerKey]) -> bool:
        """Whether some of these peers still offer a type, and all others have ended it."""
        origins = self._tracker.for_subscribers.origins(name)[1]
        return not keys.isdisjoint(origins) and all(until == END for origin, until in origins.items() if origin not in keys)

    def _awaited(self, up: Iterable[PeerKey]) -> list[PeerKey]:
        return self._tracker.eras.awaited(self._tracker.durable.union(up))

    def awaited(self, up: Iterable[PeerKey]) -> list[str]:
        """The nodes that publishers here wait for."""
        if not self._tracker.for_subscribers.fallen:
            return []
        return sorted(name for _, name in self._awaited(up))

    def is_shut(self, peer: Peer) -> bool:
        """Whether a publisher may not send yet, because the time from which on it may is not known."""
        fallen = self._tracker.for_subscribers.fallen
        return bool(fallen) and not fallen.isdisjoint(peer.offered.difference(self._tracker.for_nodes.ended_by(peer.key)))

    def due(self) -> int | None:
        """The ground from which the detectors are to go on, if they have not been told it; now they are."""
        eras = self._tracker.eras
        ground, eras.due = eras.due, None
        return ground

    def again(self, entry: Began | WentOn) -> None:
        """Replay a step of a former life."""
        if isinstance(entry, Began):
            self._tracker.begin_era(entry.era, entry.names, entry.reached)
        else:
            self._tracker.go_on(entry.ground)

    def _catch_up(self, number: int, ground: int) -> None:
        """Others have gone on from ``ground`` in era ``number``."""
        if number > self._tracker.eras.number:
            self._begin(number)
        if self._tracker.eras.ground is None:
            self._go_on(ground)

    def _begin(self, number: int, names: Sequence[str] = ()) -> None:
        self._tracker.begin_era(number, names)
        self._log.noted(Began(number, self._tracker.eras.reached, list(names)))
        self._has_news = True

    def _go_on(self, ground: int) -> None:
        self._tracker.go_on(ground)
        self._log.noted(WentOn(ground))
        self._has_news = True


def _goes_on(origins: dict[object, int | None], key: PeerKey) -> bool:
    """Whether some publisher has not ended a type, or this one has."""
    return origins.get(key) == END or any(until != END for origin, until in origins.items() if origin != LOCAL)
