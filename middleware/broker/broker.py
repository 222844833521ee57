"""The broker of a node: links, subscriptions, forwarding, watermarks, and backpressure to the sources. No I/O, no clock.

Nodes are meshed fully, one link for each pair; publishers and subscribers attach to any node. A node sends its peers
only what originates here (from its own publishers and detectors), and only if someone there wants it: so nothing runs
in circles and nothing arrives twice. One step of the owner is: ``receive`` what has arrived, ``take`` the batch for the
local detectors, ``publish`` what they made of it, ``settle``, and do what the effects say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec
import xxhash

from middleware.broker.backpressure import Pressure
from middleware.broker.effects import BrokerStatistics, Effects
from middleware.broker.inbox import Inbox, times_by_type
from middleware.broker.ingress.checks import Ingress
from middleware.broker.ingress.owners import Owners
from middleware.broker.ingress.publisher_admission import Admission
from middleware.broker.ingress.publisher_rows import Admitted
from middleware.broker.ingress.receipts import REJECTIONS, tally
from middleware.broker.ingress.sources import SourcePolicy
from middleware.broker.log.history import History
from middleware.broker.log.log_records import BREAK, PeerKey, Withholding
from middleware.broker.log.null_log import AnyLog, NullLog
from middleware.broker.merge import retractions_first
from middleware.broker.outbound import Outbound
from middleware.broker.peers.attachments import Attachments
from middleware.broker.peers.offering import Offering
from middleware.broker.peers.peers import Channel, Peer
from middleware.broker.peers.rights import Rights, Sender
from middleware.broker.routing import check_pattern
from middleware.broker.startup_barrier import StartupBarrier
from middleware.broker.watermarks.covering import Covering
from middleware.broker.watermarks.reopening import Reopening
from middleware.broker.watermarks.tracker import WatermarkTracker
from middleware.broker.watermarks.waiting import NodeStatus, UnitStatus, status_of
from middleware.link.codec import (
    LARGEST_BLOCK,
    MOST_TYPES,
    Answer,
    Changes,
    Commit,
    Cover,
    Drops,
    EventCodec,
    Gap,
    Interest,
    Payload,
    Question,
    Ready,
    Release,
    decode_payload,
    is_interest,
)
from middleware.link.encoding import encode_delta
from middleware.link.frames import Data, Hello, Parts, Refusal, decode_frame
from middleware.model.change import Batch
from middleware.model.errors import EventError, WireError
from middleware.model.event import END, Event, EventTypes
from middleware.model.time import SECOND

ABSENCE = 2 * SECOND
"""A broker that was not called for longer than this was away itself."""


class Broker:
    """See the module.

    ``peers``: names of the nodes to dial; the channel to each is its name. ``rights``: returns the rights of the key behind a
    channel, if there are keys: only the owner of a dialled node's key can be that node, so only nodes can send derived events.
    ``derivations``: by type read, the publications that depend on it and may be wrong where it is missing. ``backdate``: how
    much earlier than raw events results may be, over all levels. ``log``: what its steps are noted in, if it is to resume where
    its former life ended.

    Its parts (``tracker``, ``ingress``, ``admission``, ``reopening``, ``inbox``, ``attachments``, ``to_come``) are for what
    saves and restores them, and for who looks at a broker; only the broker and a recovery change them.
    """

    def __init__(
        self,
        name: str,
        epoch: int,
        now: int,
        *,
        types: EventTypes | None = None,
        subscriptions: Collection[str] = (),
        publications: Collection[str] = (),
        derivations: Mapping[str, Collection[str]] | None = None,
        backdate: int = 0,
        peers: Iterable[str] = (),
        rights: Callable[[Channel], Rights | None] = lambda channel: None,
        log: AnyLog | None = None,
        sources: SourcePolicy | None = None,
    ) -> None:
        self.name, self.subscriptions, self.publications = name, frozenset(subscriptions), frozenset(publications)
        self.drops: Drops = Counter()
        if len(self.publications) > MOST_TYPES:
            raise EventError(f"node {name} would publish {len(self.publications):,} types; others take {MOST_TYPES:,} at most")
        self._derivations = derivations if derivations is not None else {}
        self._rests = {name: self._derivations.get(name, self.publications) for name in self.subscriptions}
        self.types = types if types is not None else EventTypes()
        self.log: AnyLog = log if log is not None else NullLog()
        codec = EventCodec(self.types, in_columns=True)
        self.ingress = Ingress(self.types, codec, Drops())
        self.inbox = Inbox(self.subscriptions, codec, self.drops, self.ingress)
        self.tracker = WatermarkTracker(self.publications, backdate, self.subscriptions)
        self.reopening = Reopening(self.tracker, self.log)
        self._is_shutting = False
        self._newcomers: dict[PeerKey, int] = {}
        self.attachments = Attachments(name, epoch, now, peers, rights, self.drops, self._remove)
        nodes: list[PeerKey] = [("node", each) for each in self.attachments.configured]
        self.admission = Admission(self.types, self.tracker.publishers, sources, now, nodes)
        self.sources = self.admission.sources
        self._peers = self.attachments.peers
        self.ingress.owners = Owners(self._is_here)
        self.senders: dict[PeerKey, Sender] = {}  # of a former life, while it is replayed
        self.covering = Covering(self.tracker, self.log, self._peers)
        self.to_come = StartupBarrier(self.attachments.configured, self.tracker, self.log, now)
        self._missing = self.to_come.missing
        self._pressure, self._offering = Pressure(self.sources.policy.hold), Offering(self.subscriptions, self.publications)
        self._outbound = Outbound(self._peers, self.log, self.tracker, self.admission, self._offering, self._missing)
        self._table = self._outbound.table
        self.history = History()
        self._now, self._settled_at, self._exempted = now, now, False
        self._closing: str | None = None
        self._events_in = self._events_before = 0

    # -- channels and links -------------------------------------------------------------------------------------------

    def receive(self, channel: Channel, parts: Parts, now: int) -> None:
        """Take a message. Whatever it holds, it does no harm: what cannot be taken is counted in ``drops``."""
        self._now = now
        try:
            frame = decode_frame(parts[0] if parts else b"")
        except WireError:
            self.drops["malformed frame"] += 1
            return
        peer = self.attachments.on(channel)
        if type(frame) is Hello and (peer is None or not peer.link.dials):
            peer = self._greeted(channel, frame)
        if peer is None:
            if type(frame) is not Hello and type(frame) is not Refusal:
                self.drops["frame of an unknown link"] += 1
                self.attachments.refuse(channel, f"node {self.name} does not know this link: say Hello", final=False)
            return
        if self.tracker.outlived:
            self.tracker.outlived.pop(peer.key, None)
        if peer.role == "publisher" and type(frame) is Data and self._closing is not None:
            return  # not acknowledged, so the publisher knows that it was not taken
        payload = peer.link.receive(frame, parts[1:], now)
        if type(frame) is Hello and peer.link.peer is frame:
            self.admission.wall_announced(peer.key, frame.wall, now)
        if payload is not None:
            self._received(peer, payload)

    def wall_is(self, wall: int, now: int) -> None:
        """Set Unix time at ``now``: it decides what lies in the future. To be called now and then, as the clock may be set."""
        self.sources.wall_is(wall, now)

    def disconnected(self, channel: Channel, now: int) -> None:
        """The runtime has noticed that a channel broke."""
        if (peer := self.attachments.on(channel)) is not None:
            peer.link.broken()

    def _is_here(self, name: str) -> bool:
        """Whether a publisher is attached, and its link received something a moment ago."""
        peer = self._peers.get(("publisher", name))
        return peer is not None and not peer.link.is_quiet(self._now)

    def _may_succeed(self, peer: Peer) -> bool:
        """Whether a publisher has just come, and another one may have died whose sources it would take over.

        It waits until the other one sends something or misses its heartbeats: else the events of a program that was killed and
        started again would be rejected as events of another's source.
        """
        since = self._newcomers.get(peer.key)
        if since is None:
            return False
        for other in self._peers.values():
            if other.role != "publisher" or other is peer or other.rights is not None or other.link.has_received_since(since):
                continue
            if not other.link.is_quiet(self._now) and self.ingress.owners.is_owner(other.name):
                return True
        del self._newcomers[peer.key]
        return False

    def read_rights_again(self) -> None:
        """The rights of keys may have changed: what publishers may offer does at once, and readers of more than they may are
        refused."""
        self.attachments.read_rights_again()
        for peer in list(self._peers.values()):
            if peer.rights is None:
                continue
            if peer.role == "publisher" and (left := self.admission.known(peer.offered, peer.rights)) != peer.offered:
                peer.offered = frozenset()
                self._offer_more(peer, left)
            elif peer.role == "subscriber" and (against := peer.rights.objection_to_reading(peer.patterns)) is not None:
                peer.link.refuse(f"node {self.name}: {against}")

    def expel(self, channel: Channel, reason: str) -> None:
        """The peer behind a channel is not allowed here any more."""
        if (peer := self.attachments.on(channel)) is not None:
            peer.link.refuse(f"node {self.name}: {reason}")

    def _greeted(self, channel: Channel, hello: Hello) -> Peer | None:
        """The peer that says Hello on a channel of its own, new or known; None if it is refused."""
        peer, is_new = self.attachments.greeted(channel, hello, self._now, self._closing is not None)
        if peer is not None and is_new:
            peer.link.wall = self.sources.own_wall
            if peer.role == "publisher":
                self.joined.append(peer.key)
                if peer.rights is None and not peer.sender.shares:
                    self._newcomers[peer.key] = self._now
                peer.link.credit_paused = self.admission.attach(peer.key, hello.wall, self._now) or bool(self._missing)
        return peer

    def _remove(self, peer: Peer, reason: str, returns: bool = False) -> None:
        """The peer is gone, for whatever reason: nothing waits for it, nothing is held back by it.

        Its promises hold if it comes back as the same: because it ``returns`` at this moment, or has a log.
        """
        there = self.attachments
        there.forget(peer)
        self._newcomers.pop(peer.key, None)
        self._table.subscribe(peer, ())
        if peer.key in self.tracker.durable:
            there.lost[peer.key] = self._now
        elif peer.role == "node" and peer.name in there.configured and not reason.startswith("said goodbye"):
            self.tracker.lost(peer.key)  # it may be cut off, with publishers of its own: nothing ends without it
            there.lost[peer.key] = self._now
        elif not returns and (self._closing is None or not self.log.keeps or reason.startswith("said goodbye")):
            # peers that stay when a node with a log leaves are awaited by its next life
            self.leave(peer.key)
        self.sources.leave(peer.key)
        self._offering.is_stale = True
        lost = peer.link.outstanding if peer.patterns and not peer.begun_in_log else 0
        if lost:
            self.drops[f"frames to a {peer.role} that left"] += lost
        there.note_closed(peer, reason, lost)
        if peer.role == "node" and self._closing is None:
            there.dialling.lost(peer.name, peer.link.refused, self._now)
            there.dial_due(self._now)

    def leave(self, key: PeerKey) -> None:
        """A peer's promises, and what it may still send, hold nothing back any more.

        A type that others ended after the publisher's last message has ended, as if the publisher had expired at once: its next
        life may have ended it, under another name.
        """
        if key[0] == "publisher" and self.admission.room:
            remaining = self.admission.remains(key)
            self.log.kept_word(self.admission.entries())
            if remaining:
                self.log.subscribed(key, interest := Interest(0, raw=remaining))
                self.offered(key, interest)
                self._offering.is_stale = True
                return
        outlived = sorted(self.tracker.outlived.get(key, ()))
        self.log.detached(key, outlived)
        self.tracker.left(key, outlived)
        self._offering.is_stale = True

    # -- payloads -----------------------------------------------------------------------------------------------------

    def _received(self, peer: Peer, parts: Parts) -> None:
        try:
            payload: Payload = decode_payload(parts)
            if type(payload) is Changes:
                if peer.role == "publisher":
                    if self._comes_too_soon(peer, payload):
                        peer.link.put_back(parts)
                        return
                    payload = self.admission.received(peer.key, payload, self._now, peer.offered)
                self._changed(peer, payload, parts)
            elif type(payload) is Interest:
                self._interested(peer, payload)
            elif isinstance(payload, Ready | Cover) and peer.role == "node":
                self._answered(peer, payload)
            elif type(payload) is Question:
                peer.asks(payload.number)
                if peer.role != "publisher":
                    self.attachments.asking.add(peer.key)
            elif type(payload) is Commit and payload.line == self.log.line:
                self.log.moved(peer.key, payload.offset, payload.position)
            elif type(payload) is Release and peer.role == "subscriber":
                self.log.released(payload.names, peer.owner, self._peers)
                self._offering.is_stale = True
            elif type(payload) is Gap and peer.role == "node":
                self._broken(peer.key, payload.types)
        except WireError as error:
            self.drops[str(error).split(":", 1)[0]] += 1
            if peer.role != "publisher" and is_interest(parts[0]) and peer.link.closed is None:  # else it waits for ever
                peer.link.refuse(f"node {self.name} cannot take its subscription: it is malformed")

    def _answered(self, peer: Peer, answer: Ready | Cover) -> None:
        """A node has taken an Interest of this one: it sends by it, or waits for what may come from here."""
        if isinstance(answer, Ready):
            peer.interests.answered(answer.number)
        else:
            self.covering.answered(peer, answer)
            self._look()

    def _comes_too_soon(self, peer: Peer, changes: Changes) -> bool:
        """Note the types in a publisher's changes that it has not offered; whether these have to wait before they are taken."""
        if self._newcomers and changes.blocks and self._may_succeed(peer):
            peer.link.shuts(True, self._now)
            return True
        offered, promised = peer.offered, changes.watermarks or ()
        if offered.issuperset([head.type for head in changes.blocks]) and offered.issuperset(promised):
            return False
        names = {*(head.type for head in changes.blocks), *promised} - offered - {BREAK}
        if known := self.admission.known(names, peer.rights):
            self._offer_more(peer, known)
        return bool(known) and peer.link.shut

    def _broken(self, key: PeerKey, types: Collection[str] = ()) -> None:
        """Changes from a node are missing: of these types, or of all it ever offered; and so of all that rests on them here."""
        missing = set(types) or self.tracker.ever.get(key, set())
        here = set().union(*(self._derivations.get(name, ()) for name in missing))
        if not missing:
            return
        self.drops["gap in what a node sends"] += 1
        self._outbound.lack(missing, here, self._now)

    def lost_log(self, common: int) -> None:
        """What the log had after offset ``common`` is lost: the log continues under another identity, and readers get a gap.

        The gap is in all types that came in or were made here: some of what was acknowledged to publishers is gone.
        """
        self.drops["gap in the log"] += 1
        line = xxhash.xxh3_64_intdigest(b"%d %d" % (self.log.line, self.attachments.epoch)) >> 3 | 1
        self.log.renewed(line, common)
        promises = self.tracker.for_detectors
        raw = {name for name in {*self.types, *self.tracker.raw_here()} if not promises.is_derived(name)}
        self._outbound.lack(set(promises.known), raw | self.publications, self._now)

    def _interested(self, peer: Peer, interest: Interest) -> None:
        try:
            patterns = frozenset(map(check_pattern, interest.subscriptions))
        except Exception as error:
            raise WireError(f"malformed subscription: {error}") from None
        against = self._objection(peer, interest) if peer.role == "subscriber" else None
        if against is not None:
            peer.link.refuse(f"node {self.name}: {against}")
            raise WireError("a subscription that cannot be had")
        self._offering.is_stale = True
        self.attachments.awaited.pop(peer.key, None)
        is_back = False
        peer.forget_watermarks()
        if peer.role == "node":  # a client's own types wait by its credit; only a node speaks for the readers behind it
            peer.paused = frozenset(interest.paused)
            peer.answer_interest(interest, self.log.log_offset, self._now)
        if peer.role != "publisher":
            peer.patterns, peer.on_slow = patterns, interest.on_slow
            self._table.subscribe(peer, patterns)
            self.attachments.lost.pop(peer.key, None)
            is_back = not peer.begun and self._attached(peer, interest)
        if peer.role == "publisher":
            peer.offered = self.admission.known(interest.raw, peer.rights)
            interest = msgspec.structs.replace(interest, raw=sorted(peer.offered))
        self.log.subscribed(peer.key, interest, peer.owner)
        if peer.role == "subscriber":
            self.tracker.read(patterns)
            peer.is_in(self.tracker.generations.number)
            peer.ready_number = interest.number
            return
        self._offers(peer, interest)
        if is_back and not interest.keeps:  # without a log, whatever it had not handed on is gone
            self._broken(peer.key)
        if peer.role == "node":
            self._outbound.give(peer, self.to_come.joined(peer.name))

    def _objection(self, peer: Peer, interest: Interest) -> str | None:
        """Why a subscriber may not have what it asks for, if it may not."""
        against = peer.rights.objection_to_reading(interest.subscriptions) if peer.rights is not None else None
        return against or self.log.objection(peer.key, interest, peer.owner)

    def _attached(self, peer: Peer, interest: Interest) -> bool:
        """A reader subscribes for the first time on its link; returns whether it is a node that was here before."""
        if self.log.shows_loss(peer.key, interest, self.tracker.final_of(peer.patterns)):
            self.lost_log(self.log.began)
        is_back = peer.key in self.tracker.ever
        if peer.role == "node":
            self.joined.append(peer.key)
            self.attachments.dialling.joined(peer.name)
        if self._outbound.begin(peer, interest, self._oldest_for(peer)):
            self.drops["gap for a reader"] += 1
        return is_back

    def _oldest_for(self, peer: Peer) -> int:
        """The offset up to which the log is too old for a reader, by the rights of its key."""
        history = peer.rights.history if peer.rights is not None and peer.role == "subscriber" else None
        if history is None:
            return 0
        wall = self.sources.own_wall
        return self.log.offset if wall is None else self.history.since(wall + self._now - history, self.log.offset)

    def _changed(self, peer: Peer, changes: Changes, parts: Parts) -> None:
        if peer.role == "subscriber":
            raise WireError("changes from a subscriber: only publishers and nodes send events")
        for head in changes.blocks:
            if head.type == BREAK:
                raise WireError("a reserved type")
            self._events_in += head.count
        if peer.role == "publisher":
            admitted, logged = self._from_publisher(peer, changes, parts[1:])
        else:
            admitted, logged = self._from_node(peer, changes, parts[1:])
            if changes.clock is not None:
                self.sources.claims(peer.key, changes.clock, self._now)
        self._route(peer.key, admitted, logged)
        if self.admission.room:
            self._release()  # before any promise that rests on these events, or covers them
        opened = self.tracker.for_nodes.open
        self.tracker.noted(peer.key, logged)
        if logged.watermarks is not None:
            if peer.role == "node":
                self._look()
            else:
                self._offering.is_stale |= END in logged.watermarks.values()
                if opened or self.covering.is_under_way:
                    self.covering.promised(peer, logged.watermarks.keys(), opened)

    def _from_publisher(self, peer: Peer, changes: Changes, blocks: Sequence[bytes]) -> tuple[list[Admitted], Changes]:
        """The admitted blocks of a publisher, and the header as the log keeps it; the publisher's account counts the others."""
        rejected = len(self.ingress.rejected)
        self.ingress.copies.at = self.log.offset
        admitted, logged = self.admission.admit(
            peer.key, changes, blocks, self.ingress, self.subscriptions, self._now, self.log.keeps, peer.sender
        )
        waiting = self.admission.entries()
        for head, _, _ in admitted:
            peer.account.taken += head.count
        if waiting:
            peer.account.taken += sum(len(each.events) for each in waiting if type(each) is Withholding)
            self.log.kept_word(waiting)
        if self.ingress.drops or len(self.ingress.rejected) > rejected:
            self._pressure.charge(peer, tally(self.ingress, self.drops, peer.account, rejected), self._now)
        return admitted, logged

    def _from_node(self, peer: Peer, changes: Changes, blocks: Sequence[bytes]) -> tuple[list[Admitted], Changes]:
        """The blocks from a node, which has checked them, of types that someone here subscribes to and whose later changes
        come, too.

        A node may have taken raw events of a type before it knew that detectors elsewhere derive it: this node skips those.
        """
        kept: list[Admitted] = []
        for head, block in zip(changes.blocks, blocks, strict=True):
            name = head.type
            if head.raw and self.admission.is_derived(name):
                self.drops["raw events of a derived type"] += head.count
            elif not (peer.interests.comes_whole(name) and (name in self.subscriptions or self._is_subscribed(name))):
                self.log.skipped(name, is_local=False)
            else:
                kept.append((head, block, None))
        if len(kept) == len(blocks):
            return kept, changes
        return kept, msgspec.structs.replace(changes, blocks=[head for head, _, _ in kept])

    def _offer_more(self, peer: Peer, names: Iterable[str]) -> None:
        self._offering.is_stale = True
        peer.offered |= frozenset(names)
        interest = Interest(0, raw=sorted(peer.offered))
        self.log.subscribed(peer.key, interest, peer.owner)
        self._offers(peer, interest)

    def _offers(self, peer: Peer, interest: Interest) -> None:
        """A publisher or a node may send these types; ended types resume once all nodes agree on the floor."""
        ended = self.reopening.ended(peer.key, peer.offered) if peer.role == "publisher" else []
        self.offered(peer.key, interest)
        self.reopening.offered(ended, peer.key)
        if peer.role == "node":
            self.reopening.received(peer.key, interest)
            self.covering.taken(peer, interest)
        else:
            self.covering.offered(peer.offered, self._offering.interest)
        self._look()

    def offered(self, key: PeerKey, interest: Interest) -> None:
        """Note what a publisher or a node may send, in this life or a former one.

        A type that a node derives is taken from publishers no more, even if it was raw before that node came.
        """
        if key[0] == "publisher":
            self.tracker.offered(key, self.admission.offers(interest))
            return
        new = [name for name in interest.derived if not self.admission.is_derived(name)]
        self.tracker.offered(key, self.admission.offers_of_node(interest))
        for publisher, left in self.admission.displaced(new) if new else ():
            self.tracker.offered(publisher, left)
            if (peer := self._peers.get(publisher)) is not None:
                peer.offered = frozenset(left.raw)

    def _look(self) -> None:
        """A generation may have begun, or be settled: notify other nodes before anything that follows from it."""
        is_under_way = self.reopening.is_under_way or self.covering.is_under_way or bool(self._newcomers)
        if not (is_under_way or self._is_shutting):  # nearly always
            return
        if self.reopening.is_under_way and self.reopening.look(self._peers.values(), bool(self._missing)):
            self._offering.is_stale = True
            for peer in self._peers.values():
                peer.is_in(self.tracker.generations.number)
                if peer.role == "node":
                    self._outbound.post(peer, self._interest(), self._now)
        if self.covering.is_under_way:
            self.covering.look()
        self._is_shutting = self.reopening.is_under_way or self.covering.is_under_way or bool(self._newcomers)
        for peer in self._peers.values():
            if peer.role == "publisher":
                is_early = self.reopening.is_shut(peer) or self.covering.is_shut(peer) or self._may_succeed(peer)
                peer.link.shuts(is_early, self._now)

    def _interest(self) -> Interest:
        return self._outbound.interest(self._pressure.paused)

    def _route(self, key: PeerKey, admitted: list[Admitted], changes: Changes) -> None:
        """Log the blocks that came from a peer, then forward them, to the local detectors too."""
        self.log.received(key, changes, [block for _, block, _ in admitted])
        for head, block, delta in admitted:
            self.log.next_block()
            self._outbound.forward(head, block, local=key[0] == "publisher")
            if head.type in self.subscriptions:
                self.inbox.put(key, head, block, delta)

    def _release(self) -> None:
        """Take the events that waited until others had got as far, and count promises as far as they count by now."""
        self.ingress.copies.at = self.log.offset
        for key, admitted, changes in self.admission.release(self.ingress, self.subscriptions, self._now):
            self.log.kept_word(self.admission.entries())
            self._route(key, admitted, changes)
            self.tracker.noted(key, changes)
            self.ingress.copies.at = self.log.offset
        self.log.kept_word(self.admission.entries())

    # -- the local detectors ------------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """Events that wait for ``take``."""
        return self.inbox.pending

    @property
    def received(self) -> int:
        """Events that have come in this step, whether they were taken or not: what bounds a step, whoever fills it."""
        return self._events_in - self._events_before

    def came_before(self, count: int) -> None:
        """Count events that a record of the log brings again: the detectors count them, too, and no step takes them."""
        self._events_in += count
        self._events_before += count

    def found_late(self, events: Iterable[Event], now: int) -> None:
        """The local detectors have reported these events of the last batch as late: charge the publishers that have sent
        them."""
        for name, times in times_by_type(events).items():
            senders = [self._peers[key] for key in self.inbox.senders(name, max(times)) if key in self._peers]
            for peer in senders:
                self._pressure.charge(peer, len(times) / len(senders), now)

    def take(self, now: int) -> Batch | None:
        """All that has arrived for the local detectors since the last time; None if nothing has changed for them.

        ``watermarks`` holds what others promise of each type they read that is not open; ``clock`` the largest raw time known.
        """
        self._now = now
        if self.subscriptions:
            if self.admission.room:
                self._release()
            self._look()
        if self.log.gathers and not self._missing:
            self.log.all_attached()
        batch = self.inbox.take(self.tracker.for_detectors, self.tracker.clock, self._missing, self.reopening.due(), now)
        if batch is not None:
            self.log.stepped(batch.clock, batch.floor is not None)
        return batch

    def due_at(self) -> int | None:
        """When ``take`` has news for the detectors even if nothing comes; None if it has none."""
        return self.inbox.due_at(self.tracker.for_detectors, self.tracker.clock)

    def subscribed(self) -> frozenset[str]:
        """The types published by the local detectors that some peer subscribes to."""
        return frozenset(name for name in self.publications if self._table.route(name))

    def _is_subscribed(self, name: str) -> bool:
        """Whether someone may subscribe to a type: of absent readers, only a log, or the gathering, knows."""
        return self.log.is_subscribed(name) or (not self.log.keeps and bool(self._missing or self._table.route(name)))

    def publish(self, batch: Batch, now: int) -> None:
        """Send what the local detectors made. They have passed it among themselves already: it is not given back to them.

        Its clock mark is not needed: clock marks come from the nodes where the raw events come in.
        """
        self._now = now
        for name, delta in retractions_first(batch.deltas):
            if delta and self._is_subscribed(name):
                for head, block in encode_delta(name, delta):
                    if len(block) <= LARGEST_BLOCK:
                        self.log.made(head, block)
                        self._outbound.forward(head, block, local=True)
                        self.to_come.keep(head, block)
                    else:
                        self.drops["oversized event"] += head.count
            elif delta:
                self.log.skipped(name, is_local=True)
        if batch.stopped:
            self._outbound.lack((), batch.stopped, now)
        self.tracker.promised_here(batch.watermarks, batch.reached)

    # -- the end of a step --------------------------------------------------------------------------------------------

    def settle(self, now: int) -> Effects:
        """End a step, or let time pass: post what waits, acknowledge, hold or release publishers. O(peers)."""
        self._now = now
        is_away = now - self._settled_at > ABSENCE
        if is_away and not self._exempted:  # what came meanwhile has been received by now: once is enough
            self.attachments.was_away(now - self._settled_at, now)
            self.sources.could_not_speak(now, now - self._settled_at)
        self._settled_at, self._exempted, self._events_before = now, is_away, self._events_in
        self._promise_for_idle(now)
        if self.log.keeps and self.sources.own_wall is not None:
            self.history.note(self.sources.own_wall + now, self.log.offset)
        if self._missing and (expired := self.to_come.expire(now)):
            self.drops["peers never seen"] += expired
        too_soon = bool(self._missing) or self.sources.clock_in_doubt(now)
        peers = self._peers.values()
        if self._pressure.update(peers, self._rests, too_soon, self.log.offset, now, self.admission.stalled()):
            self._offering.is_stale = True
        if self._closing is None:
            for key in [*self.attachments.overdue(now), *self.admission.gone()]:
                self.leave(key)
        self.attachments.dial_due(now)
        if not self.subscriptions:  # who takes has looked before: news for detectors comes with their next batch
            if self.admission.room:
                self._release()
            self._look()
        effects = self._post(now)
        if self.ingress.rejected:
            effects.rejected, self.ingress.rejected = self.ingress.rejected, []
            self.log.rejected(effects.rejected)
            self.drops.update(REJECTIONS[rejected.reason] for rejected in effects.rejected)
        if self.ingress.drops:
            tally(self.ingress, self.drops)
        return effects

    def _post(self, now: int) -> Effects:
        """Post to each peer what waits for it, and let go of those whose link has closed. O(peers)."""
        effects = Effects(self.attachments.refusals)
        interest = self._interest()
        if self.covering.is_under_way:
            self.covering.announced(interest)
            self._look()
        is_urgent = self.covering.is_urgent
        for peer in list(self._peers.values()):
            self._outbound.post(peer, interest, now, is_urgent)
            if peer.owes is not None:
                self.covering.answer(peer, peer.owes)
            effects.sends += peer.settled(self.sources.own_wall, now)
            if peer.link.closed is not None:
                self._remove(peer, peer.link.closed)
        effects.closed, self.attachments.closed, self.attachments.refusals = self.attachments.closed, [], []
        return effects

    def _promise_for_idle(self, now: int) -> None:
        """Promise for idle publishers, and note by which clock."""
        if not self._missing:
            promised = self.admission.promise_for_idle(self.tracker.clock, self._peers.values(), self.subscriptions, now)
            behind = self.admission.clock_behind()
            if promised or behind:
                self.log.kept_word([*promised, *behind])

    def wait_longer(self, now: int) -> None:
        """This node cannot answer at the moment: the peers it awaits get their full time once it can."""
        self.attachments.wait_longer(now)
        self.sources.could_not_speak(now)

    # -- the end ------------------------------------------------------------------------------------------------------

    def close(self, reason: str, now: int) -> None:
        """Begin to leave: take nothing more from publishers, and say goodbye to each peer once all it is to get is sent."""
        self._now, self._closing = now, reason
        for peer in self._peers.values():
            self._outbound.post(peer, self._interest(), now)
            peer.link.bye(reason, returns=self.log.keeps)

    @property
    def gathering(self) -> list[str]:
        """The nodes of the configuration without which nothing is taken from publishers yet."""
        return sorted(self._missing) or self.reopening.awaited(self._peers) or self.covering.awaited()

    @property
    def drained(self) -> bool:
        """Whether no attached peer has anything left to get."""
        return not any(peer.link.up for peer in self._peers.values())

    @property
    def joined(self) -> list[PeerKey]:
        """Nodes and publishers that have come, or come back, since the owner last cleared this."""
        return self.attachments.joined

    def is_asked(self, now: int) -> bool:
        """Whether a peer waits for the answer to a question, and has room for it. The owner then calls ``answer``."""
        return bool(self.attachments.asking) and bool(self.attachments.to_answer(now))

    def answer(self, status: NodeStatus, now: int) -> None:
        """Answer the peers that have asked what streams wait for."""
        body = msgspec.json.encode(status)
        for peer in self.attachments.to_answer(now):
            peer.answer(lambda number: Answer(number, body), now)
            self.attachments.asking.discard(peer.key)

    def waiting(self, units: list[UnitStatus]) -> NodeStatus:
        """What streams wait for at this node, with what its units say of themselves. O(types * origins)."""
        peers, sources, paused = self._peers, self.sources, sorted(self._pressure.paused)
        slow = [self._pressure.describe(peer, self._now) for peer in peers.values() if peer.slow]
        streams = status_of(self.name, self.tracker.for_subscribers, peers, sources, self.attachments.lost, self._now)
        counts = self.gathering, paused, slow, sources.behind
        return NodeStatus(self.name, self.tracker.clock, streams, units, *counts, withheld=self.admission.room.counts())

    def statistics(self) -> BrokerStatistics:
        """A record of the counts so far."""
        counts = self._events_in, self.inbox.taken, self._outbound.events, dict(self.drops), self.ingress.seen.gaps()
        peers = [peer.statistics() for peer in self._peers.values()]
        attempts = dict(self.ingress.owners.attempts)
        return BrokerStatistics(*counts, peers, dict(self.attachments.left), self.gathering, attempts)
