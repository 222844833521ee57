"""Eras: a stream that has ended goes on when a publisher comes that may send it, after all that was final, at all nodes alike.

Within one era END lasts: every origin of a type has ended it, so all its events are final, and no window waits any more.
A new era begins where a publisher offers a type that has ended. Streams that depend on it may have ended at any node. So every
node *adopts* the era as soon as it hears of it: from then on it believes no END that was promised before, by others or by its
own detectors, and tells all others the latest time that was final at its place (``reached``). The largest of these is the
*ground*: at all nodes, streams that had ended go on from there, and nothing as old as that comes any more, so what was final
stays final, and total order holds across the end. The publisher may not send before its node knows the ground, and what all
nodes still send: whatever ends by then ends by the word of this era.

Each node computes the ground itself from what the others say in their ``Interest``; a node that hears it from another does not
wait. A node passes the ground on before anything that came later, so events never overtake it.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import msgspec

from middleware.broker.log.records import PeerKey
from middleware.link.codec import Interest
from middleware.model.event import NEVER


class Said(msgspec.Struct):
    """What a node says of itself: the ``era`` in which it promises, the latest time that was final there when it began, by how
    much results may be earlier than their causes, and the era for which it has ``stated`` by now what has ended."""

    era: int
    reached: int
    backdate: int
    stated: int = 0


class Eras(msgspec.Struct):
    """The era of a node, and what it knows of those of the others.

    ``reached``
        the latest time that was final here when this era began. ``backdate``: of all levels of detectors together.
    ``ground``
        None until it is known. ``before``: that of the era before, if it was known here. ``due``: the ground that the detectors
        have yet to be told.
    ``said``
        by node, including those that are away and will be back.
    """

    number: int = 0
    reached: int = NEVER
    backdate: int = 0
    ground: int | None = NEVER
    before: int | None = None
    due: int | None = None
    said: dict[PeerKey, Said] = {}

    def begin(self, number: int, reached: int) -> None:
        """A new era."""
        self.before = self.ground if self.number and number == self.number + 1 else None
        self.number, self.reached, self.ground = number, max(reached, self.reached), None

    def received(self, key: PeerKey, interest: Interest) -> None:
        """A node says in which era it is: its next promises are made in that era."""
        before = self.said.get(key)
        stated = min(before.stated, interest.era) if before is not None else 0
        self.said[key] = Said(interest.era, interest.reached, interest.backdate, stated)

    def stated(self, key: PeerKey) -> None:
        """A node has sent all its promises in the era that it is in."""
        if (said := self.said.get(key)) is not None:
            said.stated = said.era

    def is_old(self, key: PeerKey) -> bool:
        """Whether a node still promises in an earlier era."""
        return key in self.said and self.said[key].era < self.number

    @property
    def in_doubt(self) -> bool:
        """Whether some node has yet to say what has ended in this era. O(nodes)."""
        return any(said.stated < self.number for said in self.said.values())

    def awaited(self, nodes: Container[PeerKey]) -> list[PeerKey]:
        """Those of the nodes that have yet to say what has ended in this era."""
        return [key for key, said in self.said.items() if said.stated < self.number and key in nodes]

    def common(self) -> int:
        """The ground, from what all nodes in this era have said."""
        return max([self.reached, *(said.reached for said in self.said.values() if said.era == self.number)])

    @property
    def margin(self) -> int:
        """How much later than the ground raw events have to be, so that no result is as old."""
        return max([self.backdate, *(said.backdate for said in self.said.values())])

    def state(self) -> dict[str, Any]:
        """All of it as plain values."""
        return msgspec.structs.asdict(self) | {"said": {key: msgspec.structs.astuple(said) for key, said in self.said.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        """Return to ``state``, except for what depends on the code."""
        self.number, self.reached, self.ground = state["number"], state["reached"], state["ground"]
        self.due, self.before = state["due"], state.get("before")
        self.said = {key: Said(*said) for key, said in state["said"].items()}
