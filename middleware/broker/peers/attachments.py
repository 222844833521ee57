"""Who is attached to a broker, by which channel and under which name; who was, and will be back; whom to dial."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from middleware.broker.effects import Disconnection
from middleware.broker.log.log_records import PeerKey
from middleware.broker.peers.greeting import objection
from middleware.broker.peers.peers import Channel, Peer
from middleware.broker.peers.rights import Rights, sender_of
from middleware.link.codec import Drops
from middleware.link.frames import Hello, Parts, Refusal, encode_frame
from middleware.link.link import SILENCE, Link
from middleware.model.time import MILLISECOND, SECOND

_PAUSE = 200 * MILLISECOND
_LONGEST_PAUSE = 10 * SECOND

Gone = Callable[[Peer, str, bool], None]
"""(peer, reason, whether it returns at this moment): a link is to be dropped."""


class Dialling:
    """When nodes of the configuration are dialled again: at once when they were lost, ever more rarely when they refuse.

    ``names``: the nodes to dial; all are due at the beginning.
    """

    def __init__(self, names: Iterable[str], now: int) -> None:
        self.names = frozenset(names)
        self._due = dict.fromkeys(sorted(self.names), now)
        self._pauses: dict[str, int] = {}

    def lost(self, name: str, refused: bool, now: int) -> None:
        """There is no link with this node any more; ``refused``: one end refused the other, and may well do so again."""
        if name not in self.names:
            return
        pause = 0
        if refused:
            pause = self._pauses[name] = min(2 * self._pauses.get(name, _PAUSE // 2), _LONGEST_PAUSE)
        self._due[name] = now + pause

    def joined(self, name: str) -> None:
        """The node has been let in, and has let this one in."""
        self._due.pop(name, None)
        self._pauses.pop(name, None)

    def due(self, now: int) -> list[str]:
        """The nodes that are to be dialled now; each is named once."""
        due = [name for name, at in self._due.items() if now >= at] if self._due else []
        for name in due:
            del self._due[name]
        return due


class Attachments:
    """See the module.

    ``peers``
        by role and name. ``configured``: names of the nodes to dial; the channel to each is its name.
    ``asking``
        peers that have asked what streams wait for, and have no answer yet.
    ``joined``
        nodes and publishers that have come, or come back, since the owner last cleared this.
    ``awaited``
        peers of a former life, and until when their promises hold without them.
    ``lost``
        nodes that were here and are gone, and since when.
    ``left``
        peers that went, by role and reason. ``closed``: those since the owner last took them.
    ``refusals``
        messages to channels whose peers were not let in, for the owner to take.
    ``gone``
        called before a peer is replaced by another one on its channel, or by its next life.
    """

    def __init__(
        self,
        name: str,
        epoch: int,
        now: int,
        configured: Iterable[str],
        rights: Callable[[Channel], Rights | None],
        drops: Drops,
        gone: Gone,
    ) -> None:
        self.epoch, self.born = epoch, now
        self.peers: dict[PeerKey, Peer] = {}
        self.joined: list[PeerKey] = []
        self.asking: set[PeerKey] = set()
        self.awaited: dict[PeerKey, int] = {}
        self.lost: dict[PeerKey, int] = {}
        self.left: Counter[str] = Counter()
        self.closed: list[Disconnection] = []
        self.refusals: list[tuple[Channel, Parts]] = []
        self.dialling = Dialling(frozenset(configured) - {name}, now)
        self.configured = self.dialling.names
        self._name, self._rights, self._drops, self._gone = name, rights, drops, gone
        self._channels: dict[Channel, Peer] = {}
        self.dial_due(now)

    def on(self, channel: Channel) -> Peer | None:
        """The peer on a channel."""
        return self._channels.get(channel)

    def dial_due(self, now: int) -> None:
        """Dial the nodes that are due."""
        for name in self.dialling.due(now):
            if ("node", name) not in self.peers:  # it may have dialled meanwhile
                self._attach(Peer("node", name, Link(self._name, "node", self._next_epoch(), now, dials=True), name))

    def to_answer(self, now: int) -> list[Peer]:
        """The peers whose question can be answered now. O(peers that ask)."""
        asking = (self.peers.get(key) for key in self.asking)
        return [peer for peer in asking if peer is not None and peer.is_answered_next(now)]

    def refuse(self, channel: Channel, reason: str, final: bool, epoch: int = 0) -> None:
        """Refuse the peer on a channel; ``final``: it need not ask again."""
        self.refusals.append((channel, [encode_frame(Refusal(reason, final, epoch))]))

    def greeted(self, channel: Channel, hello: Hello, now: int, closing: bool) -> tuple[Peer | None, bool]:
        """The peer that says Hello on a channel of its own, and whether its link is new; no peer if it is refused.

        ``closing``: this node is about to leave.
        """
        key: PeerKey = (hello.role, hello.name)
        here = self._channels.get(channel)
        if here is not None and here.key != key:
            self._gone(here, "another took its channel", False)
        rights, known = self._rights(channel), self.peers.get(key)
        owner = rights.owner if rights is not None else None
        against = objection(self._name, hello, owner, known, count=len(self.peers), closing=closing, configured=self.configured)
        if against is not None:
            self.refuse(channel, against.reason, against.final, hello.epoch)
            if against.counted:
                self._drops[against.counted] += 1
            return None, False
        if known is not None and known.link.dials:
            if hello.name < self._name:  # of two nodes that know each other, the later-named one dials
                self.refuse(channel, f"node {self._name} dials node {hello.name}", False, hello.epoch)
                return None, False
            self.forget(known)
        elif known is not None and known.link.peer is not None:
            if hello.epoch == known.link.peer.epoch:
                self._channels.pop(known.channel, None)
                known.channel = channel
                self._channels[channel] = known
                return known, False
            if hello.epoch < known.link.peer.epoch:
                self._drops["Hello of an old epoch"] += 1
                newer = f"a newer {hello.role} named {hello.name!r} is attached to node {self._name}"
                self.refuse(channel, newer, True, hello.epoch)
                return None, False
            self._gone(known, "restarted", True)
            if (dialled := self.peers.get(key)) is not None:
                self.forget(dialled)
        link = Link(self._name, "node", self._next_epoch(), now, dials=False)
        peer = Peer(hello.role, hello.name, link, channel, rights, hello.shares)
        self._attach(peer)
        return peer, True

    def read_rights_again(self) -> None:
        """The rights of keys may have changed."""
        for peer in self.peers.values():
            rights = self._rights(peer.channel)
            if rights is not None and peer.rights is not None:
                peer.sender = sender_of(peer.name, rights)

    def forget(self, peer: Peer) -> None:
        """Nothing comes from this peer any more, and nothing is sent to it."""
        self.peers.pop(peer.key, None)
        self.asking.discard(peer.key)
        if self._channels.get(peer.channel) is peer:
            del self._channels[peer.channel]

    def note_closed(self, peer: Peer, reason: str, lost: int) -> None:
        """Count a peer that is gone; ``lost``: see ``Disconnection``."""
        self.left[f"{peer.role}: {reason.partition(':')[0]}"] += 1
        self.closed.append(Disconnection(peer.role, peer.name, reason, lost))

    def await_again(self, key: PeerKey) -> None:
        """A peer of the last life may be back."""
        self.awaited[key] = self.born + SILENCE
        if key[0] == "node":
            self.lost[key] = self.born

    def overdue(self, now: int) -> list[PeerKey]:
        """The peers of a former life that have not come back in time; each is named once."""
        if not self.awaited:
            return []
        overdue = [key for key, until in self.awaited.items() if now >= until]
        for key in overdue:
            del self.awaited[key]
        return overdue

    def was_away(self, duration: int, now: int) -> None:
        """This node did not run for a while: in that time no peer counts as silent."""
        for peer in self.peers.values():
            peer.link.exempt(duration, now)
        self.awaited = {key: until + duration for key, until in self.awaited.items()}

    def wait_longer(self, now: int) -> None:
        """This node cannot answer at the moment: the peers it awaits get their full time once it can, and none asks in vain."""
        self.awaited = dict.fromkeys(self.awaited, now + SILENCE)
        for peer in self.peers.values():
            peer.link.is_withheld(now)

    def _next_epoch(self) -> int:
        self.epoch += 1
        return self.epoch

    def _attach(self, peer: Peer) -> None:
        self.peers[peer.key] = self._channels[peer.channel] = peer
        self.asking.discard(peer.key)
        if not peer.link.dials:
            self.awaited.pop(peer.key, None)
