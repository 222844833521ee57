"""The broker of a node: links, subscriptions, forwarding, progress, and pressure back to the sources. No I/O, no clock.

Nodes are meshed fully, one link for each pair; publishers and subscribers attach to any node. A node sends its peers
only what originates here (from its own publishers and detectors), and only if someone there wants it: so nothing runs
in circles and nothing arrives twice. One step of the owner is: ``receive`` what has arrived, ``take`` the batch for the
local detectors, ``publish`` what they made of it, ``settle``, and do what the effects say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable

import msgspec

from middleware.change import Batch, Delta
from middleware.clock import SECOND
from middleware.errors import WireError
from middleware.event import NEVER, EventTypes
from middleware.pubsub.admission import objection
from middleware.pubsub.codec import (
    LARGEST_BLOCK,
    Answer,
    BlockHead,
    Changes,
    Drops,
    EventCodec,
    Interest,
    Payload,
    Question,
    Ready,
    decode_payload,
    encode,
    encode_delta,
)
from middleware.pubsub.gate import Gate
from middleware.pubsub.inbox import Inbox
from middleware.pubsub.ingress import Ingress, Turned
from middleware.pubsub.link import Link
from middleware.pubsub.merge import retractions_first
from middleware.pubsub.peer import Channel, Peer, PeerKey, PeerStatistics
from middleware.pubsub.pressure import Pressure
from middleware.pubsub.progress import Promises
from middleware.pubsub.routing import RoutingTable, check_pattern, wanted
from middleware.pubsub.sources import SourcePolicy
from middleware.pubsub.waiting import NodeStatus, OriginStatus, StreamStatus, UnitStatus
from middleware.pubsub.wire import Data, Hello, Parts, Refusal, Role, decode_frame, encode_frame

GATHER = 30 * SECOND
"""How long a new node waits for the peers in its configuration before it takes anything from publishers."""

_TURNED = {"late": "late for what was promised", "ahead": "too far ahead"}

_LOCAL = "local detectors"
"""The local detectors as an origin of promises."""


class Closed(msgspec.Struct, frozen=True):
    """A peer is gone. ``lost``: frames that were meant for it and may not have arrived."""

    role: Role
    name: str
    reason: str
    lost: int


class Effects(msgspec.Struct):
    """What the owner of a broker is to do: send these messages, in this order; note who left, and keep what was turned away."""

    sends: list[tuple[Channel, Parts]] = []
    closed: list[Closed] = []
    turned: list[Turned] = []


class BrokerStatistics(msgspec.Struct):
    """Counts since the start. ``drops``: events or frames by reason. ``left``: peers that went, by role and reason.

    ``gaps``: intervals of raw identities kept. ``gathering``: nodes still waited for.
    """

    events_in: int
    events_local: int
    events_out: int
    drops: dict[str, int]
    gaps: int
    peers: list[PeerStatistics]
    left: dict[str, int]
    gathering: list[str]


class Broker:
    """See the module.

    ``peers``: names of the nodes to dial; the channel to each is its name. ``owner``: whose key is behind a channel, if
    there are keys: only its owner can be the node of a name, so only nodes can send derived events.
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
        peers: Iterable[str] = (),
        owner: Callable[[Channel], str | None] = lambda channel: None,
        sources: SourcePolicy | None = None,
        wall: int | None = None,
    ) -> None:
        self.name, self.subscriptions, self.publications = name, frozenset(subscriptions), frozenset(publications)
        self.drops: Drops = Counter()
        self._types = types if types is not None else EventTypes()
        self._codec = EventCodec(self._types)
        self._ingress = Ingress(self._types, self._codec, self.drops)
        self._epoch, self._now, self._born = epoch, now, now
        self._peers: dict[PeerKey, Peer] = {}
        self._channels: dict[Channel, Peer] = {}
        self._table: RoutingTable[Peer] = RoutingTable()
        self._everywhere, self._here, self._elsewhere = Promises(), Promises(), Promises()
        """What is promised to subscribers; to other nodes, of what originates here; to the detectors, of what others send."""
        self._views: dict[str, tuple[Promises, ...]] = {
            "publisher": (self._everywhere, self._here, self._elsewhere),
            "node": (self._everywhere, self._elsewhere),
            "subscriber": (),
            _LOCAL: (self._everywhere, self._here),
        }
        self._gate = Gate(self._types, self._views["publisher"], sources, now, wall)
        for promises in self._views[_LOCAL]:
            promises.offer(_LOCAL, (), self.publications)
        self._local_progress: dict[str, int] = {}
        self._clock: int | None = None
        self._clock_here = NEVER
        """Of local publishers only: a mark that came round by a third node could overtake the events it goes with."""
        self._inbox = Inbox(self.subscriptions, self._codec, self.drops, self._ingress.seen)
        self._effects = Effects()
        self._interest = Interest(0)
        self._interest_stale = True
        self._pressure = Pressure()
        self._closing: str | None = None
        self._events_in = self._events_out = 0
        self._left: Counter[str] = Counter()
        self._lost: dict[PeerKey, int] = {}
        """Nodes of the configuration that were here and are gone, and since when."""
        self.questions: dict[PeerKey, int] = {}
        """Who wants to know what streams wait for; the owner answers."""
        self._owner = owner
        self._dialled = frozenset(peers) - {name}
        self._missing = set(self._dialled)
        self._early: list[tuple[BlockHead, bytes]] = []
        """What the local detectors made while peers were missing: those may want it, and have had no chance to say so."""
        for peer in sorted(self._dialled):
            self._dial(peer)

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
        if self._closing is not None and peer.role == "publisher" and type(frame) is Data:
            return  # not acknowledged, so the publisher knows that it was not taken
        payload = peer.link.receive(frame, parts[1:], now)
        if payload is not None:
            self._received(peer, payload)

    def disconnected(self, channel: Channel, now: int) -> None:
        """The runtime has noticed that a channel broke."""
        if (peer := self._channels.get(channel)) is not None:
            peer.link.broken(now)

    def _next_epoch(self) -> int:
        self._epoch += 1
        return self._epoch

    def _dial(self, name: str) -> None:
        self._attach(Peer("node", name, Link(self.name, "node", self._next_epoch(), self._now, dials=True), name))

    def _attach(self, peer: Peer) -> None:
        self._peers[peer.key] = self._channels[peer.channel] = peer
        self.questions.pop(peer.key, None)

    def _refuse(self, channel: Channel, reason: str, final: bool) -> None:
        self._effects.sends.append((channel, [encode_frame(Refusal(reason, final))]))

    def _greeted(self, channel: Channel, hello: Hello) -> Peer | None:
        """The peer that says Hello on a channel of its own, new or known; None if it is refused."""
        key: PeerKey = (hello.role, hello.name)
        here = self._channels.get(channel)
        if here is not None and here.key != key:
            self._remove(here, "another took its channel")
        owner, known = self._owner(channel), self._peers.get(key)
        against = objection(self.name, hello, owner, known, len(self._peers), self._closing is not None)
        if against is not None:
            self._refuse(channel, against.reason, against.final)
            if against.counted:
                self.drops[against.counted] += 1
            return None
        if known is not None and known.link.dials:
            if hello.name < self.name:  # of two nodes that know each other, the later-named one dials
                self._refuse(channel, f"node {self.name} dials node {hello.name}", final=False)
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
                self._refuse(channel, f"a newer {hello.role} named {hello.name!r} is attached to node {self.name}", True)
                return None
            self._remove(known, "restarted")
            if (dialling := self._peers.get(key)) is not None:
                self._forget(dialling)
        link = Link(self.name, "node", self._next_epoch(), self._now, dials=False)
        link.held = hello.role == "publisher" and bool(self._missing)
        peer = Peer(hello.role, hello.name, link, channel, owner)
        self._attach(peer)
        if peer.role == "publisher":
            self._gate.sources.attach(peer.key, self._now)
        return peer

    def _forget(self, peer: Peer) -> None:
        self._peers.pop(peer.key, None)
        if self._channels.get(peer.channel) is peer:
            del self._channels[peer.channel]

    def _remove(self, peer: Peer, reason: str) -> None:
        """The peer is gone, for whatever reason: nothing waits for it, nothing is held back by it."""
        self._forget(peer)
        self._table.subscribe(peer, ())
        for promises in self._views[peer.role]:
            if peer.role == "node" and peer.name in self._dialled and not reason.startswith("said goodbye"):
                promises.promise(peer.key, {})  # it may be behind a cut, with publishers of its own: nothing ends without it
                self._lost[peer.key] = self._now
            else:
                promises.leave(peer.key)
        self._gate.sources.leave(peer.key)
        self._interest_stale = True
        lost = peer.link.outstanding if peer.patterns else 0
        if lost:
            self.drops[f"frames to a {peer.role} that left"] += lost
        self._left[f"{peer.role}: {reason.partition(':')[0]}"] += 1
        self._effects.closed.append(Closed(peer.role, peer.name, reason, lost))
        if peer.role == "node" and peer.name in self._dialled and self._closing is None:
            self._dial(peer.name)

    # -- payloads -----------------------------------------------------------------------------------------------------

    def _received(self, peer: Peer, parts: Parts) -> None:
        try:
            payload: Payload = decode_payload(parts)
            if type(payload) is Interest:
                self._interested(peer, payload)
            elif type(payload) is Question:
                self.questions[peer.key] = payload.number
            elif type(payload) is Changes:
                if peer.role == "publisher":
                    payload = self._gate.heard(peer.key, payload, self._now)
                self._changed(peer, payload, parts)
        except WireError as error:
            self.drops[str(error).split(":", 1)[0]] += 1

    def _interested(self, peer: Peer, interest: Interest) -> None:
        try:
            patterns = frozenset(map(check_pattern, interest.subscriptions))
        except Exception as error:
            raise WireError(f"malformed subscription: {error}") from None
        self._interest_stale = True
        peer.forget_progress()
        peer.patterns, peer.on_slow, peer.paused = patterns, interest.on_slow, frozenset(interest.paused)
        if peer.role != "publisher":
            self._table.subscribe(peer, patterns)
        if peer.role == "subscriber":
            peer.ready_number = interest.number
            return
        peer.offered = self._gate.known(interest.raw)
        if peer.role == "publisher":
            self._gate.offered(peer.offered)
        derived = interest.derived if peer.role == "node" else ()
        for promises in self._views[peer.role]:
            promises.offer(peer.key, peer.offered, derived)
        if peer.role == "node" and peer.name in self._missing:
            self._missing.discard(peer.name)
            for head, block in self._early:
                if wanted(patterns, head.type):
                    peer.take((head, block))
                    self._events_out += head.count
            if not self._missing:
                self._early.clear()

    def _changed(self, peer: Peer, changes: Changes, parts: Parts) -> None:
        if peer.role == "subscriber":
            raise WireError("changes from a subscriber: only publishers and nodes send events")
        local = peer.role == "publisher"
        for head, block in zip(changes.blocks, parts[1:], strict=True):
            self._events_in += head.count
            if not local:
                self._route(head, block, None, local)
                continue
            if head.type not in peer.offered and self._gate.known([head.type]):
                self._offer_more(peer, head.type)
            bounds = self._gate.bounds(peer.key, head.type, self._now)
            for admitted in self._ingress.admit(head, block, head.type in self.subscriptions, bounds):
                if (newest := admitted[0].newest) is not None:
                    self._gate.sources.reached(peer.key, newest, self._now)
                self._route(*admitted, local)
        clock = self._gate.believed(peer.key, changes.clock, self._now) if local else changes.clock
        if clock is not None:
            self._clock = clock if self._clock is None else max(clock, self._clock)
            if local:
                self._clock_here = max(clock, self._clock_here)
        if changes.progress is not None:
            for promises in self._views[peer.role]:
                promises.promise(peer.key, changes.progress)

    def _offer_more(self, peer: Peer, name: str) -> None:
        self._interest_stale = True
        peer.offered |= {name}
        self._gate.offered([name])
        for promises in self._views[peer.role]:
            promises.offer(peer.key, peer.offered)

    def _route(self, head: BlockHead, block: bytes, delta: Delta | None, local: bool) -> None:
        """Hand on what came from outside, to the local detectors too."""
        self._forward(head, block, local)
        if head.type in self.subscriptions:
            self._inbox.put(head, block, delta)

    def _forward(self, head: BlockHead, block: bytes, local: bool) -> None:
        for target in self._table.route(head.type):
            if local or target.role == "subscriber":
                target.take((head, block))
                self._events_out += head.count

    # -- the local detectors ------------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """Events that wait for ``take``."""
        return self._inbox.pending

    def take(self, now: int) -> Batch | None:
        """All that has arrived for the local detectors since the last time; None if nothing has changed for them.

        ``progress`` holds what others promise of every type they read, but open ones; ``clock`` the largest raw time known.
        """
        self._now = now
        return self._inbox.take(self._elsewhere, self._clock, self._missing)

    def wanted(self) -> frozenset[str]:
        """Which of the types that the local detectors publish somebody else subscribes to."""
        return frozenset(name for name in self.publications if self._table.route(name))

    def publish(self, batch: Batch, now: int) -> None:
        """Send what the local detectors made. They have passed it among themselves already: it is not given back to them.

        Its clock mark is not needed: nodes hear of clocks from where the raw events come in.
        """
        self._now = now
        for name, delta in retractions_first(batch.deltas):
            if delta and (self._missing or self._table.route(name)):
                for head, block in encode_delta(name, delta):
                    if len(block) <= LARGEST_BLOCK:
                        self._forward(head, block, local=True)
                        if self._missing:
                            self._early.append((head, block))
                    else:
                        self.drops["oversized event"] += head.count
        if batch.progress:
            for name, until in batch.progress.items():
                self._local_progress[name] = max(until, self._local_progress.get(name, NEVER))
            for promises in self._views[_LOCAL]:
                promises.promise(_LOCAL, self._local_progress)

    # -- the end of a step --------------------------------------------------------------------------------------------

    def settle(self, now: int) -> Effects:
        """End a step, or let time pass: post what waits, acknowledge, hold or release publishers. O(peers)."""
        self._now = now
        if not self._missing:
            self._gate.stand_in(self._clock, [peer for peer in self._peers.values() if peer.role == "publisher"], now)
        if self._missing and now - self._born >= GATHER:
            self.drops["peers never seen"] += len(self._missing)
            self._missing.clear()
            self._early.clear()
        if self._pressure.update(self._peers.values(), self.subscriptions, self.publications, bool(self._missing)):
            self._interest_stale = True
        interest = self._current_interest()
        for peer in list(self._peers.values()):
            self._post(peer, interest, now)
            peer.link.consume()
            peer.link.tick(now)
            peer.link.settle(now)
            for message in peer.link.outbox:
                self._effects.sends.append((peer.channel, message))
            peer.link.outbox.clear()
            if peer.link.closed is not None:
                self._remove(peer, peer.link.closed)
        effects, self._effects = self._effects, Effects()
        if self._ingress.turned:
            effects.turned, self._ingress.turned = self._ingress.turned, []
            self.drops.update(_TURNED[turned.reason] for turned in effects.turned)
        return effects

    def _post(self, peer: Peer, interest: Interest, now: int) -> None:
        """Changes first, then progress, then what else is new: so nothing is ever overtaken by what it rests on."""
        if not peer.link.up or peer.role == "publisher":
            return
        is_node = peer.role == "node"
        tell_interest = is_node and peer.told_interest != interest.number
        promises = self._here if is_node else self._everywhere
        clock = self._clock_here if is_node else NEVER
        progress = None
        if tell_interest or peer.news_due(promises.version, clock, now):
            progress = {name: until for name, until in promises.values.items() if peer in self._table.route(name)}
            if not is_node:
                progress |= {name: NEVER for name in promises.open if peer in self._table.route(name)}
        peer.post(progress, promises.version, clock if progress is not None else NEVER, now)
        if tell_interest:
            peer.tell_interest(interest)
        if peer.ready_number is not None and self._is_known_everywhere(interest):
            peer.link.send([encode(Ready(peer.ready_number))])
            peer.ready_number = None

    def _current_interest(self) -> Interest:
        """What this node wants and offers, under a new number if that has changed."""
        if self._interest_stale:
            self._interest_stale = False
            peers = self._peers.values()
            wants = self._table.patterns([peer for peer in peers if peer.role == "subscriber"]) | self.subscriptions
            raw = frozenset[str]().union(*(peer.offered for peer in peers if peer.role == "publisher"))
            paused = self._pressure.paused
            now = Interest(0, sorted(wants), "block", sorted(raw), sorted(self.publications), sorted(paused))
            if self._interest.number == 0 or msgspec.structs.replace(self._interest, number=0) != now:
                self._interest = msgspec.structs.replace(now, number=self._interest.number + 1)
        return self._interest

    def _is_known_everywhere(self, interest: Interest) -> bool:
        nodes = [peer for peer in self._peers.values() if peer.role == "node" and peer.link.up]
        return not self._missing and all(peer.knows(interest) for peer in nodes)

    # -- the end ------------------------------------------------------------------------------------------------------

    def close(self, reason: str, now: int) -> None:
        """Begin to leave: take nothing more from publishers, and say goodbye to everyone once all they are to get is sent."""
        self._now, self._closing = now, reason
        for peer in self._peers.values():
            self._post(peer, self._current_interest(), now)
            peer.link.bye(reason)

    @property
    def drained(self) -> bool:
        """Whether no one who is attached is still to get anything."""
        return not any(peer.link.up for peer in self._peers.values())

    def answer(self, status: NodeStatus) -> None:
        """Tell those who have asked what streams wait for."""
        questions, self.questions = self.questions, {}
        for key, number in questions.items():
            if (peer := self._peers.get(key)) is not None:
                peer.link.send([encode(Answer(number, msgspec.json.encode(status)))])

    def waiting(self, units: list[UnitStatus]) -> NodeStatus:
        """What streams wait for at this node, with what its units say of themselves. O(types * origins)."""
        streams = {}
        for name in list(self._everywhere.known):
            promised, origins = self._everywhere.origins(name)
            streams[name] = StreamStatus(promised, [self._origin(*origin) for origin in origins.items()])
        slow = [f"{peer.role} {peer.name}" for peer in self._peers.values() if peer.slow]
        return NodeStatus(self.name, self._clock, streams, units, sorted(self._missing), sorted(self._pressure.paused), slow)

    def _origin(self, key: Hashable, promised: int | None) -> OriginStatus:
        if not isinstance(key, tuple):
            return OriginStatus("detectors", self.name, promised)
        role, name = key
        peer = self._peers.get(key)
        if role == "publisher" and key in self._gate.sources:
            source = self._gate.sources[key]
            held = peer is not None and peer.link.held
            return OriginStatus(role, name, promised, self._now - source.heard_at, source.stood_in is not None, held)
        away = role == "node" and (peer is None or peer.link.peer is None)
        return OriginStatus(role, name, promised, self._now - self._lost.get(key, self._now) if away else None, away=away)

    def statistics(self) -> BrokerStatistics:
        """A record of the counts so far."""
        return BrokerStatistics(
            self._events_in,
            self._inbox.taken,
            self._events_out,
            dict(self.drops),
            self._ingress.seen.gaps(),
            [peer.statistics() for peer in list(self._peers.values())],
            dict(self._left),
            sorted(self._missing),
        )
