"""Watermarks as a broker tracks them: the promises of peers and of its own detectors; clocks, and offsets in others' logs."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from copy import copy
from typing import Any, Final, cast

from middleware.broker.log.log_records import LogOffset, PeerKey
from middleware.broker.routing import is_subscribed
from middleware.broker.watermarks.combining import CombinedWatermarks
from middleware.broker.watermarks.generations import Generations
from middleware.link.codec import Changes, Interest
from middleware.model.event import END, NEVER

LOCAL: Final = "local detectors"
"""The local detectors as an origin of promises."""

_STORED_ATTRIBUTES = {name: name for name in ("clock", "clock_here", "ever", "outlived", "reached")} | {
    "places": "log_offsets",
    "lasting": "durable",
    "_progress": "_watermarks",
    "reads": "_reads",
}
"""Attributes that a checkpoint stores unchanged: by the name there, which stays, the name here."""


class WatermarkTracker:
    """See the module.

    ``for_subscribers``, ``for_nodes``, ``for_detectors``
        the promises made to subscribers; to other nodes, for what originates here; to the detectors, for what others send.
    ``clock``
        the largest clock mark. ``clock_here``: of local publishers only; a clock mark that came by a third node could
        overtake the events it belongs to.
    ``log_offsets``
        the offsets reached in the logs of other nodes, by name.
    ``durable``
        nodes with a log of their own: their state survives a restart.
    ``ever``
        all that a node has ever offered, even if it has not offered it again since it came back.
    ``outlived``
        by publisher, the types that others have ended since its last message: if it expires, their END counts.
    ``generations``
        of this node and of the others. ``reached``: the latest time, final or of an event, in the streams that have ended here.
    """

    def __init__(self, publications: Iterable[str], backdate: int = 0, subscriptions: Collection[str] = ()) -> None:
        self.for_subscribers, self.for_nodes, self.for_detectors = (
            CombinedWatermarks(reads=()),
            CombinedWatermarks(keeps_ends=False),
            CombinedWatermarks(reads=subscriptions),
        )
        self.generations, self.reached = Generations(backdate=backdate), NEVER
        self.clock: int | None = None
        self.clock_here = NEVER
        self.log_offsets: dict[str, LogOffset] = {}
        self.durable: set[PeerKey] = set()
        self.ever: dict[PeerKey, set[str]] = {}
        self._reads: dict[PeerKey, frozenset[str]] = {}
        self.outlived: dict[PeerKey, set[str]] = {}
        self._watermarks: dict[str, int] = {}
        self._views: dict[str, tuple[CombinedWatermarks, ...]] = {
            "publisher": (self.for_subscribers, self.for_nodes, self.for_detectors),
            "node": (self.for_subscribers, self.for_detectors),
            "subscriber": (),
            LOCAL: (self.for_subscribers, self.for_nodes),
        }
        for promises in self._views[LOCAL]:
            promises.offer(LOCAL, (), publications)

    @property
    def publishers(self) -> tuple[CombinedWatermarks, ...]:
        """The promises in which publishers count, first those that hold for everyone."""
        return self._views["publisher"]

    def gather(self, is_on: bool) -> None:
        """Nodes of the configuration are missing, or (off) no longer are: until then promises may still go back."""
        for promises in (self.for_subscribers, self.for_nodes, self.for_detectors):
            promises.gather(is_on)

    def read(self, patterns: Collection[str]) -> None:
        """A subscriber learns what is final of these types."""
        self.for_subscribers.read(patterns)

    def offered(self, key: PeerKey, interest: Interest) -> None:
        """A peer may send these types from now on."""
        if interest.keeps and key[0] == "node":
            self.durable.add(key)
            self._reads[key] = frozenset(interest.subscriptions)
        derived = interest.derived if key[0] == "node" else ()
        if key[0] == "node":
            self.ever.setdefault(key, set()).update(interest.raw, derived)
        # Where a type has ended in this generation, the peer's END came after all that its log holds of it.
        logged = [name for name in interest.logged if not self.for_subscribers.lasts_ended(name)]
        for promises in self._views[key[0]]:
            promises.offer(key, [*interest.raw, *logged], derived)
            if key[0] == "node":
                promises.await_from(key, interest.raw)
        if key[0] == "node":
            self.generations.received(key, interest)
            self._believe()

    def left(self, key: PeerKey, outlived: Collection[str] = ()) -> None:
        """A peer's promises, and what it may still send, delay nothing any more.

        ``outlived``: types that others ended after its last message, so that their END counts as if it had left before.
        """
        self.outlived.pop(key, None)
        for promises in self._views[key[0]]:
            promises.leave(key, outlived)
        if self.generations.announcements.pop(key, None) is not None:
            self._believe()

    def lost(self, key: PeerKey) -> None:
        """A peer is away: it promises nothing, and it has not left."""
        for promises in self._views[key[0]]:
            self._promised_by_node(promises, key, {})

    def noted(self, key: PeerKey, changes: Changes) -> None:
        """Take the clock mark, the promises and the log offset that came with changes."""
        if changes.clock is not None:
            self.clock = changes.clock if self.clock is None else max(changes.clock, self.clock)
            if key[0] == "publisher":
                self.clock_here = max(changes.clock, self.clock_here)
        if self.outlived:
            self.outlived.pop(key, None)
        if (watermarks := changes.watermarks) is not None:
            if END in watermarks.values():
                self._ended(key, watermarks)
            if key[0] == "node":
                for promises in self._views[key[0]]:
                    self._promised_by_node(promises, key, watermarks)
                self.generations.stated(key)
                self._believe()
            else:
                for promises in self._views[key[0]]:
                    promises.promise(key, watermarks)
        if changes.line:
            self.log_offsets[key[1]] = (changes.line, changes.offset)

    def _ended(self, key: PeerKey, watermarks: Mapping[str, int]) -> None:
        """Note which publishers have sent nothing since a peer ended types that they offer. O(types)."""
        for name, until in watermarks.items():
            if until == END and not self.for_subscribers.has_ended_by(key, name) and name in self.for_nodes.known:
                for other in self.for_nodes.origins(name)[1].keys() - {key, LOCAL}:
                    self.outlived.setdefault(cast(PeerKey, other), set()).add(name)

    def _promised_by_node(self, promises: CombinedWatermarks, key: PeerKey, watermarks: Mapping[str, int]) -> None:
        """A node that promises for a type it does not offer has had publishers of it that have left; it waits for none."""
        idle = {name: at for name, at in watermarks.items() if at != END and not promises.offers(key, name)}
        watermarks = {name: at for name, at in watermarks.items() if name not in idle}
        if self.generations.is_old(key):  # it must announce again, in this generation, what has ended
            watermarks = {name: at if at != END else NEVER for name, at in watermarks.items()}
        promises.promise(key, watermarks, is_node=True)
        if idle or promises.is_idle(key):
            promises.set_idle(key, idle)

    def promised_here(self, watermarks: Mapping[str, int], reached: int = NEVER) -> None:
        """The local detectors promise, or did so in the replayed step. An END of theirs does not count as long as they do not
        know of the generation. ``reached``: the latest time in their streams that have ended."""
        self.reached = max(reached, self.reached)
        if watermarks:
            is_known = self.generations.floor is not None and self.generations.due is None
            for name, until in watermarks.items():
                self._watermarks[name] = max(until if until != END or is_known else NEVER, self._watermarks.get(name, NEVER))
            moved = {name: self._watermarks[name] for name in watermarks}
            for promises in self._views[LOCAL]:
                promises.advance(LOCAL, moved)

    def final_of(self, patterns: Collection[str]) -> int:
        """The latest time that any type of these patterns was ever final up to here. O(types)."""
        promises, resumed = self.for_subscribers, self.generations.floor
        floors = [promises.floor(name) for name in promises.known if is_subscribed(patterns, name)]
        # Streams that ended were final up to their last event; after they resume, the first promises may be older.
        return max([self.generations.reached, resumed if resumed is not None else NEVER, *floors])

    def raw_here(self) -> frozenset[str]:
        """The types that local publishers offer, those still awaited included."""
        return self.for_nodes.offered(lambda origin: origin != LOCAL)

    def to_come(self) -> frozenset[str]:
        """The types that some local publisher offers and has not ended, those still awaited included."""
        return frozenset(name for name in self.raw_here() if self.for_nodes.is_to_come(name, LOCAL))

    def reads(self, key: PeerKey) -> frozenset[str]:
        """The types, exact or as patterns, that a node with a log reads, wherever it is."""
        return self._reads.get(key, frozenset())

    def covered(self, floors: Mapping[str, int]) -> None:
        """Other nodes have called types final up to these times: local publishers send nothing as old."""
        self.for_nodes.resume(floors, resumes=False)

    def origins(self) -> set[Hashable]:
        """The peers that offer something."""
        everyone = {
            key for promises in (self.for_subscribers, self.for_nodes, self.for_detectors) for key in promises.everyone()
        }
        return everyone - {LOCAL}

    # -- generations ---------------------------------------------------------------------------------------------------------

    def begin_generation(self, number: int, names: Collection[str] = (), reached: int | None = None) -> None:
        """Nothing has ended any more, except what publishers here have ended. ``reached``: as it was then, if this is a replay.

        ``names``: types for which the generation begins; they resume from its floor, even if the one before reopened them.
        """
        if reached is None:
            everything = (self.for_subscribers, self.for_nodes, self.for_detectors)
            reached = max(self.reached, self.clock_here, *(promises.finite for promises in everything))
            reached = max(reached, self.clock) if self.clock is not None else reached
        self.generations.begin(number, reached)
        self.hold(names)
        self._watermarks = {name: until if until != END else NEVER for name, until in self._watermarks.items()}
        for promises in (self.for_subscribers, self.for_detectors):
            promises.distrust_ends(True)
            promises.begin_generation(lambda origin: origin == LOCAL or (isinstance(origin, tuple) and origin[0] == "node"))
        self.for_nodes.begin_generation(lambda origin: origin == LOCAL)
        self._believe()

    def hold(self, names: Collection[str], anew: bool = True) -> None:
        """Nothing of these types may come in until their floor is known; ``anew``: even if it was known."""
        for promises in (self.for_subscribers, self.for_detectors):
            promises.hold(names, anew)

    def resume(self, floor: int) -> None:
        """Streams that had ended resume from ``floor``, and nothing as old comes any more."""
        self.generations.floor = floor
        if self.generations.due is None:  # else they were at the end already, and resume from there
            self.generations.due = floor
        reopening = (
            self.for_subscribers.reopening - self.for_subscribers.resumed
        )  # the others resumed from a floor known before
        raw = floor if floor == NEVER else floor + self.generations.margin
        # for derived types, their own nodes promise: they may have resumed there, in a generation whose END was not seen here
        floors = {name: raw for name in reopening if not self.for_subscribers.is_derived(name)}
        for promises in (self.for_subscribers, self.for_nodes, self.for_detectors):
            promises.resume(floors)

    def settle_generation(self) -> None:
        """All nodes have announced what has ended in this generation."""
        for promises in (self.for_subscribers, self.for_detectors):
            promises.settle()

    def _believe(self) -> None:
        """END counts as soon as all nodes have announced what has ended in this generation, and no earlier."""
        for promises in (self.for_subscribers, self.for_detectors):
            promises.distrust_ends(self.generations.ends_in_doubt)

    # -- lives --------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The whole state as built-in values."""
        promises = [each.state() for each in (self.for_subscribers, self.for_nodes, self.for_detectors)]
        attributes = {stored: copy(getattr(self, name)) for stored, name in _STORED_ATTRIBUTES.items()}
        attributes |= {each: {key: set(names) for key, names in getattr(self, each).items()} for each in ("ever", "outlived")}
        return {"promises": promises, "plain": attributes, "generations": self.generations.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Return to ``state``."""
        self.generations.restore(state["generations"])
        self._believe()
        for promises, kept in zip((self.for_subscribers, self.for_nodes, self.for_detectors), state["promises"], strict=True):
            promises.restore(kept)
        for stored, value in state["plain"].items():
            setattr(self, _STORED_ATTRIBUTES[stored], value)
