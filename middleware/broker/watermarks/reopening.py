"""How a broker begins an era, adopts that of another node, and comes to know from where on all go on (see ``eras``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from middleware.broker.log import Began, Log, PeerKey, WentOn
from middleware.broker.peers import Peer
from middleware.broker.watermarks.tracker import LOCAL, WatermarkTracker
from middleware.link.codec import Changes, Interest, decode_payload
from middleware.link.frames import Data, Parts
from middleware.model.errors import WireError
from middleware.model.event import END


class Reopening:
    """See the module."""

    def __init__(self, tracker: WatermarkTracker, log: Log | None) -> None:
        self._has_news = False
        self._next: dict[str, set[PeerKey]] = {}
        """By type that had ended, who offers it now. If all others have ended it, an era begins once the last is settled."""
        self._tracker, self._log = tracker, log

    @property
    def is_under_way(self) -> bool:
        """Whether an era has begun, and it is not known yet from where on all go on, or what has ended in it."""
        return self._tracker.eras.ground is None or bool(self._tracker.everywhere.fallen) or self._has_news

    def ended(self, key: PeerKey, names: Iterable[str]) -> list[str]:
        """Of the types that a publisher offers: those that have ended, but not by its own word, and go on by nobody's here."""
        here, everywhere = self._tracker.here, self._tracker.everywhere
        return [
            name
            for name in names
            if everywhere.has_ended(name)
            and not everywhere.is_derived(name)
            and not (name in here.known and _goes_on(here.origins(name)[1], key))
        ]

    def offered(self, names: Iterable[str], key: PeerKey) -> None:
        """Somebody has offered what had ended, and may not send it yet: ``look`` begins an era, or sees that it goes on anyway.

        No node leaves out an era: detectors elsewhere may have gone on in it.
        """
        for name in names:
            self._tracker.hold([name], anew=False)
            self._next.setdefault(name, set()).add(key)

    def received(self, key: PeerKey, interest: Interest) -> None:
        """What a node offers has been noted; it may be in a newer era, or know from where on all go on.

        One that may send what has ended here, and has not said in this era that it has, was not known of: then it goes on, too.
        """
        eras, everywhere = self._tracker.eras, self._tracker.everywhere
        if interest.era > eras.number:
            if interest.before is not None:  # what it said then did not come through: the link was down
                self._catch_up(interest.era - 1, interest.before)
            self._begin(interest.era)
        elif interest.era == eras.number and (
            names := [n for n in interest.raw if everywhere.lasts_ended(n) and everywhere.origins(n)[1].get(key) != END]
        ):
            self.offered(names, key)
        if interest.era == eras.number and interest.ground is not None and eras.ground is None:
            self._go_on(interest.ground)

    def look(self, peers: Collection[Peer], gathering: bool, now: int) -> bool:
        """Nodes may have said more: go on if that was all, and let publishers send. Whether there is news for other nodes.

        Whoever is attached is awaited, and who will be back; while ``gathering``, so are others.
        """
        while not gathering and not self._awaited(peer.key for peer in peers) and self._move():
            pass
        for peer in peers:
            if peer.role == "publisher":
                peer.link.shuts(self._is_shut(peer), now)
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
        """Whether some of these still offer a type, and all others have ended it."""
        origins = self._tracker.everywhere.origins(name)[1]
        return not keys.isdisjoint(origins) and all(until == END for origin, until in origins.items() if origin not in keys)

    def _awaited(self, up: Iterable[PeerKey]) -> list[PeerKey]:
        return self._tracker.eras.awaited(self._tracker.durable.union(up))

    def awaited(self, up: Iterable[PeerKey]) -> list[str]:
        """The nodes for which publishers wait here."""
        if not self._tracker.everywhere.fallen:
            return []
        return sorted(name for _, name in self._awaited(up))

    def _is_shut(self, peer: Peer) -> bool:
        """Whether a publisher may not send yet, as it is not known from where on it may."""
        fallen = self._tracker.everywhere.fallen
        return bool(fallen) and not fallen.isdisjoint(peer.offered.difference(self._tracker.here.ended_by(peer.key)))

    def foreseen(self, peer: Peer, frame: Data, parts: Parts) -> list[str]:
        """The types in the next payload of a publisher that it has not offered, and that have ended. O(1) if none has."""
        everywhere = self._tracker.everywhere
        if not (everywhere.ends or everywhere.fallen) or not peer.link.expects(frame):
            return []
        try:
            payload = decode_payload([frame.head, *parts[1:]])
        except WireError:
            return []
        names = {head.type for head in payload.blocks} - peer.offered if type(payload) is Changes else ()
        return self.ended(peer.key, sorted(names))

    def due(self) -> int | None:
        """From where on the detectors are to go on, if they have not been told yet; they are, now."""
        eras = self._tracker.eras
        ground, eras.due = eras.due, None
        return ground

    def again(self, entry: Began | WentOn) -> None:
        """Take a step of a former life again."""
        if isinstance(entry, Began):
            self._tracker.begin_era(entry.era, entry.names, entry.reached)
        else:
            self._tracker.go_on(entry.ground)

    def _catch_up(self, number: int, ground: int) -> None:
        """Others have gone on in an era from there."""
        if number > self._tracker.eras.number:
            self._begin(number)
        if self._tracker.eras.ground is None:
            self._go_on(ground)

    def _begin(self, number: int, names: Sequence[str] = ()) -> None:
        self._tracker.begin_era(number, names)
        if self._log is not None:
            self._log.noted(Began(number, self._tracker.eras.reached, list(names)))
        self._has_news = True

    def _go_on(self, ground: int) -> None:
        self._tracker.go_on(ground)
        if self._log is not None:
            self._log.noted(WentOn(ground))
        self._has_news = True


def _goes_on(origins: dict[object, int | None], key: PeerKey) -> bool:
    """Whether some publisher has not ended a type, or this one has."""
    return origins.get(key) == END or any(until != END for origin, until in origins.items() if origin != LOCAL)
