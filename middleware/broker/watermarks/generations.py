"""Generations: a stream that has ended resumes when a publisher comes that may send it, after all that was final, at all nodes.

Within one generation END lasts: every origin of a type has ended it, so all its events are final, and no window waits any
more. A new generation begins where a publisher offers a type that has ended. Streams that depend on it may have ended at any
node. So every node *adopts* the generation as soon as it gets its number: from then on no END counts that was promised
before, by others or by its own detectors. The node announces the latest time that is final for it (``reached``). The
largest of these is the *floor*: at all nodes, streams that had ended resume from there, and nothing as old as that comes any
more, so what was final stays final, and total order holds across the end. The publisher may not send before its node knows
the floor, and what all nodes still send: whatever ends by then ends in this generation.

Each node computes the floor itself from the ``Interest`` of the others; a node that gets it from another does not
wait. A node passes the floor on before anything that came later, so events never overtake it.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import msgspec

from middleware.broker.log.log_records import PeerKey
from middleware.link.codec import Interest
from middleware.model.event import NEVER


class Announcement(msgspec.Struct):
    """What a node announces: the ``generation`` in which it promises, the latest time that was final there when it began,
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
        detectors do not know yet.
    ``announcements``
        by node, including those that are away and will be back.
    """

    number: int = 0
    reached: int = NEVER
    backdate: int = 0
    floor: int | None = NEVER
    before: int | None = None
    due: int | None = None
    announcements: dict[PeerKey, Announcement] = {}

    def begin(self, number: int, reached: int) -> None:
        """A new generation."""
        self.before = self.floor if self.number and number == self.number + 1 else None
        self.number, self.reached, self.floor = number, max(reached, self.reached), None

    def received(self, key: PeerKey, interest: Interest) -> None:
        """A node announces its generation: its next promises are made in that generation."""
        before = self.announcements.get(key)
        stated = min(before.stated, interest.generation) if before is not None else 0
        self.announcements[key] = Announcement(interest.generation, interest.reached, interest.backdate, stated)

    def stated(self, key: PeerKey) -> None:
        """A node has sent all its promises in the generation that it is in."""
        if (last := self.announcements.get(key)) is not None:
            last.stated = last.generation

    def is_old(self, key: PeerKey) -> bool:
        """Whether a node still promises in an earlier generation."""
        return key in self.announcements and self.announcements[key].generation < self.number

    @property
    def ends_in_doubt(self) -> bool:
        """Whether some node has yet to announce what has ended in this generation. O(nodes)."""
        return any(each.stated < self.number for each in self.announcements.values())

    def awaited(self, nodes: Container[PeerKey]) -> list[PeerKey]:
        """The nodes that have yet to announce which types ended in this generation."""
        return [key for key, each in self.announcements.items() if each.stated < self.number and key in nodes]

    def common(self) -> int:
        """The floor, from the announcements of all nodes in this generation."""
        return max([self.reached, *(each.reached for each in self.announcements.values() if each.generation == self.number)])

    @property
    def margin(self) -> int:
        """How much later than the floor raw events have to be, so that no result is as old."""
        return max([self.backdate, *(each.backdate for each in self.announcements.values())])

    def state(self) -> dict[str, Any]:
        """The whole state as built-in values."""
        stored = msgspec.structs.asdict(self)
        del stored["announcements"]
        return stored | {"said": {key: msgspec.structs.astuple(each) for key, each in self.announcements.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        """Return to ``state``, except for what depends on the code."""
        self.number, self.reached, self.floor = state["number"], state["reached"], state["floor"]
        self.due, self.before = state["due"], state["before"]
        self.announcements = {key: Announcement(*values) for key, values in state["said"].items()}
