"""The cursor of a final subscription: the offset to read a log from again, so that no event held back is lost. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from middleware.delivery.barrier import Barrier
from middleware.link.codec import SinkPosition
from middleware.model.change import Delta
from middleware.model.event import IDENTITY, ORDER, Event, Identity

_Group = list[int]
"""[offset before the changes that came together, how many of their events are still held back]."""


class Cursor:
    """See the module.

    ``log_offset``
        (line, offset) reached, (0, 0) before anything came. ``position``: finals up to this order key have been delivered.
    """

    def __init__(self, position: SinkPosition | None = None, log_offset: tuple[int, int] = (0, 0)) -> None:
        self.log_offset = log_offset
        self.position = position
        self._groups: deque[_Group] = deque()
        self._came: dict[Identity, _Group] = {}

    @property
    def offset(self) -> int:
        """The lowest offset after which something may still be needed. O(1)."""
        groups = self._groups
        while groups and not groups[0][1]:
            groups.popleft()
        return groups[0][0] if groups else self.log_offset[1]

    def fresh(self, finals: list[Event]) -> list[Event]:
        """The finals (in total order) that were not delivered before; from now on they count as delivered."""
        position = self.position
        if position is not None and finals and ORDER(finals[0]) <= position:
            finals = [event for event in finals if ORDER(event) > position]
        if finals:
            self.position = ORDER(finals[-1])
        return finals

    def moved(self, log_offset: tuple[int, int], deltas: Iterable[Delta], finals: list[Event], barrier: Barrier) -> None:
        """Changes have come that lead to ``log_offset``, and the barrier has released ``finals``. O(changes)."""
        group = [self.log_offset[1] if self.log_offset[0] == log_offset[0] else 0, 0]
        deltas = list(deltas)
        for delta in deltas:  # all retractions first: an identity may change its type
            known = [self._drop(IDENTITY(event)) for event in delta.retracts]
            known += [self._came.get(IDENTITY(old)) for old, _ in delta.revises]
            for came in known:
                if came is not None:
                    group[0] = self._bind(came, group[0])
        for delta in deltas:
            for event in (*(new for _, new in delta.revises), *delta.inserts):
                identity = IDENTITY(event)
                if identity in barrier and identity not in self._came:
                    self._came[identity] = group
                    group[1] += 1
        for event in finals:
            self._drop(IDENTITY(event))
        if group[1]:
            self._groups.append(group)
        self.log_offset = log_offset

    def forget(self) -> None:
        """The events held back were dropped: none of them needs to be read again."""
        self._groups.clear()
        self._came.clear()

    def _drop(self, identity: Identity) -> _Group | None:
        group = self._came.pop(identity, None)
        if group is not None:
            group[1] -= 1
        return group

    def _bind(self, came: _Group, start: int) -> int:
        """An event of group ``came`` changes now: to read the change again, the event must be read again, too."""
        low = came[0]
        for group in reversed(self._groups):
            if group[0] <= low:
                break
            group[0] = low
        return min(low, start)
