"""Windowed grouping: each item together with the last ones before it in its bucket (Kuralenok et al. 2018, V.B and V.D).

Algorithm 1 says what the groups are when items come in order; Algorithm 2 what to send when they do not: tombstones for broken
groups, and the new groups. Here both are one: items are put in their place, and each group that may have changed is checked
once, after all changes. The output is the net of what Algorithm 2 would send item by item.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from detectors.flow.operations.items import ABSENT, Change, Position, same
from middleware.model.event import Value

_TRIM = 32
"""The least number of items that a bucket forgets at once."""


class Bucket:
    """The items of one key in order, each with the group that was sent for it: the items up to it, at most ``window``."""

    __slots__ = ("groups", "items", "positions", "window")

    def __init__(self, window: int) -> None:
        self.window = window
        self.positions: list[Position] = []
        self.items: list[Value] = []
        self.groups: list[Value] = []

    def __len__(self) -> int:
        return len(self.positions)

    def change(self, changes: list[Change]) -> list[Change]:
        """Put and remove items; returns the changes of groups. O(log n + window) per change, plus moving later items.

        ``changes`` in any order, each position at most once. The groups come in order.
        """
        if len(changes) == 1:
            return self._change_one(changes[0])
        changes.sort(key=_position)
        if changes[0][1] is ABSENT and (not self.positions or self.positions[-1] < changes[0][0]) and _inserts(changes):
            return [self._append(position, new) for position, _, new in changes]
        dirty: set[Position] = set()
        gone: list[Change] = []
        for position, _, new in changes:
            at, withdrawn = self.put(position, new)
            dirty.update(self.positions[at : at + self.window])
            if withdrawn is not ABSENT:
                gone.append((position, withdrawn, ABSENT))
        return sorted([*gone, *self._regrouped(sorted(dirty))], key=_position)

    def _change_one(self, change: Change) -> list[Change]:
        position, _, new = change
        if new is not ABSENT and (not self.positions or self.positions[-1] < position):
            return [self._append(position, new)]
        at, withdrawn = self.put(position, new)
        gone = [(position, withdrawn, ABSENT)] if withdrawn is not ABSENT else []
        return [*gone, *self._regrouped(self.positions[at : at + self.window])]

    def _append(self, position: Position, item: Value) -> Change:
        self.positions.append(position)
        self.items.append(item)
        group = tuple(self.items[-self.window :])
        self.groups.append(group)
        return (position, ABSENT, group)

    def put(self, position: Position, item: Value) -> tuple[int, Value]:
        """Put an item at its position, replace it, or (ABSENT) remove it.

        Returns the place of the first group that this may change, and the group that went with its item, or ABSENT. ``regroup``
        updates the groups themselves.
        """
        positions = self.positions
        at = bisect_left(positions, position)
        there = at < len(positions) and positions[at] == position
        if item is ABSENT:
            if not there:
                return at, ABSENT
            del positions[at], self.items[at]
            return at, self.groups.pop(at)
        if there:
            self.items[at] = item
        else:
            positions.insert(at, position)
            self.items.insert(at, item)
            self.groups.insert(at, ABSENT)
        return at, ABSENT

    def regroup(self, position: Position) -> Change | None:
        """Check the group of the item at ``position`` again: returns its change since the last check, if any."""
        at = bisect_left(self.positions, position)
        if at == len(self.positions) or self.positions[at] != position:
            return None
        sent = self.groups[at]
        group = tuple(self.items[max(0, at + 1 - self.window) : at + 1])
        if sent is not ABSENT and same(sent, group):
            return None
        self.groups[at] = group
        return (position, sent, group)

    def _regrouped(self, positions: list[Position]) -> Iterator[Change]:
        return filter(None, map(self.regroup, positions))

    def following(self, position: Position) -> list[Position]:
        """The positions after this one whose groups reach back to it or past it. O(log n + window)."""
        at = bisect_left(self.positions, position)
        if at < len(self.positions) and self.positions[at] == position:
            at += 1
        return self.positions[at : at + self.window - 1]

    def forget(self, final: int) -> None:
        """Nothing with ts <= ``final`` will change: keep only items that future groups reach back to. O(1) amortized."""
        positions = self.positions
        if len(positions) < _TRIM + self.window or positions[_TRIM][0] > final:
            return
        cut = bisect_left(positions, (final + 1,)) - (self.window - 1)
        if cut >= min(_TRIM, len(positions) // 2):
            del positions[:cut], self.items[:cut], self.groups[:cut]

    def columns(self) -> tuple[list[Value], ...]:
        """Its content, as columns that later changes do not touch."""
        return self.positions[:], self.items[:], self.groups[:]

    def restore(self, columns: tuple[list[Value], ...]) -> None:
        """Take over the content that ``columns`` gave."""
        self.positions, self.items, self.groups = map(list, columns)

    def check(self) -> None:
        assert all(one < other for one, other in zip(self.positions, self.positions[1:], strict=False)), "out of order"
        assert len(self.positions) == len(self.items) == len(self.groups), "columns of unequal length"
        for at in range(self.window - 1, len(self)):
            assert self.groups[at] == tuple(self.items[at + 1 - self.window : at + 1]), "a group that is not what was sent"


def _position(change: Change) -> Position:
    return change[0]


def _inserts(changes: list[Change]) -> bool:
    return not any(new is ABSENT for _, _, new in changes)
