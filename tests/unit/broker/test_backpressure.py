"""Backpressure goes from a slow reader to the sources of what it reads, and nowhere else."""

from __future__ import annotations

from middleware.broker.backpressure import Pressure
from middleware.broker.peers import Peer
from middleware.link.link import Link

RESTS = {"Reading": ("Low",), "Pair": ("Summary",)}
"""Two detectors of one node: one makes Low of Reading, the other Summary of Pair."""


def told(*paused: str) -> Peer:
    """Another node, which says that it has no room for these types."""
    peer = Peer("node", "other", Link("this", "node", 1, 0, dials=False), "other")
    peer.paused = frozenset(paused)
    return peer


def test_what_a_paused_type_is_made_of_is_paused_too() -> None:
    pressure = Pressure()
    assert pressure.update([told("Low")], RESTS, too_soon=False)
    assert pressure.paused == {"Reading"}


def test_what_other_detectors_of_the_node_read_is_not() -> None:
    """Node a makes Pair of Low, node b Low of Reading and Summary of Pair: they must not hold each other for ever."""
    one, other = Pressure(), Pressure()
    one.update([told("Pair")], {"Low": ("Pair",)}, too_soon=False)
    other.update([told(*one.paused)], RESTS, too_soon=False)
    assert "Pair" not in other.paused


def test_it_ends_when_there_is_room_again() -> None:
    pressure = Pressure()
    pressure.update([told("Low")], RESTS, too_soon=False)
    assert pressure.update([told()], RESTS, too_soon=False)
    assert pressure.paused == frozenset()
