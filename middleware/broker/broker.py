"""The broker of a node: links, subscriptions, forwarding, watermarks, and backpressure to the sources. No I/O, no clock.

Nodes are meshed fully, one link for each pair; publishers and subscribers attach to any node. A node sends its peers
only what originates here (from its own publishers and detectors), and only if someone there wants it: so nothing runs
in circles and nothing arrives twice. One step of the owner is: ``receive`` what has arrived, ``take`` the batch for the
local detectors, ``publish`` what they made of it, ``settle``, and do what the effects say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from middleware.broker.backpressure import Pressure
from middleware.broker.dialling import Dialling
from middleware.broker.effects import BrokerStatistics, Closed, Effects
from middleware.broker.greeting import objection, objection_to_name
from middleware.broker.inbox import Inbox
from middleware.broker.ingress.admission import Admission
from middleware.broker.ingress.checks import Ingress
from middleware.broker.ingress.receipts import TURNED, tally
from middleware.broker.ingress.sources import SourcePolicy
from middleware.broker.log import BREAK, Log, PeerKey
from middleware.broker.merge import retractions_first
from middleware.broker.offering import Offering, with_log
from middleware.broker.outbound import begin, note_passed, pass_on, post_news, serve
from middleware.broker.peers import Channel, Peer
from middleware.broker.routing import RoutingTable, check_pattern, wanted
from middleware.broker.watermarks.reopening import Reopening
from middleware.broker.watermarks.tracker import WatermarkTracker
from middleware.broker.watermarks.waiting import NodeStatus, UnitStatus, status_of
from middleware.link.codec import (
    LARGEST_BLOCK,
    MOST_TYPES,
    Answer,
    BlockHead,
    Changes,
    Drops,
    EventCodec,
    Gap,
    Interest,
    Passed,
    Payload,
    Question,
    Ready,
    decode_payload,
    encode,
    encode_sendable,
    is_interest,
)
from middleware.link.frames import Data, Hello, Parts, Refusal, decode_frame, encode_frame
from middleware.link.link import Link
from middleware.model.change import Batch, Delta
from middleware.model.errors import EventError, WireError
from middleware.model.event import EventTypes
from middleware.model.time import SECOND

GATHER = 30 * SECOND
"""How long a new node waits for the peers in its configuration before it takes anything from publishers. One with a log waits
as long as it takes, once in its life: results that are final without a peer would be wrong with it."""

ABSENCE = 2 * SECOND
"""A broker that was not called for longer than this was away itself."""


class Broker:
    """See the module.

    ``peers``: names of the nodes to dial; the channel to each is its name. ``owner``: returns the owner of the key behind a
    channel, if there are keys: only the owner of a dialled node's key can be that node, so only nodes can send derived events.
    ``derivations``: by type read, the publications that depend on it and may be wrong where it is missing. ``backdate``: how
    much earlier than raw events results may be, over all levels.
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
        owner: Callable[[Channel], str | None] = lambda channel: None,
        log: Log | None = None,
        sources: SourcePolicy | None = None,
    ) -> None:
        self.name, self.subscriptions, self.publications = name, frozenset(subscriptions), frozenset(publications)
        self.drops: Drops = Counter()
        if len(self.publications) > MOST_TYPES:
            raise EventError(f"node {name} would publish {len(self.publications):,} types; others take {MOST_TYPES:,} at most")
        self._derivations = derivations if derivations is not None else {}
        self._types = types if types is not None else EventTypes()
        self._codec = EventCodec(self._types)
        self._ingress = Ingress(self._types, self._codec, Drops())
        self._epoch, self._now, self._born, self._settled_at = epoch, now, now, now
        self._excused = False
        self._peers: dict[PeerKey, Peer] = {}
        self._channels: dict[Channel, Peer] = {}
        self._table: RoutingTable[Peer] = RoutingTable()
        self._tracker = WatermarkTracker(self.publications, backdate)
        self._reopening = Reopening(self._tracker, log)
        self._admission = Admission(self._types, self._tracker.publishers, sources, now)
        self.sources = self._admission.sources
        self._inbox = Inbox(self.subscriptions, self._codec, self.drops, self._ingress)
        self._effects, self._pressure = Effects(), Pressure()
        self._offering = Offering(self.subscriptions, self.publications)
        self._closing: str | None = None
        self.log = log
        self._awaited: dict[PeerKey, int] = {}
        """Peers of a former life, and until when their promises hold without them."""
        self._events_in = self._events_out = 0
        self._left: Counter[str] = Counter()
        self._lost: dict[PeerKey, int] = {}
        """Nodes of the configuration that were here and are gone, and since when."""
        self.joined: list[PeerKey] = []
        """Nodes and publishers that have come, or come back, since the owner last cleared this."""
        self.questions: dict[PeerKey, int] = {}
        """Peers that have asked what streams wait for; the owner answers."""
        self._owner = owner
        self._dialling = Dialling(frozenset(peers) - {name}, now)
        self._dialled, self._missing = self._dialling.names, set(self._dialling.names)
        self._tracker.gather(bool(self._missing))
        self._early: list[tuple[BlockHead, bytes]] = []
        """Output of the local detectors while peers were missing: those may want it, and could not say so yet."""
        self._dial_due()

    # -- channels and links -------------------------------------------------------------------------------------------

    def receive(self, channel: Channel, parts: Parts, now: int) -> None:
        """Take a message. Whatever it holds, it does no harm: what cannot be taken is counted in ``drops``."""
        self._now = now
        try:
            frame = decode_frame(parts[0] if parts else b"")
        except WireError:
            self.drops["malformed frame"] += 1
            return
        peer = self._channels.get(channel)
        if type(frame) is Hello and (peer is None or not peer.link.dials):
            peer = self._greeted(channel, frame)
        if peer is None:
            if type(frame) is not Hello and type(frame) is not Refusal:
                self.drops["frame of an unknown link"] += 1
                self._refuse(channel, f"node {self.name} does not know this link: say Hello", final=False)
            return
        if peer.role == "publisher" and type(frame) is Data:
            if self._closing is not None:
                return  # not acknowledged, so the publisher knows that it was not taken
            ended = self._reopening.foreseen(peer, frame, parts)
            if ended and (names := self._admission.known(ended)):
                self._offer_more(peer, names)  # before it is taken, as it may have to wait
        payload = peer.link.receive(frame, parts[1:], now)
        if type(frame) is Hello and peer.link.peer is frame:
            self._admission.told_wall(peer.key, frame.wall, now)
        if payload is not None:
            self._received(peer, payload)

    def wall_is(self, wall: int, now: int) -> None:
        """Set Unix time at ``now``, which tells what lies in the future; to be called now and then, as the clock may be set."""
        self._admission.sources.wall_is(wall, now)

    def disconnected(self, channel: Channel, now: int) -> None:
        """The runtime has noticed that a channel broke."""
        if (peer := self._channels.get(channel)) is not None:
            peer.link.broken()

    def turned_out(self, channel: Channel, reason: str) -> None:
        """The peer behind a channel is not allowed here any more."""
        if (peer := self._channels.get(channel)) is not None:
            peer.link.refuse(f"node {self.name}: {reason}")

    def _next_epoch(self) -> int:
        self._epoch += 1
        return self._epoch

    def _dial_due(self) -> None:
        for name in self._dialling.due(self._now):
            if ("node", name) not in self._peers:  # it may have dialled meanwhile
                self._attach(Peer("node", name, Link(self.name, "node", self._next_epoch(), self._now, dials=True), name))

    def _attach(self, peer: Peer) -> None:
        self._peers[peer.key] = self._channels[peer.channel] = peer
        self.questions.pop(peer.key, None)
        if not peer.link.dials:
            self._awaited.pop(peer.key, None)

    def _refuse(self, channel: Channel, reason: str, final: bool, epoch: int = 0) -> None:
        self._effects.sends.append((channel, [encode_frame(Refusal(reason, final, epoch))]))

    def _greeted(self, channel: Channel, hello: Hello) -> Peer | None:
        """The peer that says Hello on a channel of its own, new or known; None if it is refused."""
        key: PeerKey = (hello.role, hello.name)
        here = self._channels.get(channel)
        if here is not None and here.key != key:
            self._remove(here, "another took its channel")
        owner, known = self._owner(channel), self._peers.get(key)
        against = objection(
            self.name, hello, owner, known, count=len(self._peers), closing=self._closing is not None, configured=self._dialled
        )
        if against is not None:
            self._refuse(channel, against.reason, against.final, hello.epoch)
            if against.counted:
                self.drops[against.counted] += 1
            return None
        if known is not None and known.link.dials:
            if hello.name < self.name:  # of two nodes that know each other, the later-named one dials
                self._refuse(channel, f"node {self.name} dials node {hello.name}", False, hello.epoch)
                return None
            self._forget(known)
        elif known is not None and known.link.peer is not None:
            if hello.epoch == known.link.peer.epoch:
                self._channels.pop(known.channel, None)
                known.channel = channel
                self._channels[channel] = known
                return known
            if hello.epoch < known.link.peer.epoch:
                self.drops["Hello of an old epoch"] += 1
                self._refuse(
                    channel, f"a newer {hello.role} named {hello.name!r} is attached to node {self.name}", True, hello.epoch
                )
                return None
            self._remove(known, "restarted", returns=True)
            if (dialling := self._peers.get(key)) is not None:
                self._forget(dialling)
        link = Link(self.name, "node", self._next_epoch(), self._now, dials=False)
        peer = Peer(hello.role, hello.name, link, channel, owner)
        self._attach(peer)
        link.wall = self.sources.own_wall
        if peer.role == "publisher":
            self.joined.append(key)
            link.held = self._admission.attach(peer.key, hello.wall, self._now) or bool(self._missing)
        return peer

    def _forget(self, peer: Peer) -> None:
        self._peers.pop(peer.key, None)
        if self._channels.get(peer.channel) is peer:
            del self._channels[peer.channel]

    def _remove(self, peer: Peer, reason: str, returns: bool = False) -> None:
        """The peer is gone, for whatever reason: nothing waits for it, nothing is held back by it.

        Its promises hold if it comes back as the same: because it ``returns`` at this moment, or has a log.
        """
        self._forget(peer)
        self._table.subscribe(peer, ())
        if peer.key in self._tracker.durable:
            self._lost[peer.key] = self._now
        elif peer.role == "node" and peer.name in self._dialled and not reason.startswith("said goodbye"):
            self._tracker.lost(peer.key)  # it may be cut off, with publishers of its own: nothing ends without it
            self._lost[peer.key] = self._now
        elif not returns and (self._closing is None or self.log is None or reason.startswith("said goodbye")):
            self._leave(peer.key)  # peers that stay when a node with a log leaves are awaited by its next life
        self._admission.sources.leave(peer.key)
        self._offering.is_stale = True
        lost = peer.link.outstanding if peer.patterns and not peer.begun_in_log else 0
        if lost:
            self.drops[f"frames to a {peer.role} that left"] += lost
        self._left[f"{peer.role}: {reason.partition(':')[0]}"] += 1
        self._effects.closed.append(Closed(peer.role, peer.name, reason, lost))
        if peer.role == "node" and self._closing is None:
            self._dialling.lost(peer.name, peer.link.refused, self._now)
            self._dial_due()

    # -- payloads -----------------------------------------------------------------------------------------------------

    def _received(self, peer: Peer, parts: Parts) -> None:
        try:
            payload: Payload = decode_payload(parts)
            if type(payload) is Changes:
                if peer.role == "publisher":
                    payload = self._admission.received(peer.key, payload, self._now)
                self._changed(peer, payload, parts)
            elif type(payload) is Interest:
                self._interested(peer, payload)
            elif type(payload) is Question and peer.role == "publisher":
                peer.asked = payload.number
            elif type(payload) is Question:
                self.questions[peer.key] = payload.number
            elif type(payload) is Passed and self.log is not None and payload.line == self.log.line:
                self.log.moved(peer.key, payload.offset, payload.mark)
            elif type(payload) is Gap and peer.role == "node":
                self._broken(peer.key, payload.types)
        except WireError as error:
            self.drops[str(error).split(":", 1)[0]] += 1
            if peer.role != "publisher" and is_interest(parts[0]) and peer.link.closed is None:  # else it waits for ever
                peer.link.refuse(f"node {self.name} cannot take its subscription: it is malformed")

    def _broken(self, key: PeerKey, types: Collection[str] = ()) -> None:
        """Changes from a node are missing: of these types, or of all it ever offered; and so of all that rests on them here."""
        missing = set(types) or self._tracker.ever.get(key, set())
        here = set().union(*(self._derivations.get(name, ()) for name in missing))
        if not missing:
            return
        self.drops["gap in what a node sends"] += 1
        self._lack(key, missing, here)

    def _lack(self, key: PeerKey, missing: Collection[str], here: Collection[str]) -> None:
        """Send readers a Gap: changes from a peer are missing, and of types made ``here``; only these, if detectors stopped."""
        if self.log is not None:
            self.log.broken(key, sorted(missing), sorted(here))
        pass_on(missing, here, self._peers.values(), self.log.log_offset if self.log is not None else (0, 0), self._now)

    def _interested(self, peer: Peer, interest: Interest) -> None:
        try:
            patterns = frozenset(map(check_pattern, interest.subscriptions))
        except Exception as error:
            raise WireError(f"malformed subscription: {error}") from None
        against = objection_to_name(self.log, peer, interest) if peer.role == "subscriber" else None
        if against is not None:
            peer.link.refuse(f"node {self.name}: {against}")
            raise WireError("a name that cannot be had")
        self._offering.is_stale = True
        self._awaited.pop(peer.key, None)
        is_back = False
        peer.forget_watermarks()
        peer.patterns, peer.on_slow, peer.paused = patterns, interest.on_slow, frozenset(interest.paused)
        if peer.role != "publisher":
            self._table.subscribe(peer, patterns)
            self._lost.pop(peer.key, None)
            is_back = not peer.begun and self._attached(peer, interest)
        if self.log is not None:
            self.log.subscribed(peer.key, interest, peer.owner)
        if peer.role == "subscriber":
            peer.is_in(self._tracker.eras.number)
            peer.ready_number = interest.number
            return
        peer.offered = self._admission.known(interest.raw)
        self._offers(peer, interest)
        if is_back and not interest.keeps:  # without a log, whatever it had not handed on is gone
            self._broken(peer.key)
        if peer.role == "node" and peer.name in self._missing:
            self._missing.discard(peer.name)
            for head, block in self._early:
                if wanted(patterns, head.type):
                    peer.take(head, block, 0)
                    self._events_out += head.count
            if not self._missing:
                self._gathered()

    def _attached(self, peer: Peer, interest: Interest) -> bool:
        """A reader subscribes for the first time on its link; returns whether it is a node that was here before."""
        is_back = peer.key in self._tracker.ever
        if peer.role == "node":
            self.joined.append(peer.key)
            self._dialling.joined(peer.name)
        if begin(peer, self.log, interest):
            self.drops["gap for a reader"] += 1
        return is_back

    def _gathered(self) -> None:
        """No peer is missing any more."""
        self._early.clear()
        self._tracker.gather(False)

    def _leave(self, key: PeerKey) -> None:
        """The peer's promises, and what it may still send, hold nothing back any more."""
        if self.log is not None:
            self.log.detached(key)
        self._tracker.left(key)
        self._offering.is_stale = True

    def _changed(self, peer: Peer, changes: Changes, parts: Parts) -> None:
        if peer.role == "subscriber":
            raise WireError("changes from a subscriber: only publishers and nodes send events")
        if BREAK in [head.type for head in changes.blocks]:
            raise WireError("a reserved type")
        self._events_in += sum([head.count for head in changes.blocks])
        if peer.role == "publisher":
            if (new := {head.type for head in changes.blocks} - peer.offered) and (known := self._admission.known(new)):
                self._offer_more(peer, known)
            turned = len(self._ingress.turned)
            self._ingress.copies.at = self.log.offset if self.log is not None else 0
            admitted, logged = self._admission.admit(peer.key, changes, parts[1:], self._ingress, self.subscriptions, self._now)
            peer.account.taken += sum([head.count for head, _, _ in admitted])
            tally(self._ingress, self.drops, peer.account, turned)
        else:
            admitted, logged = [(head, block, None) for head, block in zip(changes.blocks, parts[1:], strict=True)], changes
        if self.log is not None:
            self.log.received(peer.key, logged, [block for _, block, _ in admitted])
        for head, block, delta in admitted:
            self._route(head, block, delta, peer.role == "publisher")
        self._tracker.noted(peer.key, logged)
        if peer.role == "node" and logged.watermarks is not None:
            self._look()

    def _offer_more(self, peer: Peer, names: Iterable[str]) -> None:
        self._offering.is_stale = True
        peer.offered |= frozenset(names)
        interest = Interest(0, raw=sorted(peer.offered))
        if self.log is not None:
            self.log.subscribed(peer.key, interest)
        self._offers(peer, interest)

    def _offers(self, peer: Peer, interest: Interest) -> None:
        """A publisher or a node may send these types; those that had ended go on once all nodes agree from which time on."""
        ended = self._reopening.ended(peer.key, peer.offered) if peer.role == "publisher" else []
        self._offered(peer.key, interest)
        self._reopening.offered(ended, peer.key)
        if peer.role == "node":
            self._reopening.received(peer.key, interest)
        self._look()

    def _look(self) -> None:
        """An era may have begun, or be settled: tell other nodes before anything that follows from it."""
        if self._reopening.is_under_way and self._reopening.look(self._peers.values(), bool(self._missing), self._now):
            self._offering.is_stale = True
            for peer in self._peers.values():
                peer.is_in(self._tracker.eras.number)
                if peer.role == "node":
                    self._post(peer, self._current_interest(), self._now)

    def _offered(self, key: PeerKey, interest: Interest) -> None:
        self._tracker.offered(key, self._admission.offers(interest) if key[0] == "publisher" else interest)

    def _route(self, head: BlockHead, block: bytes, delta: Delta | None, local: bool) -> None:
        """Forward a block that came from outside, to the local detectors too."""
        if self.log is not None:
            self.log.offset += 1
        self._forward(head, block, local)
        if head.type in self.subscriptions:
            self._inbox.put(head, block, delta)

    def _forward(self, head: BlockHead, block: bytes, local: bool) -> None:
        number = self.log.offset if self.log is not None else 0
        for target in self._table.route(head.type):
            if (local or target.role == "subscriber") and target.behind is None:
                target.take(head, block, number)
                self._events_out += head.count

    # -- the local detectors ------------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """Events that wait for ``take``."""
        return self._inbox.pending

    def take(self, now: int) -> Batch | None:
        """All that has arrived for the local detectors since the last time; None if nothing has changed for them.

        ``watermarks`` holds what others promise of each type they read that is not open; ``clock`` the largest raw time known.
        """
        self._now = now
        self._look()
        if self.log is not None and self.log.gathers and not self._missing:
            self.log.all_attached()
        batch = self._inbox.take(self._tracker.elsewhere, self._tracker.clock, self._missing, self._reopening.due())
        if batch is not None and self.log is not None:
            self.log.stepped(batch.clock)
        return batch

    def wanted(self) -> frozenset[str]:
        """The types published by the local detectors that some peer subscribes to."""
        return frozenset(name for name in self.publications if self._table.route(name))

    def publish(self, batch: Batch, now: int) -> None:
        """Send what the local detectors made. They have passed it among themselves already: it is not given back to them.

        Its clock mark is not needed: clock marks come from the nodes where the raw events come in.
        """
        self._now = now
        for name, delta in retractions_first(batch.deltas):
            wanted_by = self.log.is_wanted(name) if self.log is not None else self._missing or self._table.route(name)
            if delta and wanted_by:
                for head, block in encode_sendable(name, delta, self.drops):
                    if len(block) <= LARGEST_BLOCK:
                        if self.log is not None:
                            self.log.made(head, block)
                        self._forward(head, block, local=True)
                        if self._missing and self.log is None:
                            self._early.append((head, block))
                    else:
                        self.drops["oversized event"] += head.count
        if batch.stopped:
            self._lack(("node", self.name), (), batch.stopped)
        self._tracker.reached = max(batch.reached, self._tracker.reached)
        self._tracker.promised_here(batch.watermarks)

    # -- the end of a step --------------------------------------------------------------------------------------------

    def settle(self, now: int) -> Effects:
        """End a step, or let time pass: post what waits, acknowledge, hold or release publishers. O(peers)."""
        self._now = now
        is_away = now - self._settled_at > ABSENCE
        if is_away and not self._excused:  # what came meanwhile has been received by now: once is enough
            self._was_away(now - self._settled_at, now)
        self._settled_at, self._excused = now, is_away
        if not self._missing:
            promised = self._admission.promise_on_behalf(self._tracker.clock, self._peers.values(), self.subscriptions, now)
            if self.log is not None:
                self.log.kept_word([*promised, *self._admission.clock_behind()])
        if self._missing and now - self._born >= GATHER and self.log is None:
            self.drops["peers never seen"] += len(self._missing)
            self._missing.clear()
            self._gathered()
        offset = self.log.offset if self.log is not None else None
        too_soon = bool(self._missing) or self.sources.is_undecided(now)
        if self._pressure.update(self._peers.values(), self.subscriptions, self.publications, too_soon, offset):
            self._offering.is_stale = True
        for key in [key for key, until in self._awaited.items() if now >= until and self._closing is None]:
            del self._awaited[key]
            self._leave(key)
        self._dial_due()
        if not self.subscriptions:  # who takes has looked before: what detectors are to hear of comes with what they are given
            self._look()
        interest = self._current_interest()
        for peer in list(self._peers.values()):
            self._post(peer, interest, now)
            self._effects.sends += peer.settled(self._admission.sources.own_wall, now)
            if peer.link.closed is not None:
                self._remove(peer, peer.link.closed)
        effects, self._effects = self._effects, Effects()
        if self._ingress.turned:
            effects.turned, self._ingress.turned = self._ingress.turned, []
            if self.log is not None:
                self.log.turned(effects.turned)
            self.drops.update(TURNED[turned.reason] for turned in effects.turned)
        tally(self._ingress, self.drops)
        return effects

    def _was_away(self, duration: int, now: int) -> None:
        """This node did not run for a while (it was stopped, or its clock leapt): in that time no peer counts as silent."""
        for peer in self._peers.values():
            peer.link.excuse(duration, now)
        self._awaited = {key: until + duration for key, until in self._awaited.items()}
        self._admission.sources.could_not_speak(now)

    def _post(self, peer: Peer, interest: Interest, now: int) -> None:
        """Send, on a new link, first who this node is, then changes, watermarks, and other news: nothing arrives before what it
        depends on, and no peer mistakes a node that has begun anew for the old one."""
        if not peer.link.up or peer.role == "publisher":
            peer.tell_account()
            return
        is_node, ever = peer.role == "node", self.sources.types if self.log is not None else ()
        log_offset = self._tracker.log_offsets.get(peer.name, (0, 0))
        if is_new := is_node and not peer.told_interest[0]:
            peer.tell_interest(with_log(interest, peer, ever), log_offset)
        if self.log is not None:
            note_passed(peer, self.log)
            self._events_out += serve(peer, self.log, now)
        interest = with_log(interest, peer, ever)
        is_due = is_node and peer.told_interest != (interest.number, len(interest.logged))
        if peer.begun and peer.behind is None:
            held = not is_node and bool(self._missing)  # a peer that is still to come may send any of it, too
            idle = self._admission.idle if is_node else ()
            post_news(peer, self._tracker, self._table, self.log, now, held=held, told=is_due or is_new, idle=idle)
        if is_due:
            peer.tell_interest(interest, log_offset)
        if peer.ready_number is not None and self._is_known_everywhere(interest):
            peer.link.send([encode(Ready(peer.ready_number))])
            peer.ready_number = None

    def _current_interest(self) -> Interest:
        return self._offering.current(self._peers.values(), self._table, self.log, self._tracker, self._pressure.paused)

    def _is_known_everywhere(self, interest: Interest) -> bool:
        nodes = (peer for peer in self._peers.values() if peer.role == "node" and peer.link.up)
        return not self._missing and all(peer.knows(interest) for peer in nodes)

    # -- the end ------------------------------------------------------------------------------------------------------

    def close(self, reason: str, now: int) -> None:
        """Begin to leave: take nothing more from publishers, and say goodbye to each peer once all it is to get is sent."""
        self._now, self._closing = now, reason
        for peer in self._peers.values():
            self._post(peer, self._current_interest(), now)
            peer.link.bye(reason, returns=self.log is not None)

    @property
    def gathering(self) -> list[str]:
        """The nodes of the configuration without which nothing is taken from publishers yet."""
        return sorted(self._missing) or self._reopening.awaited(self._peers)

    @property
    def drained(self) -> bool:
        """Whether no attached peer has anything left to get."""
        return not any(peer.link.up for peer in self._peers.values())

    def answer(self, status: NodeStatus) -> None:
        """Tell the peers that have asked what streams wait for."""
        questions, self.questions, body = self.questions, {}, msgspec.json.encode(status)
        for key, number in questions.items():
            if (peer := self._peers.get(key)) is not None:
                peer.link.send([encode(Answer(number, body))])

    def waiting(self, units: list[UnitStatus]) -> NodeStatus:
        """What streams wait for at this node, with what its units say of themselves. O(types * origins)."""
        peers, sources, paused = self._peers, self.sources, sorted(self._pressure.paused)
        slow = [f"{peer.role} {peer.name}" for peer in peers.values() if peer.slow]
        streams = status_of(self.name, self._tracker.everywhere, peers, sources, self._lost, self._now)
        return NodeStatus(self.name, self._tracker.clock, streams, units, self.gathering, paused, slow, sources.behind)

    def statistics(self) -> BrokerStatistics:
        """A record of the counts so far."""
        counts = self._events_in, self._inbox.taken, self._events_out, dict(self.drops), self._ingress.seen.gaps()
        return BrokerStatistics(*counts, [peer.statistics() for peer in self._peers.values()], dict(self._left), self.gathering)
