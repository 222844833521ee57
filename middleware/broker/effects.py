"""The effects that a broker asks of its owner, and its statistics."""

from __future__ import annotations

import msgspec

from middleware.broker.ingress.checks import RejectedEvent
from middleware.broker.peers.peers import Channel, PeerStatistics
from middleware.link.frames import Parts, Role


class Disconnection(msgspec.Struct, frozen=True):
    """A peer is gone. ``lost``: frames that were meant for it and may not have arrived."""

    role: Role
    name: str
    reason: str
    lost: int


class Effects(msgspec.Struct):
    """What the owner of a broker is to do: send these messages, in this order; note who left, and report the rejections."""

    sends: list[tuple[Channel, Parts]] = []
    closed: list[Disconnection] = []
    rejected: list[RejectedEvent] = []

    def __bool__(self) -> bool:
        return bool(self.sends or self.closed or self.rejected)

    def add(self, later: Effects) -> None:
        """What is to be done after these."""
        self.sends += later.sends
        self.closed += later.closed
        self.rejected += later.rejected


class BrokerStatistics(msgspec.Struct):
    """Counts since the start. ``events_in``: with those that the node took again from its log, as its detectors count them.
    ``drops``: events or frames by reason. ``left``: peers that went, by role and reason.

    ``gaps``: intervals of raw identities kept. ``gathering``: nodes still waited for. ``attempts``: by source, events that
    others than its owner have tried to send.
    """

    events_in: int
    events_local: int
    events_out: int
    drops: dict[str, int]
    gaps: int
    peers: list[PeerStatistics]
    left: dict[str, int]
    gathering: list[str]
    attempts: dict[str, int] = {}
