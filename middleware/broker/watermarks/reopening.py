"""How a broker begins a generation, adopts that of another node, and learns the floor from which all resume."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from middleware.broker.log.log_records import GenerationStart, PeerKey, Resumption
from middleware.broker.log.null_log import AnyLog
from middleware.broker.peers.peers import Peer
from middleware.broker.watermarks.tracker import LOCAL, WatermarkTracker
from middleware.link.codec import Interest
from middleware.model.event import END


class Reopening:
    """See the module."""

    def __init__(self, tracker: WatermarkTracker, log: AnyLog) -> None:
        self._has_news = False
        self._next: dict[str, set[PeerKey]] = {}
        """By type that had ended, its new offerers. If all others have ended it, a generation begins once the last has."""
        self._tracker, self._log = tracker, log

    @property
    def is_under_way(self) -> bool:
        """Whether a generation has begun, and it is not known yet from which floor all resume, or what has ended in it."""
        return self._tracker.generations.floor is None or bool(self._tracker.for_subscribers.reopening) or self._has_news

    def ended(self, key: PeerKey, names: Iterable[str]) -> list[str]:
        """The types offered by a publisher that have ended, but not by its own promise, and that no publisher here still
        sends."""
        for_nodes, promises = self._tracker.for_nodes, self._tracker.for_subscribers
        return [
            name
            for name in names
            if promises.has_ended(name)
            and not promises.is_derived(name)
            and not (name in for_nodes.known and _resumes(for_nodes.origins(name)[1], key))
        ]

    def offered(self, names: Iterable[str], key: PeerKey) -> None:
        """A peer offers types that had ended; it may not send yet: ``look`` begins a generation, or finds that they resume.

        No node skips a generation: detectors elsewhere may have resumed in it.
        """
        for name in names:
            self._tracker.hold([name], anew=False)
            self._next.setdefault(name, set()).add(key)

    def received(self, key: PeerKey, interest: Interest) -> None:
        """A node's offer has been noted; the node may be in a newer generation, or know the floor.

        If it may send a type that has ended here, and has not ended it in this generation, it was unknown: the type resumes.
        """
        generations, promises = self._tracker.generations, self._tracker.for_subscribers
        if interest.generation > generations.number:
            if interest.before is not None:  # its announcement then did not come through: the link was down
                self._catch_up(interest.generation - 1, interest.before)
            self._begin(interest.generation)
        elif interest.generation == generations.number and (
            names := [n for n in interest.raw if promises.lasts_ended(n) and promises.origins(n)[1].get(key) != END]
        ):
            self.offered(names, key)
        if interest.generation == generations.number and interest.floor is not None and generations.floor is None:
            self._resume(interest.floor)

    def look(self, peers: Collection[Peer], gathering: bool) -> bool:
        """Nodes may have announced more: if that was all, resume. Returns whether there is news for nodes.

        Attached nodes are awaited, and those that will be back; while ``gathering``, so are others.
        """
        while not gathering and not self._awaited(peer.key for peer in peers) and self._move():
            pass
        has_news, self._has_news = self._has_news, False
        return has_news

    def _move(self) -> bool:
        """All have announced what has ended: resume, then begin the next generation, or settle. Returns whether there may be
        more to do."""
        tracker = self._tracker
        if tracker.generations.floor is None:
            self._resume(tracker.generations.common())
        names, self._next = [name for name, keys in self._next.items() if self._has_ended_but(name, keys)], {}
        if names:
            self._begin(tracker.generations.number + 1, sorted(names))
        else:
            tracker.settle_generation()
        return bool(names)

    def _has_ended_but(self, name: str, keys: set[PeerKey]) -> bool:
        """Whether some of these peers still offer a type, and all others have ended it."""
        origins = self._tracker.for_subscribers.origins(name)[1]
        return not keys.isdisjoint(origins) and all(until == END for origin, until in origins.items() if origin not in keys)

    def _awaited(self, up: Iterable[PeerKey]) -> list[PeerKey]:
        return self._tracker.generations.awaited(self._tracker.durable.union(up))

    def awaited(self, up: Iterable[PeerKey]) -> list[str]:
        """The nodes that publishers here wait for."""
        if not self._tracker.for_subscribers.reopening:
            return []
        return sorted(name for _, name in self._awaited(up))

    def is_shut(self, peer: Peer) -> bool:
        """Whether a publisher may not send yet, because the time from which on it may is not known."""
        reopening = self._tracker.for_subscribers.reopening
        return bool(reopening) and not reopening.isdisjoint(peer.offered.difference(self._tracker.for_nodes.ended_by(peer.key)))

    def due(self) -> int | None:
        """The floor from which the detectors resume, if they do not know it; from now on they do."""
        generations = self._tracker.generations
        floor, generations.due = generations.due, None
        return floor

    def again(self, entry: GenerationStart | Resumption) -> None:
        """Replay a step of a former life."""
        if isinstance(entry, GenerationStart):
            self._tracker.begin_generation(entry.generation, entry.names, entry.reached)
        else:
            self._tracker.resume(entry.floor)

    def _catch_up(self, number: int, floor: int) -> None:
        """Others have gone on from ``floor`` in generation ``number``."""
        if number > self._tracker.generations.number:
            self._begin(number)
        if self._tracker.generations.floor is None:
            self._resume(floor)

    def _begin(self, number: int, names: Sequence[str] = ()) -> None:
        self._tracker.begin_generation(number, names)
        self._log.noted(GenerationStart(number, self._tracker.generations.reached, list(names)))
        self._has_news = True

    def _resume(self, floor: int) -> None:
        self._tracker.resume(floor)
        self._log.noted(Resumption(floor))
        self._has_news = True


def _resumes(origins: dict[object, int | None], key: PeerKey) -> bool:
    """Whether some publisher has not ended a type, or this one has."""
    return origins.get(key) == END or any(until != END for origin, until in origins.items() if origin != LOCAL)
