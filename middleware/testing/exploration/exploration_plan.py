"""Plans to explore: a few nodes, a few publishers with a fixed list of acts, and how many faults may happen between them.

A plan fixes *what* happens; the exploration tries every order *in which* it can happen.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["promise", "event", "retract", "end", "leave", "flush"]


class Act(msgspec.Struct, frozen=True):
    """One act of a publisher. ``at``: the time of a promise, of an event, or of the one that it withdraws."""

    kind: Kind
    at: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.at}" if self.kind in ("promise", "event", "retract") else self.kind


class PublisherPlan(msgspec.Struct, frozen=True):
    """A publisher: its node, what it does after it has attached and offered the raw type, and when it comes.

    ``after``: the publisher that must have left before; empty if it may come at any time.
    """

    name: str
    node: str
    acts: tuple[Act, ...]
    after: str = ""


class SubscriberPlan(msgspec.Struct, frozen=True):
    """A subscriber to the raw type: its node, and how often it comes. It leaves each time but the last."""

    name: str
    node: str
    visits: int = 2


class ExplorationPlan(msgspec.Struct, frozen=True):
    """The start of an exploration.

    ``nodes``: all are peers of each other. ``readers``: nodes with a detector that reads the raw type. ``durable``: nodes with
    a log. ``cuts``: how often a link may lose what is under way. ``restarts``: how often a node of ``mortal`` may crash and
    come back. ``linked``: whether the nodes have met before anything else happens.
    """

    name: str
    nodes: tuple[str, ...]
    readers: tuple[str, ...]
    publishers: tuple[PublisherPlan, ...]
    durable: tuple[str, ...] = ()
    mortal: tuple[str, ...] = ()
    subscribers: tuple[SubscriberPlan, ...] = ()
    cuts: int = 0
    restarts: int = 0
    linked: bool = True


def acts(text: str) -> tuple[Act, ...]:
    """The acts that a line of words names: ``promise 5, event 10, end, leave``."""
    found = []
    for part in text.split(","):
        kind, _, at = part.strip().partition(" ")
        found.append(Act(kind, int(at or 0)))  # type: ignore[arg-type]
    return tuple(found)
