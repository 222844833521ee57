"""A stateful transformation run as one operation: for each key the items in order, each with the state after it.

This is what the bucket of Figure 6 holds (item, state, item, state, ...), without sending the states round the cycle: its fixed
point is found by folding on from the first item that changed, until a state is the same as before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from detectors.flow.graphs.flow_graph import Fold
from detectors.flow.operations.calls import CallFailures, outputs
from detectors.flow.operations.items import ABSENT, Change, Position, same
from middleware.model.errors import ENDING
from middleware.model.event import Value

_TRIM = 32
"""The least number of items that a fold forgets at once."""


class FoldBucket:
    """The items of one key in order, with their states and outputs."""

    __slots__ = ("_failures", "_fold", "_name", "items", "outs", "positions", "states")

    def __init__(self, name: str, fold: Fold, failures: CallFailures) -> None:
        self._name, self._fold, self._failures = name, fold, failures
        self.positions: list[Position] = []
        self.items: list[Value] = []
        self.states: list[Value] = []
        self.outs: list[Sequence[Value]] = []

    def __len__(self) -> int:
        return len(self.positions)

    def change(self, changes: list[Change]) -> list[Change]:
        """Put and remove items, each position at most once; returns the changes of the outputs.

        O(1) folds per item in order; else one fold for each item from the first that changed until the state is the same as
        before.
        """
        if len(changes) > 1:
            changes.sort(key=_position)
        out: list[Change] = []
        if not self.positions or self.positions[-1] < changes[0][0]:
            self._append(changes, out)
            return out
        dirty = [self._put(position, item, out) for position, _, item in changes]
        self._fold_on(dirty, out)
        return out

    def _append(self, changes: list[Change], out: list[Change]) -> None:
        """Fold items in order, after all others."""
        state = self.states[-1] if self.states else None
        for position, _, item in changes:
            if item is ABSENT:
                continue
            state, given = self._folded(state, position, item)
            self.positions.append(position)
            self.items.append(item)
            self.states.append(state)
            self.outs.append(given)
            for ordinal, value in enumerate(given):
                out.append(((*position, ordinal), ABSENT, value))

    def _put(self, position: Position, item: Value, out: list[Change]) -> Position:
        """Put, replace or remove an item; returns the position to fold on from."""
        positions = self.positions
        at = bisect_left(positions, position)
        there = at < len(positions) and positions[at] == position
        if item is not ABSENT:
            if there:
                self.items[at], self.states[at] = item, ABSENT
            else:
                positions.insert(at, position)
                self.items.insert(at, item)
                self.states.insert(at, ABSENT)
                self.outs.insert(at, ())
        elif there:
            del positions[at], self.items[at], self.states[at]
            _differ(position, self.outs.pop(at), (), out)
            if self._failures.found:
                self._failures.found.pop((self._name, position), None)
        return position

    def _fold_on(self, dirty: list[Position], out: list[Change]) -> None:
        """Fold on from each dirty position, in order, until a state is the same as before."""
        positions, items, states, outs = self.positions, self.items, self.states, self.outs
        at = 0
        for position in dirty:
            first = bisect_left(positions, position)
            if first < at:
                continue  # already folded past it
            at = first
            while at < len(positions):
                was = states[at]
                state, given = self._folded(states[at - 1] if at else None, positions[at], items[at])
                _differ(positions[at], outs[at], given, out)
                states[at], outs[at] = state, given
                at += 1
                if was is not ABSENT and same(was, state):
                    break

    def _folded(self, before: Value, position: Position, item: Value) -> tuple[Value, Sequence[Value]]:
        """State and outputs after an item. If the fold raises, the state stays as it was."""
        failures = self._failures
        if failures.found:
            failures.found.pop((self._name, position), None)
        try:
            state, given = self._fold(before, item)
            return state, outputs(given)
        except ENDING:
            raise
        except BaseException:
            failures.raised(self._name, position)
            return before, ()

    def forget(self, final: int) -> None:
        """Nothing with ts <= ``final`` will change: keep only the last state of these, unless it is None. O(1) amortized."""
        positions = self.positions
        if positions and self.states[-1] is None and positions[-1][0] <= final:
            for column in (positions, self.items, self.states, self.outs):
                column.clear()
        if len(positions) <= _TRIM or positions[_TRIM][0] > final:
            return
        cut = bisect_left(positions, (final + 1,)) - 1
        if cut >= min(_TRIM, len(positions) // 2):
            del positions[:cut], self.items[:cut], self.states[:cut], self.outs[:cut]

    def columns(self) -> tuple[list[Value], ...]:
        """Its content, as columns that later changes do not touch."""
        return self.positions[:], self.items[:], self.states[:], self.outs[:]

    def restore(self, columns: tuple[list[Value], ...]) -> None:
        """Take over the content that ``columns`` gave."""
        self.positions, self.items, self.states, self.outs = map(list, columns)

    def check(self) -> None:
        assert all(one < other for one, other in zip(self.positions, self.positions[1:], strict=False)), "out of order"
        assert len(self.positions) == len(self.items) == len(self.states) == len(self.outs), "columns of unequal length"
        assert ABSENT not in self.states, "an item that was not folded"


def _differ(position: Position, before: Sequence[Value], after: Sequence[Value], out: list[Change]) -> None:
    """Add the changes of the outputs at a position."""
    if before is after:
        return
    for ordinal in range(max(len(before), len(after))):
        old = before[ordinal] if ordinal < len(before) else ABSENT
        new = after[ordinal] if ordinal < len(after) else ABSENT
        if not same(old, new):
            out.append(((*position, ordinal), old, new))


def _position(change: Change) -> Position:
    return change[0]
