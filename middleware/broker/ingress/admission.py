"""Where publishers come in: what each may send, within which times, and what is promised for those that fall silent.

The rules are those of ``sources``; this is how a broker applies them to its promises.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import cast

import msgspec

from middleware.broker.ingress.checks import Admitted, Bounds, Ingress, newest_in
from middleware.broker.ingress.sources import SourcePolicy, Sources
from middleware.broker.peers import Peer
from middleware.broker.records import Behind, OnBehalf, PeerKey
from middleware.broker.watermarks.combining import CombinedWatermarks
from middleware.link.codec import MOST_TYPES, BlockHead, Changes, Interest
from middleware.model.event import END, NEVER, EventTypes
from middleware.model.time import SECOND


class Admission:
    """See the module. ``views``: the promises in which publishers count, first those that hold for everyone."""

    def __init__(self, types: EventTypes, views: Sequence[CombinedWatermarks], policy: SourcePolicy | None, now: int) -> None:
        self.sources = Sources(policy if policy is not None else SourcePolicy(), now)
        self._types, self._views, self._for_subscribers = types, views, views[0]
        self._arrivals = 0

    def known(self, names: Iterable[str]) -> frozenset[str]:
        """The types named by a publisher that it may send; if no types are registered, the first MOST_TYPES named.

        It may not send what detectors derive: a promise for such a type, or its absence, would hold back true results.
        """
        raw = frozenset(name for name in names if not self._for_subscribers.is_derived(name))
        if len(self._types):
            return frozenset(name for name in raw if name in self._types)
        known = self._for_subscribers.known
        new = raw.difference(known)
        return raw if len(known) + len(new) <= MOST_TYPES else raw.difference(new)

    def is_derived(self, name: str) -> bool:
        """Whether detectors somewhere in the mesh derive a type: then it comes from nodes alone."""
        return self._for_subscribers.is_derived(name)

    def offers_of_node(self, interest: Interest) -> Interest:
        """What a node offers. It may not know yet that a type which its publishers send is derived elsewhere."""
        derived = {name for name in (*interest.raw, *interest.logged) if name in interest.derived or self.is_derived(name)}
        if not derived:
            return interest
        raw, logged = ([name for name in names if name not in derived] for names in (interest.raw, interest.logged))
        return msgspec.structs.replace(interest, raw=raw, logged=logged)

    def displaced(self, derived: Collection[str]) -> list[tuple[PeerKey, Interest]]:
        """The publishers that offer types which turn out to be derived, with what they still may offer. O(publishers)."""
        self.sources.types.difference_update(derived)
        promises = self._for_subscribers
        publishers = [cast(PeerKey, key) for key in promises.everyone() if isinstance(key, tuple) and key[0] == "publisher"]
        affected = [key for key in publishers if any(promises.offers(key, name) for name in derived)]
        return [(key, Interest(0, raw=sorted(promises.offered({key}.__contains__).difference(derived)))) for key in affected]

    def attach(self, key: PeerKey, wall: int, now: int) -> bool:
        """A publisher has attached. What it ended under this name, before it or this node went away, stays ended.

        ``wall``: what its clock shows. Returns whether it is too soon to take anything, as this node's clock may be wrong.
        """
        self.sources.attach(key, now)
        self.sources[key].promised = dict.fromkeys(self._for_subscribers.ended_by(key), END)
        self.told_wall(key, wall, now)
        return self.sources.is_undecided(now)

    def told_wall(self, key: PeerKey, wall: int, now: int) -> None:
        """A peer says what its clock shows (0: it does not know); readers have no say."""
        if wall and key[0] != "subscriber":
            self.sources.told_wall(key, wall, now)

    def offered(self, names: Iterable[str]) -> None:
        """A publisher offers these types."""
        self.sources.types.update(names)

    def offers(self, interest: Interest) -> Interest:
        """What a publisher offers, without the types that it may not send."""
        known = self.known(interest.raw)
        self.offered(known)
        return msgspec.structs.replace(interest, raw=sorted(known))

    def received(self, key: PeerKey, changes: Changes, now: int) -> Changes:
        """What a publisher says, without what it may not say: watermarks of types that it may not send."""
        self.sources.received(key, now)
        source, watermarks = self.sources[key], changes.watermarks
        if watermarks is not None:
            known = self.known(watermarks)
            watermarks = {name: at for name, at in watermarks.items() if name in known}
            source.promised = watermarks
        elif source.on_behalf is not None:
            watermarks = source.promised  # it speaks for itself again
        source.on_behalf = None
        return changes if watermarks is changes.watermarks else msgspec.structs.replace(changes, watermarks=watermarks)

    def admit(
        self,
        key: PeerKey,
        changes: Changes,
        blocks: Sequence[bytes],
        ingress: Ingress,
        reads: Collection[str],
        now: int,
        logs: bool = True,
    ) -> tuple[list[Admitted], Changes]:
        """The blocks of a publisher's payload that may go on, and the header as the node logs it (if it ``logs``), in which
        identities stay as given."""
        admitted: list[Admitted] = []
        heads: list[BlockHead] = []
        numbers = self._numbers(changes.blocks)
        bounds_of: dict[str, Bounds] = {}  # what is promised does not change before all these are in
        high, newest = self.sources.limit(key, now, by_clock=bool(self._for_subscribers.open)) - 1, NEVER
        for head, block, arrival in zip(changes.blocks, blocks, numbers, strict=True):
            runs, bounds = head.runs, bounds_of.get(head.type)
            if bounds is None:
                if self.is_derived(head.type):
                    ingress.reject(head, block, "derived", f"detectors derive {head.type}: publish what they read instead")
                    continue
                # before these: what its publisher promises with them holds after them
                had_ended = self._for_subscribers.has_ended_by(key, head.type)
                bounds = bounds_of[head.type] = Bounds(END if had_ended else self._promised(head.type), high)
            for fresh in ingress.admit(head, block, head.type in reads, bounds):
                fresh[0].arrival = arrival
                admitted.append(fresh)
                if logs:
                    heads.append(msgspec.structs.replace(fresh[0], runs=runs) if runs and fresh[1] is block else fresh[0])
                newest = max(newest, newest_in(*fresh, high))
        if newest != NEVER:
            self.sources.reached(key, newest, now)
        clock, taken = changes.clock, self.sources[key].newest
        if clock is not None and clock > taken:  # it tells of what was turned away, now or long ago: that moves no clock
            clock = taken if taken != NEVER else None
        if not logs and clock is changes.clock:
            return admitted, changes
        return admitted, msgspec.structs.replace(changes, clock=clock, blocks=heads)

    def _numbers(self, blocks: Sequence[BlockHead]) -> Sequence[int]:
        """For each block of a payload the number of its arrival. Blocks whose events have an order among them share one; blocks
        of one type came one after the other; others have none: 0.
        """
        count, first = len(blocks), self._arrivals + 1
        if count < 2 or all(head.places or not head.inserts for head in blocks):
            self._arrivals += 1
            return [first] * count
        if len({head.type for head in blocks}) > 1 or any(head.places for head in blocks):
            return [0] * count
        self._arrivals += count
        return range(first, first + count)

    def _promised(self, name: str) -> int:
        """The largest promise of this node to anyone for a type: nothing as old may come in any more."""
        return max([promises.floor(name) for promises in self._views])

    def clock_behind(self) -> list[Behind]:
        """What others say of this node's clock, if that is new."""
        sources = self.sources
        if abs(sources.behind - sources.former) <= SECOND:
            return []
        sources.former = sources.behind
        return [Behind(sources.behind)]

    @property
    def idle(self) -> Collection[str]:
        """The types of publishers of this node, while all of them are silent or gone."""
        return self.sources.types if self.sources.is_quiet else ()

    def promise_on_behalf(self, clock: int | None, peers: Collection[Peer], reads: Collection[str], now: int) -> list[OnBehalf]:
        """Promise in the place of publishers that have fallen silent; returns the new promises. O(peers).

        ``reads``: types that the local detectors read. If all are silent, types never sent hold nothing back either.
        """
        held = [peer.key for peer in peers if peer.link.held or peer.link.shut or peer.link.awaits]
        if self.sources.is_astir(clock, now) and not held:
            return []
        promised: list[OnBehalf] = []
        silent, is_quiet = self.sources.tick(clock, now, held)
        if not is_quiet and any(promises.is_idle(None) for promises in self._views):
            promised.append(OnBehalf(None, {}))
        if clock is None or not (silent or is_quiet):
            self.sources.is_quiet = False
            for each in promised:
                self.again(each)
            return promised
        offered: dict[Hashable, frozenset[str]] = {peer.key: peer.offered for peer in peers}
        for key in silent:
            source = self.sources[key]
            if source.on_behalf != clock or is_quiet != self.sources.is_quiet:
                source.on_behalf = clock
                # a type that is left out would be open again, even if the publisher has ended it
                if types := source.promised.keys() | (offered[key] if is_quiet else ()):
                    watermarks = {name: max(clock, source.promised.get(name, NEVER)) for name in types}
                    promised.append(OnBehalf(cast(PeerKey, key), watermarks))
        if is_quiet and not self.sources.is_quiet:
            idle = self.sources.types.union(self._views[-1].never_offered(reads))
            promised.append(OnBehalf(None, dict.fromkeys(idle, clock)))
        self.sources.is_quiet = is_quiet
        for each in promised:
            self.again(each)
        return promised

    def again(self, promised: OnBehalf) -> None:
        """Make this promise, for the first time or after a crash."""
        for promises in self._views:
            if promised.peer is not None:
                promises.promise(promised.peer, promised.watermarks)
            else:
                promises.set_idle(None, promised.watermarks)
