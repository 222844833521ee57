"""What goes out to readers: events as they come, or from the log to one that is behind; at a step's end watermarks and news."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

import msgspec
from msgspec.structs import replace

from middleware.broker.ingress.publisher_admission import Admission
from middleware.broker.log.log_records import BREAK, LogOffset, PeerKey
from middleware.broker.log.null_log import AnyLog
from middleware.broker.peers.offering import Offering, with_log
from middleware.broker.peers.peers import Peer
from middleware.broker.routing import RoutingTable, is_subscribed
from middleware.broker.watermarks.tracker import WatermarkTracker
from middleware.link.codec import BLOCK_TARGET, BlockHead, Gap, Interest, LastCommit, Ready, encode
from middleware.model.event import END, NEVER

_missing = msgspec.msgpack.Decoder(tuple[list[str], list[str]]).decode


class Outbound:
    """See the module. ``peers``: those attached now. ``events``: how many have been sent. ``table``: who subscribes to which
    types.

    ``gathering``: names of the nodes that have not been here yet.
    """

    def __init__(
        self,
        peers: Mapping[PeerKey, Peer],
        log: AnyLog,
        tracker: WatermarkTracker,
        admission: Admission,
        offering: Offering,
        gathering: Collection[str],
    ) -> None:
        self.events = 0
        self.table: RoutingTable[Peer] = RoutingTable()
        self._peers, self._log, self._tracker, self._admission = peers, log, tracker, admission
        self._offering, self._gathering = offering, gathering

    def begin(self, peer: Peer, interest: Interest, oldest: int) -> bool:
        """A reader has attached: it resumes where it was, if there is a log, and reads nothing up to the offset ``oldest``.
        Returns whether it got a Gap first.

        Without a log there is a gap, too, for a reader that was here before: it finds that out by itself.
        """
        log = self._log
        peer.begun, peer.begun_in_log = True, log.keeps
        start, is_gap = log.start_of(peer.key, interest)
        if start < oldest:
            start, is_gap = oldest, True
        if is_gap:
            peer.link.send([encode(Gap(log.line, start))])
        reader = log.readers.get(peer.key)
        if reader is not None and reader.named and not interest.line:
            peer.link.send([encode(LastCommit(reader.commit_for(interest.after)[1]))])
        if start < log.offset:
            peer.behind = start
        return is_gap

    def forward(self, head: BlockHead, block: bytes, local: bool) -> None:
        """Queue a block, the last one in the log, for all subscribers that are not behind; ``local``: it originates here."""
        number = self._log.offset
        for peer in self.table.route(head.type):
            if (local or peer.role == "subscriber") and peer.behind is None:
                peer.take(head, block, number)
                self.events += head.count

    def give(self, peer: Peer, blocks: Iterable[tuple[BlockHead, bytes]]) -> None:
        """Queue the blocks that a peer subscribes to, which are in no log."""
        for head, block in blocks:
            if is_subscribed(peer.patterns, head.type):
                peer.take(head, block, 0)
                self.events += head.count

    def lack(self, missing: Collection[str], here: Collection[str], now: int) -> None:
        """Changes of types from another node are missing, and of those made ``here`` from them: send readers a Gap, after all
        that came before. Other nodes get one only for ``here``: where ``missing`` came from, they notice the gap themselves.
        With none ``missing``, the detectors that make ``here`` have stopped. Readers that are behind come to it in their time.
        """
        self._log.broken(sorted(missing), sorted(here))
        for peer in self._peers.values():
            if peer.behind is None:
                _send_gap(peer, missing, here, self._log.log_offset, now, partial(is_subscribed, peer.patterns))

    def post(self, peer: Peer, interest: Interest, now: int, is_urgent: bool = False) -> None:
        """Send, on a new link, first who this node is (``interest``), then changes, watermarks, and other news: nothing arrives
        before what it depends on, and no peer mistakes a node that has begun anew for the old one. ``is_urgent``: nodes get new
        watermarks at once."""
        if not peer.link.up or peer.role == "publisher":
            peer.tell_account(now)
            return
        is_node, log, ever = peer.role == "node", self._log, self._admission.sources.types if self._log.keeps else ()
        log_offset = self._tracker.log_offsets.get(peer.name, (0, 0))
        if is_new := is_node and not peer.sent_interest[0]:
            peer.send_interest(with_log(interest, peer, ever), log_offset)
        if peer.begun_in_log:
            note_passed(peer, log)
            self.events += serve(peer, log, now)
        interest = with_log(interest, peer, ever)
        is_due = is_node and peer.sent_interest != (interest.number, len(interest.logged)) and not peer.interests.is_full
        if peer.begun and peer.behind is None:
            deferred = not is_node and bool(self._gathering)  # a peer that is still to come may send any of it, too
            self._post_news(peer, now, deferred=deferred, urgent=is_due or is_new or (is_node and is_urgent))
        if is_due:
            peer.send_interest(interest, log_offset)
        if peer.ready_number is not None and not peer.is_clogged and self._is_known_everywhere(interest):
            peer.link.send([encode(Ready(peer.ready_number))])
            peer.ready_number = None

    def _is_known_everywhere(self, interest: Interest) -> bool:
        nodes = (peer for peer in self._peers.values() if peer.role == "node" and peer.link.up)
        return not self._gathering and all(peer.interests.taken >= interest.number for peer in nodes)

    def interest(self, paused: frozenset[str]) -> Interest:
        """The present Interest of this node; ``paused``: patterns of types it has no room for."""
        return self._offering.current(self._peers.values(), self.table, self._log, self._tracker, paused)

    def _post_news(self, peer: Peer, now: int, *, deferred: bool, urgent: bool) -> None:
        """Send what waits for a peer, then new watermarks and clock marks, so that none overtakes the events it rests on.

        ``deferred``: nothing can be promised yet, as to a reader that takes nothing: the next promise replaces this one.
        ``urgent``: watermarks are due, however recent the last ones are.
        """
        is_node, tracker, table = peer.role == "node", self._tracker, self.table
        promises = tracker.for_nodes if is_node else tracker.for_subscribers
        clock = tracker.clock_here if is_node else NEVER
        watermarks = None
        if not is_node and peer.link.queued_bytes and peer.is_clogged:
            deferred = True
        if not deferred and (urgent or peer.news_due(promises.version, clock, now, promises.turns, len(promises.values))):
            known = promises.ends if is_node else ()  # all nodes know what has ended: a publisher of it begins a generation
            watermarks = {name: until for name, until in promises.values.items() if name in known or peer in table.route(name)}
            if is_node:  # nothing is promised for types that no one here sends any more, or others would wait for them;
                idle = self._admission.idle  # but while all are idle, no one else knows it
                sent = tracker.for_nodes.offered(lambda origin: True).union(idle)
                watermarks = {name: until for name, until in watermarks.items() if until == END or name in sent}
            else:
                watermarks |= {name: NEVER for name in promises.open if peer in table.route(name)}
        if watermarks is None and (deferred or not peer.may_tick(promises.turns)):
            clock = NEVER
        peer.post(watermarks, promises.version, clock, now, self._log.log_offset, promises.turns)


def _send_gap(
    peer: Peer, names: Collection[str], here: Iterable[str], log_offset: LogOffset, now: int, subscribes: Callable[[str], bool]
) -> None:
    missing = {*here} if peer.role == "node" else {*names, *here}
    if types := sorted(filter(subscribes, missing)):
        # one offset back: a reader that has only these blocks gets the gap again
        peer.post(None, -1, NEVER, now, (log_offset[0], max(log_offset[1] - 1, 0)))
        peer.link.send([encode(Gap(*log_offset, types, not names))])


def note_passed(peer: Peer, log: AnyLog) -> None:
    """Note how far a reader has got, by what its link has acknowledged, if it does not say so itself."""
    passed = peer.passed()
    reader = log.readers.get(peer.key)
    if passed is not None and reader is not None and not reader.named:
        log.moved(peer.key, passed)


def serve(peer: Peer, log: AnyLog, now: int) -> int:
    """Serve a reader from the log while it is behind and has room; returns how many events it was given. O(bytes)."""
    served, reader = 0, log.readers.get(peer.key)

    def subscribes(name: str) -> bool:
        return is_subscribed(peer.patterns, name) and (reader is None or reader.was_subscribed(number, name))

    while peer.behind is not None and peer.link.queued_bytes < BLOCK_TARGET:
        blocks, reached = log.blocks_after(peer.behind)
        first = blocks[0][0] if blocks else max(log.oldest, reached) + 1
        if first > peer.behind + 1:  # what it was still to get was cut off the log meanwhile, or cannot be read
            peer.link.send([encode(Gap(log.line, first - 1))])
        for number, local, head, block in blocks:
            if head.type == BREAK:
                _send_gap(peer, *_missing(block), (log.line, number), now, subscribes)
            elif (local or peer.role == "subscriber") and subscribes(head.type):
                peer.take(replace(head, runs=None), block, number)
                served += head.count
        reached = max(reached, first - 1)
        peer.behind = reached if reached < log.offset else None
        if peer.behind is not None:
            peer.post(None, -1, NEVER, now, (log.line, reached))
    return served
