"""Which peers a node admits: why it refuses a peer that says Hello. ZeroMQ has checked by then that its key is listed."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from middleware.broker.peers.peers import Peer
from middleware.link.frames import VERSION, Hello

MOST_PEERS = 4_096
"""Peers that one node has at a time; more are refused until some leave."""


class Objection(msgspec.Struct, frozen=True):
    """Why a node refuses a peer. ``final``: it need not ask again. ``counted``: the reason under which it is counted."""

    reason: str
    final: bool
    counted: str | None = None


def objection(
    node: str,
    hello: Hello,
    owner: str | None,
    known: Peer | None,
    *,
    count: int,
    closing: bool,
    configured: Collection[str],
) -> Objection | None:
    """The objection of ``node`` to this Hello, if it has one.

    ``owner``: the owner of the key behind the channel, None without keys. ``known``: the peer of this role and name, if there
    is one. ``count``: peers at the moment. ``closing``: the node is about to leave. ``configured``: nodes of its configuration:
    with keys, only the key of a node's own name speaks for it.
    """
    role, name = hello.role, hello.name
    if hello.version != VERSION:
        return Objection(
            f"node {node} speaks version {VERSION} of the protocol, not {hello.version}", True, "other protocol version"
        )
    if closing:
        return Objection(f"node {node} shuts down", False)
    if not name.isprintable():
        return Objection("a name must be printable", True, "name that cannot be printed")
    if role == "node" and owner is not None and owner != name:
        return Objection(
            f"the key of {owner!r} is not that of node {name!r}: nodes are named as their keys",
            True,
            "node with the key of another",
        )
    if role == "node" and owner is not None and name not in configured and name != node:
        return Objection(f"node {name!r} is not in the configuration of node {node}", False, "node that is not configured")
    if role == "node" and name == node:
        return Objection(f"two nodes are named {name!r}: give each node its own name", True)
    if known is not None and not known.link.dials and known.owner != owner:
        return Objection(f"the name {name!r} belongs to a {role} with another key", True, "name that belongs to another key")
    if known is None and count >= MOST_PEERS:
        return Objection(f"node {node} has {MOST_PEERS} peers, which is all it takes", False, "one peer too many")
    return None
