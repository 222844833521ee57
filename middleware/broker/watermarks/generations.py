"""Generations: a stream that has ended resumes when a publisher comes that may send it, after all that was final, at all nodes.

Within one generation END lasts: every origin of a type has ended it, so all its events are final, and no window waits any
more. A new generation begins where a publisher offers a type that has ended. Streams that depend on it may have ended at any
node. So every node *adopts* the generation as soon as it hears of it: from then on it believes no END that was promised
before, by others or by its own detectors, and tells all others the latest time that was final at its place (``reached``). The
largest of these is the *floor*: at all nodes, streams that had ended resume from there, and nothing as old as that comes any
more, so what was final stays final, and total order holds across the end. The publisher may not send before its node knows
the floor, and what all nodes still send: whatever ends by then ends by the word of this generation.

Each node computes the floor itself from what the others say in their ``Interest``; a node that hears it from another does not
wait. A node passes the floor on before anything that came later, so events never overtake it.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import msgspec

from middleware.broker.log.records import PeerKey
from middleware.link.codec import Interest
from middleware.model.event import NEVER


class Announcement(msgspec.Struct):
    """What a node says of itself: the ``generation`` in which it promises, the latest time that was final there when it began,
    by how much results may be earlier than their causes, and the generation for which it has ``stated`` what has ended."""

    generation: int
    reached: int
    backdate: int
    stated: int = 0


class Generations(msgspec.Struct):
    """The generation of a node, and what it knows of those of the others.

    ``reached``
        the latest time that was final here when this generation began. ``backdate``: of all levels of detectors together.
    ``floor``
        None until it is known. ``before``: that of the last generation, if it was known here. ``due``: the floor that the
        detectors have yet to be told.
    ``said``
        by node, including those that are away and will be back.
    """

    number: int = 0
    reached: int = NEVER
    backdate: int = 0
    floor: int | None = NEVER
    before: int | None = None
    due: int | None = None
    said: dict[PeerKey, Announcement] = {}

    def begin(self, number: int, reached: int) -> None:
        """A new generation."""
        self.before = self.floor if self.number and number == self.number + 1 else None
        self.number, self.reached, self.floor = number, max(reached, self.reached), None

    def received(self, key: PeerKey, interest: Interest) -> None:
        """A node says in which generation it is: its next promises are made in that generation."""
        before = self.said.get(key)
        stated = min(before.stated, interest.generation) if before is not None else 0
        self.said[key] = Announcement(interest.generation, interest.reached, interest.backdate, stated)

    def stated(self, key: PeerKey) -> None:
        """A node has sent all its promises in the generation that it is in."""
        if (said := self.said.get(key)) is not None:
            said.stated = said.generation

    def is_old(self, key: PeerKey) -> bool:
        """Whether a node still promises in an earlier generation."""
        return key in self.said and self.said[key].generation < self.number

    @property
    def in_doubt(self) -> bool:
        """Whether some node has yet to say what has ended in this generation. O(nodes)."""
        return any(said.stated < self.number for said in self.said.values())

    def awaited(self, nodes: Container[PeerKey]) -> list[PeerKey]:
        """The nodes that have yet to announce which types ended in this generation."""
        return [key for key, said in self.said.items() if said.stated < self.number and key in nodes]

    def common(self) -> int:
        """The floor, from what all nodes in this generation have said."""
        return max([self.reached, *(said.reached for said in self.said.values() if said.generation == self.number)])

    @property
    def margin(self) -> int:
        """How much later than the floor raw events have to be, so that no result is as old."""
        return max([self.backdate, *(said.backdate for said in self.said.values())])

    def state(self) -> dict[str, Any]:
        """All of it as plain values."""
        return msgspec.structs.asdict(self) | {"said": {key: msgspec.structs.astuple(said) for key, said in self.said.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        """Return to ``state``, except for what depends on the code."""
        self.number, self.reached, self.floor = state["number"], state["reached"], state["floor"]
        self.due, self.before = state["due"], state["before"]
        self.said = {key: Announcement(*said) for key, said in state["said"].items()}
