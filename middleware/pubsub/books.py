"""The books of a broker: what peers and its own detectors offer and promise; how far clocks and other nodes' logs have got."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from copy import copy
from typing import Any, Final

from middleware.event import END, NEVER
from middleware.pubsub.codec import Changes, Interest
from middleware.pubsub.journal import PeerKey, Place
from middleware.pubsub.progress import Promises

LOCAL: Final = "local detectors"
"""The local detectors as an origin of promises."""

_PLAIN = ("clock", "clock_here", "places", "lasting", "ever", "_progress")


class Books:
    """See the module.

    ``everywhere``, ``here``, ``elsewhere``
        what is promised to subscribers; to other nodes, of what originates here; to the detectors, of what others send.
    ``clock``
        the largest clock mark. ``clock_here``: of local publishers only; a mark that came round by a third node could
        overtake the events it goes with.
    ``places``
        what has been taken from the logs of other nodes, by name.
    ``lasting``
        nodes with a log of their own: they come back as what they were.
    ``ever``
        all that a node has ever offered, also what it has not offered again since it came back.
    """

    def __init__(self, publications: Iterable[str]) -> None:
        self.everywhere, self.here, self.elsewhere = Promises(), Promises(), Promises()
        self.clock: int | None = None
        self.clock_here = NEVER
        self.places: dict[str, Place] = {}
        self.lasting: set[PeerKey] = set()
        self.ever: dict[PeerKey, set[str]] = {}
        self._progress: dict[str, int] = {}
        self._views: dict[str, tuple[Promises, ...]] = {
            "publisher": (self.everywhere, self.here, self.elsewhere),
            "node": (self.everywhere, self.elsewhere),
            "subscriber": (),
            LOCAL: (self.everywhere, self.here),
        }
        for promises in self._views[LOCAL]:
            promises.offer(LOCAL, (), publications)

    @property
    def publishers(self) -> tuple[Promises, ...]:
        """The promises in which publishers count, first those that hold for everyone."""
        return self._views["publisher"]

    def gather(self, is_on: bool) -> None:
        """Nodes of the configuration are missing, or are not any more: until then promises may still go back."""
        for promises in (self.everywhere, self.here, self.elsewhere):
            promises.gather(is_on)

    def offered(self, key: PeerKey, interest: Interest) -> None:
        """A peer may send these types from now on."""
        if interest.keeps and key[0] == "node":
            self.lasting.add(key)
        derived = interest.derived if key[0] == "node" else ()
        if key[0] == "node":
            self.ever.setdefault(key, set()).update(interest.raw, derived)
        for promises in self._views[key[0]]:
            promises.offer(key, interest.raw, derived)

    def left(self, key: PeerKey) -> None:
        """What a peer promised, and what it may still send, holds nothing back any more."""
        for promises in self._views[key[0]]:
            promises.leave(key)

    def lost(self, key: PeerKey) -> None:
        """A peer is away: it promises nothing, and it has not left."""
        for promises in self._views[key[0]]:
            self._promised(promises, key, {})

    def noted(self, key: PeerKey, changes: Changes) -> None:
        """Take the clock mark, the promises and the place that came with changes."""
        if changes.clock is not None:
            self.clock = changes.clock if self.clock is None else max(changes.clock, self.clock)
            if key[0] == "publisher":
                self.clock_here = max(changes.clock, self.clock_here)
        if changes.progress is not None:
            for promises in self._views[key[0]]:
                self._promised(promises, key, changes.progress)
        if changes.line:
            self.places[key[1]] = (changes.line, changes.position)

    def _promised(self, promises: Promises, key: PeerKey, progress: Mapping[str, int]) -> None:
        """A node that promises for a type that it may not send has had publishers of it, who have left; it waits for none."""
        resting: dict[str, int] = {}
        if key[0] == "node":
            resting = {name: at for name, at in progress.items() if at != END and not promises.offers(key, name)}
            progress = {name: at for name, at in progress.items() if name not in resting}
        promises.promise(key, progress)
        if resting or promises.is_resting(key):
            promises.rest(key, resting)

    def promised_here(self, progress: Mapping[str, int]) -> None:
        """The local detectors promise."""
        if progress:
            for name, until in progress.items():
                self._progress[name] = max(until, self._progress.get(name, NEVER))
            for promises in self._views[LOCAL]:
                promises.promise(LOCAL, self._progress)

    def raw_here(self) -> frozenset[str]:
        """The types that local publishers may send, those still awaited included."""
        return self.here.offered(lambda origin: origin != LOCAL)

    def origins(self) -> set[Hashable]:
        """The peers that offer something."""
        everyone = {key for promises in (self.everywhere, self.here, self.elsewhere) for key in promises.everyone()}
        return everyone - {LOCAL}

    def state(self) -> dict[str, Any]:
        """All of it as plain values."""
        promises = [each.state() for each in (self.everywhere, self.here, self.elsewhere)]
        plain = {name: copy(getattr(self, name)) for name in _PLAIN}
        return {"promises": promises, "plain": plain | {"ever": {key: set(names) for key, names in self.ever.items()}}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become the books that gave ``state``."""
        for promises, kept in zip((self.everywhere, self.here, self.elsewhere), state["promises"], strict=True):
            promises.restore(kept)
        for name, value in state["plain"].items():
            setattr(self, name, value)
