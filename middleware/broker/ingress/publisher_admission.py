"""Where publishers come in: what each may send, within which times, and what the node promises for idle publishers.

The rules are those of ``sources``; this is how a broker applies them to its promises.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import cast

import msgspec

from middleware.broker.ingress.checks import Ingress
from middleware.broker.ingress.publisher_rows import Admitted, Bounds, newest_in
from middleware.broker.ingress.sources import SourcePolicy, Sources
from middleware.broker.ingress.withheld import WaitingRoom, blocks_of
from middleware.broker.log.log_records import ClockCorrection, ConfirmedEvents, IdlePromise, LogEntry, PeerKey, Withholding
from middleware.broker.peers.peers import Peer
from middleware.broker.peers.rights import Rights, Sender
from middleware.broker.watermarks.combining import CombinedWatermarks
from middleware.link.codec import MOST_TYPES, BlockHead, Changes, Interest
from middleware.model.event import END, MAX_TS, NEVER, EventTypes
from middleware.model.time import MILLISECOND, SECOND

GROWTH = 100 * MILLISECOND
"""How much a promise that counts in part must grow to be announced again."""


class Admission:
    """See the module.

    ``views``: the promises in which publishers count, first those that hold for everyone. ``nodes``: the others configured.
    """

    def __init__(
        self,
        types: EventTypes,
        views: Sequence[CombinedWatermarks],
        policy: SourcePolicy | None,
        now: int,
        nodes: Collection[PeerKey] = (),
    ) -> None:
        self.sources = Sources(policy if policy is not None else SourcePolicy(), now, nodes)
        self._types, self._views, self._for_subscribers = types, views, views[0]
        self.room = WaitingRoom()
        self._entries: list[LogEntry] = []
        self._arrivals = 0

    def known(self, names: Iterable[str], rights: Rights | None = None) -> frozenset[str]:
        """The types named by a publisher that it may send; if no types are registered, the first MOST_TYPES named.

        It may not send what detectors derive: a promise for such a type, or its absence, would hold back true results.
        """
        raw = frozenset(name for name in names if not self._for_subscribers.is_derived(name))
        if rights is not None:
            raw = frozenset(filter(rights.may_publish, raw))
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
        self.room.leaving.discard(key)
        self._withholds(key, now)
        self.sources[key].promised = dict.fromkeys(self._for_subscribers.ended_by(key), END)
        self.wall_announced(key, wall, now)
        return self.sources.clock_in_doubt(now)

    def wall_announced(self, key: PeerKey, wall: int, now: int) -> None:
        """A peer announces what its clock shows (0: it does not know); the clocks of readers do not count."""
        if wall and key[0] != "subscriber":
            self.sources.wall_announced(key, wall, now)

    def offered(self, names: Iterable[str]) -> None:
        """A publisher offers these types."""
        self.sources.types.update(names)

    def offers(self, interest: Interest) -> Interest:
        """What a publisher offers, without the types that it may not send."""
        known = self.known(interest.raw)
        self.offered(known)
        return msgspec.structs.replace(interest, raw=sorted(known))

    def received(self, key: PeerKey, changes: Changes, now: int, offered: frozenset[str]) -> Changes:
        """The changes of a publisher, without watermarks of types that it may not send, and so has not ``offered``."""
        self.sources.received(key, now)
        source, watermarks = self.sources[key], changes.watermarks
        if watermarks is not None:
            if not offered.issuperset(watermarks):
                watermarks = {name: at for name, at in watermarks.items() if name in offered}
            source.promised = watermarks
        elif source.idle_promise is not None:
            watermarks = self.room.of(key).promised or source.promised  # it speaks for itself again
        source.idle_promise = None
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
        sender: Sender | None = None,
    ) -> tuple[list[Admitted], Changes]:
        """The admitted blocks of a publisher's payload, and the header as the node logs it (if it ``logs``), in which
        identities stay as given."""
        admitted: list[Admitted] = []
        heads: list[BlockHead] = []
        numbers = self._numbers(changes.blocks)
        bounds_of: dict[str, Bounds] = {}  # what is promised does not change before all these are in
        high, newest, before = self._limit(key, changes.blocks, now), NEVER, len(ingress.rejected)
        for head, block, arrival in zip(changes.blocks, blocks, numbers, strict=True):
            runs, bounds = head.runs, bounds_of.get(head.type)
            if bounds is None:
                if self.is_derived(head.type):
                    ingress.reject(head, block, "derived", f"detectors derive {head.type}: publish what they read instead")
                    continue
                if sender is not None and sender.rights is not None and not sender.rights.may_publish(head.type):
                    may = ", ".join(sorted(sender.rights.publish)) or "nothing"
                    ingress.reject(head, block, "right", f"{sender.name} may publish {may}, not {head.type}")
                    continue
                # before these: what its publisher promises with them holds after them
                had_ended = self._for_subscribers.has_ended_by(key, head.type)
                bounds = bounds_of[head.type] = Bounds(END if had_ended else self._promised(head.type), high)
            for fresh in ingress.admit(head, block, head.type in reads, bounds, sender=sender):
                fresh[0].arrival = arrival
                admitted.append(fresh)
                if logs:
                    heads.append(msgspec.structs.replace(fresh[0], runs=runs) if runs and fresh[1] is block else fresh[0])
                newest = max(newest, newest_in(*fresh, high))
        if newest != NEVER:
            self.sources.reached(key, newest, now)
        if len(ingress.rejected) > before:
            self._withhold(key, ingress, before, {name: bounds.low for name, bounds in bounds_of.items()}, now)
        watermarks = changes.watermarks
        if watermarks is not None:
            watermarks = self._promises(key, watermarks, now)
        clock, taken = changes.clock, self.sources[key].newest
        if clock is not None and clock > taken:  # it comes from rejected events: those move no clock
            clock = taken if taken != NEVER else None
        if not logs:
            if clock is changes.clock and watermarks is changes.watermarks:
                return admitted, changes
            heads = changes.blocks
        return admitted, msgspec.structs.replace(changes, clock=clock, watermarks=watermarks, blocks=heads)

    # -- what waits ---------------------------------------------------------------------------------------------------

    def _limit(self, key: PeerKey, heads: Sequence[BlockHead], now: int) -> int:
        """The time up to which events of a payload are taken at once."""
        if len(heads) == 1:  # nearly always
            head = heads[0]
            least = NEVER if head.oldest is None else head.oldest
            most = NEVER if head.newest is None else head.newest
            return min(self.sources.limit(key, least, most, now, bool(self._for_subscribers.open)), MAX_TS - 1)
        if not heads:
            return MAX_TS - 1
        oldest, newest = [head.oldest for head in heads], [head.newest for head in heads]
        least = NEVER if None in oldest else min(cast(list[int], oldest))
        most = NEVER if None in newest else max(cast(list[int], newest))
        return min(self.sources.limit(key, least, most, now, self._is_by_clock), MAX_TS - 1)

    @property
    def _is_by_clock(self) -> bool:
        return bool(self._for_subscribers.open)

    def _withhold(self, key: PeerKey, ingress: Ingress, before: int, low: Mapping[str, int], now: int) -> None:
        """Let events wait that were rejected only because nothing bears out their times yet.

        Events beyond the wall clock for which there is no room are rejected, while others are there; else their publisher
        gets no credit (``is_over``).
        """
        room, most, beyond = self.room, self.sources.most(now), self.sources.rejects_beyond(key, now)
        rejected, waiting = [], []
        for event in ingress.rejected[before:]:
            is_far = event.ts >= most or (event.ts > beyond and not room.fits(key, event))
            if event.reason != "ahead" or event.change != "insert" or is_far or event.ts <= low.get(event.type, NEVER):
                rejected.append(event)
            elif room.add(key, event):
                waiting.append(event)
            else:
                ingress.drops["duplicate"] += 1
        ingress.rejected[before:] = rejected
        if waiting:
            self._entries.append(Withholding(key, waiting))
            self._withholds(key, now)

    def _withholds(self, key: PeerKey, now: int) -> None:
        order = self.room.of(key).order
        self.sources.withholds(key, order[-1][0] if order else NEVER, now)

    def _promises(self, key: PeerKey, promised: dict[str, int], now: int) -> dict[str, int]:
        """As much of what a publisher promises as counts now; the rest waits. O(types)."""
        counted, latest = promised, _latest(promised)
        if self.room or latest > self.sources.counted(latest, now):
            waiting, counted = self.room.of(key), self._counted(key, promised, now)
            rest = promised if counted != promised else {}
            if rest != waiting.promised:
                self._entries.append(Withholding(key, [], dict(rest)))
            if rest or waiting.promised:
                self.room.promises(key, rest, counted)
            latest = _latest(counted)
        if key in self.sources:
            self.sources[key].promised = counted
            if latest != NEVER:
                self.sources.claims(key, latest, now)
            elif counted:
                self.sources.ended(key)
        return counted

    def _counted(self, key: PeerKey, promised: Mapping[str, int], now: int) -> dict[str, int]:
        """What counts of promises: less than the first event of each type that waits, and no time that nobody has reached."""
        least, count = self.room.of(key).least, self.sources.counted
        return {
            name: min(count(min(at, END - 1), now), least[name] - 1) if name in least else count(at, now)
            for name, at in promised.items()
        }

    def release(self, ingress: Ingress, reads: Collection[str], now: int) -> Iterator[tuple[PeerKey, list[Admitted], Changes]]:
        """The events whose times are borne out by now, and the promises that count further than before."""
        for key in self.room.keys:
            admitted: list[Admitted] = []
            taken = self.room.take(key, count) if (count := self._borne_out(key, now)) else []
            if taken:
                self._entries.append(ConfirmedEvents(key, count))
                self._withholds(key, now)
                newest, self._arrivals = NEVER, self._arrivals + 1
                for head, block in blocks_of(taken):
                    for fresh in ingress.admit(head, block, head.type in reads, Bounds(self._promised(head.type), MAX_TS - 1)):
                        fresh[0].arrival = self._arrivals
                        admitted.append(fresh)
                        newest = max(newest, newest_in(*fresh, MAX_TS))
                if newest != NEVER:
                    self.sources.reached(key, newest, now)
            watermarks = self._grown(key, now)
            if admitted or watermarks is not None:
                clock = newest if admitted and newest != NEVER else None
                yield key, admitted, Changes(clock, watermarks, [head for head, _, _ in admitted])

    def _borne_out(self, key: PeerKey, now: int) -> int:
        """How many of the first events of a publisher that waits are borne out: all up to the latest one that is."""
        order, sources, by_clock = self.room.of(key).order, self.sources, self._is_by_clock
        wall, count = sources.wall(now), 0
        starts = {0} if wall is None else {0, bisect_left(order, (wall - sources.policy.ahead, "", 0))}
        for start in sorted(starts):
            while max(start, count) < len(order) and sources.is_borne_out(key, order[max(start, count)][0], now, by_clock):
                count = max(start, count) + 1
        return count

    def _grown(self, key: PeerKey, now: int) -> dict[str, int] | None:
        """What a publisher promised, as far as it counts by now; None if that is hardly more than before."""
        waiting = self.room.of(key)
        if not (promised := waiting.promised):
            return None
        counted, was = self._counted(key, promised, now), waiting.counted
        if not any(
            at - was.get(name, NEVER) >= GROWTH or at == promised[name] != was.get(name) for name, at in counted.items()
        ):
            return None
        if key in self.sources and self.sources[key].idle_promise is not None:  # the node promises no less for it
            self.sources[key].promised, self.sources[key].idle_promise = counted, NEVER
            self.room.promises(key, promised, counted)
            return None
        return self._promises(key, promised, now)

    def remains(self, key: PeerKey) -> list[str]:
        """Types that a publisher ended before it left, of which events still wait: END counts once these are taken.

        Until then it is to stay, with these types alone. Whatever else it promised is forgotten.
        """
        waiting = self.room.of(key)
        ended = {name: END for name, at in waiting.promised.items() if at == END and name in waiting.least}
        if ended != waiting.promised:
            self.room.promises(key, ended, waiting.counted)
            self._entries.append(Withholding(key, [], ended))
        if ended:
            self.room.leaving.add(key)
        return sorted(ended)

    def gone(self) -> list[PeerKey]:
        """Publishers that left some time ago, and of which nothing waits any more; each is named once."""
        if not self.room.leaving:
            return []
        gone = [key for key in self.room.leaving if not self.room.of(key).order]
        self.room.leaving.difference_update(gone)
        return gone

    def stalled(self) -> Collection[PeerKey]:
        """Publishers of which more waits than there is room for: they must not send more."""
        return [key for key in self.room.keys if self.room.is_over(key)] if self.room else ()

    def entries(self) -> list[LogEntry]:
        """What the log is to hold of what waits, since the last call."""
        entries, self._entries = self._entries, []
        return entries

    def replay_waiting(self, entry: Withholding | ConfirmedEvents) -> None:
        """Replay an entry of the log."""
        room = self.room
        if type(entry) is ConfirmedEvents:
            room.take(entry.peer, entry.count)
        elif type(entry) is Withholding:
            for event in entry.events:
                room.add(entry.peer, event)
            if entry.promised is not None:
                room.promises(entry.peer, entry.promised, {})

    def _numbers(self, blocks: Sequence[BlockHead]) -> Sequence[int]:
        """For each block of a payload the number of its arrival. Blocks whose events have an order among them share one; blocks
        of one type came one after the other; others have none: 0.
        """
        count, first = len(blocks), self._arrivals + 1
        if count < 2 or all(head.arrival_order or not head.inserts for head in blocks):
            self._arrivals += 1
            return [first] * count
        if len({head.type for head in blocks}) > 1 or any(head.arrival_order for head in blocks):
            return [0] * count
        self._arrivals += count
        return range(first, first + count)

    def _promised(self, name: str) -> int:
        """The largest promise of this node to anyone for a type: nothing as old may come in any more."""
        floor = NEVER
        for promises in self._views:
            if (at := promises.floor(name)) > floor:
                floor = at
        return floor

    def clock_behind(self) -> list[ClockCorrection]:
        """How far the clocks of others are ahead of this node's, if that is new."""
        sources = self.sources
        if abs(sources.behind - sources.former) <= SECOND:
            return []
        sources.former = sources.behind
        return [ClockCorrection(sources.behind)]

    @property
    def idle(self) -> Collection[str]:
        """The types of publishers of this node, while all of them are silent or gone."""
        return self.sources.types if self.sources.is_quiet else ()

    def promise_for_idle(
        self, clock: int | None, peers: Collection[Peer], reads: Collection[str], now: int
    ) -> list[IdlePromise]:
        """Promise for publishers that have fallen idle; returns the new promises. O(peers).

        ``reads``: types that the local detectors read. If all are silent, types never sent hold nothing back either.
        """
        exempt = [peer.key for peer in peers if (link := peer.link).credit_paused or link.shut or link.awaits]
        if self.sources.is_astir(clock, now) and not exempt:
            return []
        promised: list[IdlePromise] = []
        silent, is_quiet = self.sources.tick(clock, now, exempt)
        if not is_quiet and any(promises.is_idle(None) for promises in self._views):
            promised.append(IdlePromise(None, {}))
        if clock is None or not (silent or is_quiet):
            self.sources.is_quiet = False
            for each in promised:
                self.again(each)
            return promised
        offered: dict[Hashable, frozenset[str]] = {peer.key: peer.offered for peer in peers}
        for key in silent:
            source = self.sources[key]
            if source.idle_promise != clock or is_quiet != self.sources.is_quiet:
                source.idle_promise = clock
                # a type without a promise would be open again, even if the publisher has ended it
                if types := source.promised.keys() | (offered[key] if is_quiet else ()):
                    watermarks = {name: max(clock, source.promised.get(name, NEVER)) for name in types}
                    promised.append(IdlePromise(cast(PeerKey, key), watermarks))
        if is_quiet and not self.sources.is_quiet:
            idle = self.sources.types.union(self._views[-1].never_offered(reads))
            promised.append(IdlePromise(None, dict.fromkeys(idle, clock)))
        self.sources.is_quiet = is_quiet
        for each in promised:
            self.again(each)
        return promised

    def again(self, promised: IdlePromise) -> None:
        """Make this promise, for the first time or after a crash."""
        for promises in self._views:
            if promised.peer is not None:
                promises.promise(promised.peer, promised.watermarks)
            else:
                promises.set_idle(None, promised.watermarks)


def _latest(promised: Mapping[str, int]) -> int:
    """The largest of these promises, except those of ended types; NEVER if there is none."""
    latest = NEVER
    for at in promised.values():
        if latest < at != END:
            latest = at
    return latest
