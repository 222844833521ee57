"""FiBA in plain Python: the paper's algorithm in readable form, the baseline of ``bench window`` and an oracle of the tests.

Tangwongsan, Hirzel and Schneider: Sub-O(log n) out-of-order sliding-window aggregation (VLDB 2019), section 3 and figures 2,
7, 8 and 10; with a later correction: rebalancing for an eviction notes a sibling on either spine.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, TypeVar

from slackline_benchmarks.listed_columns import aligned, bounds

from detectors.window.aggregation.monoid import Monoid, Partial, Place
from middleware.model.errors import WindowError
from middleware.model.event import Value

T = TypeVar("T")


Note = tuple[Any, ...]
"""A node, and its whole state."""


class TreeNode:
    """Entries, and one child more than entries unless it is a leaf. ``left``, ``right``: on that spine, and not the root."""

    __slots__ = ("agg", "children", "left", "parent", "right", "times", "values")

    def __init__(self, parent: TreeNode | None = None, left: bool = False, right: bool = False) -> None:
        self.parent = parent
        self.left, self.right = left, right
        self.times: list[Place] = []
        self.values: list[Partial] = []
        self.children: list[TreeNode] = []
        self.agg: Partial = None

    @property
    def is_up(self) -> bool:
        """Whether its aggregate covers its whole subtree: it is neither the root nor on a spine."""
        return not (self.left or self.right) and self.parent is not None


Top = tuple[TreeNode, bool, bool]
"""Where rebalancing ended, and whether it touched the left and the right spine."""


class PlainFiba:
    """``Fiba`` in plain Python: the same interface and meaning (see there), for any monoid."""

    def __init__(self, monoid: Monoid, *, min_arity: int = 8, ordered: bool = False) -> None:
        if not 2 <= min_arity <= 128:
            raise WindowError(f"min_arity must be between 2 and 128, not {min_arity}")
        self.monoid = monoid
        self.min_arity = min_arity
        self.ordered = ordered
        self._work = {"combines": 0, "visits": 0}
        self._notes: list[Note] | None = None
        self.clear()

    def clear(self) -> None:
        self._root = self._left = self._right = TreeNode()
        self._root.agg = self.monoid.identity
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[tuple[Place, Value]]:
        lower = self.monoid.lower
        return iter([(ts, lower(value)) for ts, value in entries(self._root)])

    @property
    def oldest(self) -> Place:
        return self._left.times[0] if self._size else None

    @property
    def youngest(self) -> Place:
        return self._right.times[-1] if self._size else None

    @property
    def work(self) -> dict[str, int]:
        return dict(self._work)

    # Public operations.

    def query(self) -> Value:
        if not self._root.children:
            return self.monoid.lower(self._root.agg)
        self._work["combines"] += 2
        combine = self.monoid.combine
        return self.monoid.lower(combine(combine(self._left.agg, self._root.agg), self._right.agg))

    def range_query(self, low: Place, high: Place) -> Value:
        low, high = bounds(low, high) if self.ordered else (low, high)
        parts: list[Partial] = []
        if self._size and low <= high:
            self._collect(self._root, low, high, False, False, parts)
        return self.monoid.lower(self._product(parts) if parts else self.monoid.identity)

    def insert(self, ts: Place, value: Value, *, replace: bool = False) -> None:
        self._whole(lambda: self._insert(ts, self.monoid.lift(value), replace))

    def evict(self, ts: Place) -> bool:
        if not self._size:
            raise WindowError("the window is empty: there is nothing to evict")
        node, place, found = self._search(ts)
        if found:
            self._whole(lambda: self._evict(node, place))
        return found

    def evict_oldest(self) -> None:
        self.evict(self.oldest)

    def bulk_insert(self, times: Iterable[Place], values: Iterable[Value], *, replace: bool = False) -> None:
        columns = aligned(times, values)
        if any(later < earlier for earlier, later in pairwise(columns[0])):
            raise WindowError("the times are not sorted")
        lifted = [self.monoid.lift(value) for value in columns[1]]

        def insert_all() -> None:
            for ts, value in zip(columns[0], lifted, strict=True):
                self._insert(ts, value, replace)

        self._whole(insert_all)

    def bulk_evict(self, upto: Place) -> int:
        before = self._size
        upto = bounds(upto, upto)[1] if self.ordered else upto

        def evict_all() -> None:
            while self._size and self._left.times[0] <= upto:
                self._evict(self._left, 0)

        self._whole(evict_all)
        return before - self._size

    def round(self, evict_upto: Place, ts: Place, value: Value) -> Value:
        return self._whole(lambda: self._round(evict_upto, ts, value))

    def rounds(self, evict_upto: Iterable[Place], times: Iterable[Place], values: Iterable[Value]) -> list[Value]:
        columns = aligned(evict_upto, times, values)
        return self._whole(lambda: [self._round(*one) for one in zip(*columns, strict=True)])

    def _round(self, evict_upto: Place, ts: Place, value: Value) -> Value:
        self.bulk_evict(evict_upto)
        self.insert(ts, value)
        return self.query()

    # All or nothing: a monoid that raises leaves the tree as it was.

    def _whole(self, operation: Callable[[], T]) -> T:
        if self._notes is not None:  # part of an operation
            return operation()
        head = (self._root, self._left, self._right, self._size)
        notes = self._notes = []
        try:
            return operation()
        except BaseException:
            for node, parent, left, right, times, values, children, agg in reversed(notes):
                node.parent, node.left, node.right, node.agg = parent, left, right, agg
                node.times, node.values, node.children = times, values, children
            self._root, self._left, self._right, self._size = head
            raise
        finally:
            self._notes = None

    def _note(self, *nodes: TreeNode) -> None:
        """Note the state of nodes that are about to change."""
        assert self._notes is not None, "changes are made within _whole"
        for node in nodes:
            state = (node.times.copy(), node.values.copy(), node.children.copy(), node.agg)
            self._notes.append((node, node.parent, node.left, node.right, *state))

    # Search: from the nearer finger up, and down again.

    def _search(self, ts: Place) -> tuple[TreeNode, int, bool]:
        node = self._root
        if node.children:
            if ts > node.times[-1]:
                node = self._right
                while node.parent is not self._root and node.parent is not None and ts <= node.parent.times[-1]:
                    node = node.parent
                    self._work["visits"] += 1
            elif ts < node.times[0]:
                node = self._left
                while node.parent is not self._root and node.parent is not None and ts >= node.parent.times[0]:
                    node = node.parent
                    self._work["visits"] += 1
        while True:
            self._work["visits"] += 1
            place = bisect_left(node.times, ts)
            if place < len(node.times) and node.times[place] == ts:
                return node, place, True
            if not node.children:
                return node, place, False
            node = node.children[place]

    # Insertion and eviction (figures 7 and 8).

    def _insert(self, ts: Place, value: Value, replace: bool) -> None:
        node, place, found = self._search(ts)
        self._note(node)
        if found:
            node.values[place] = value if replace else self._product([node.values[place], value])
            self._repair_if_up(node)
            self._repair(node, node.left, node.right)
            return
        node.times.insert(place, ts)
        node.values.insert(place, value)
        self._size += 1
        if len(node.times) < 2 * self.min_arity:
            self._repair_if_up(node)
        self._repair(*self._rebalance_for_insert(node))

    def _rebalance_for_insert(self, node: TreeNode) -> Top:
        hit_left, hit_right = node.left, node.right
        while len(node.times) >= 2 * self.min_arity:
            if node.parent is None:
                self._grow()
                hit_left = hit_right = True
            node = self._split(node)
            hit_left, hit_right = hit_left or node.left, hit_right or node.right
        return node, hit_left, hit_right

    def _evict(self, node: TreeNode, place: int) -> None:
        self._size -= 1
        if node.children:
            self._repair(*self._evict_inner(node, place))
            return
        self._note(node)
        del node.times[place], node.values[place]
        if len(node.times) >= self.min_arity - 1:
            self._repair_if_up(node)
        self._repair(*self._rebalance_for_evict(node, None))

    def _evict_inner(self, node: TreeNode, place: int) -> Top:
        """Evict an entry from a leaf instead, and put it into the gap."""
        leaf, end = node.children[place + 1], 0
        if len(leaf.times) < self.min_arity:
            leaf, end = node.children[place], -1
        while leaf.children:
            leaf = leaf.children[end]
        self._note(node, leaf)
        node.times[place], node.values[place] = leaf.times.pop(end), leaf.values.pop(end)
        if len(leaf.times) >= self.min_arity - 1:
            self._repair_if_up(leaf)
        top, hit_left, hit_right = self._rebalance_for_evict(leaf, node)
        above = top
        while above is not node and above.parent is not None:
            above = above.parent
        if above is node and node is not top:
            while top is not node and top.parent is not None:
                top = top.parent
                hit_left, hit_right = hit_left or top.left, hit_right or top.right
                self._repair_if_up(top)
        return top, hit_left, hit_right

    def _rebalance_for_evict(self, node: TreeNode, to_repair: TreeNode | None) -> Top:
        hit_left, hit_right = node.left, node.right
        if node is to_repair:
            self._repair_if_up(node)
        while node.parent is not None and len(node.times) < self.min_arity - 1:
            parent = node.parent
            place = min(parent.children.index(node), len(parent.times) - 1)
            one, other = parent.children[place], parent.children[place + 1]
            hit_left = hit_left or one.left
            hit_right = hit_right or other.right
            if len(one.times) + len(other.times) + 1 < 2 * self.min_arity - 1:
                node = self._merge(parent, place)
            else:
                self._move(parent, place)
                node = parent
            if node is to_repair:
                self._repair_if_up(node)
            hit_left, hit_right = hit_left or node.left, hit_right or node.right
        return node, hit_left, hit_right

    # The steps of rebalancing. Each repairs the up-aggregates of what it changed.

    def _grow(self) -> None:
        """Add a new root; the old one is about to be split, and is on both spines until then."""
        old, new = self._root, TreeNode()
        self._note(old)
        new.children = [old]
        old.parent, old.left, old.right = new, True, True
        self._root = new

    def _split(self, node: TreeNode) -> TreeNode:
        parent, stay = node.parent, self.min_arity - 1
        assert parent is not None
        self._note(node, parent)
        place = parent.children.index(node)
        sibling = TreeNode(parent, right=node.right)
        node.right = False
        parent.times.insert(place, node.times[stay])
        parent.values.insert(place, node.values[stay])
        parent.children.insert(place + 1, sibling)
        sibling.times, sibling.values = node.times[stay + 1 :], node.values[stay + 1 :]
        del node.times[stay:], node.values[stay:]
        if node.children:
            sibling.children = node.children[stay + 1 :]
            del node.children[stay + 1 :]
            self._adopt(sibling, sibling.children)
        if self._right is node:
            self._right = sibling
        for changed in (node, sibling):
            self._repair_if_up(changed)
        if len(parent.times) < 2 * self.min_arity:
            self._repair_if_up(parent)
        return parent

    def _merge(self, parent: TreeNode, place: int) -> TreeNode:
        """Merge child ``place`` and the next; returns the topmost node that changed."""
        node, sibling = parent.children[place], parent.children[place + 1]
        self._note(parent, node, sibling)
        node.times += [parent.times.pop(place), *sibling.times]
        node.values += [parent.values.pop(place), *sibling.values]
        node.children += sibling.children
        node.right = sibling.right
        self._adopt(node, sibling.children)
        del parent.children[place + 1]
        if self._right is sibling:
            self._right = node
        if parent.parent is None and not parent.times:
            node.parent, node.left, node.right = None, False, False
            self._root = node
            return node
        self._repair_if_up(node)
        if len(parent.times) >= self.min_arity - 1:
            self._repair_if_up(parent)
        return parent

    def _move(self, parent: TreeNode, place: int) -> None:
        """Share the entries of child ``place`` and the next evenly."""
        node, sibling = parent.children[place], parent.children[place + 1]
        self._note(parent, node, sibling)
        times = [*node.times, parent.times[place], *sibling.times]
        values = [*node.values, parent.values[place], *sibling.values]
        middle = len(times) // 2
        node.times, parent.times[place], sibling.times = times[:middle], times[middle], times[middle + 1 :]
        node.values, parent.values[place], sibling.values = values[:middle], values[middle], values[middle + 1 :]
        if node.children:
            children = node.children + sibling.children
            node.children, sibling.children = children[: middle + 1], children[middle + 1 :]
            self._adopt(node, node.children)
            self._adopt(sibling, sibling.children)
        for changed in (node, sibling, parent):
            self._repair_if_up(changed)

    def _adopt(self, parent: TreeNode, children: list[TreeNode]) -> None:
        self._note(*children)
        for child in children:
            child.parent = parent

    # Aggregates (figure 2).

    def _product(self, parts: list[Partial]) -> Partial:
        self._work["combines"] += len(parts) - 1
        combine, result = self.monoid.combine, parts[0]
        for part in parts[1:]:
            result = combine(result, part)
        return result

    def _aggregate(self, node: TreeNode) -> Partial:
        """The aggregate that a node must have, by its place in the tree."""
        parts: list[Partial] = []
        above = node.parent.agg if node.parent is not None and node.parent is not self._root else None
        if node.right and node.parent is not self._root:
            parts.append(above)
        if not node.children:
            parts += node.values
        else:
            if not (node.left or node.parent is None):
                parts.append(node.children[0].agg)
            for value, child in zip(node.values, node.children[1:], strict=True):
                parts += (value, child.agg)
            if node.right or node.parent is None:
                parts.pop()
        if node.left and node.parent is not self._root:
            parts.append(above)
        return self._product(parts) if parts else self.monoid.identity

    def _refresh(self, node: TreeNode) -> None:
        self._work["visits"] += 1
        self._note(node)
        node.agg = self._aggregate(node)

    def _repair_if_up(self, node: TreeNode) -> None:
        if node.is_up:
            self._refresh(node)

    def _repair(self, top: TreeNode, hit_left: bool, hit_right: bool) -> None:
        """Repair upwards from the topmost repaired node to a spine, then down the spines that were touched."""
        if top.is_up:
            while top.is_up and top.parent is not None:
                top = top.parent
                self._refresh(top)
        else:
            self._refresh(top)
        if top.left or (top.parent is None and hit_left):
            self._refresh_down(top, 0)
        if top.right or (top.parent is None and hit_right):
            self._refresh_down(top, -1)

    def _refresh_down(self, node: TreeNode, end: int) -> None:
        while node.children:
            node = node.children[end]
            self._refresh(node)

    # Range queries (figure 10).

    def _collect(self, node: TreeNode, low: Place, high: Place, from_start: bool, to_end: bool, parts: list[Partial]) -> None:
        """The parts of the range in a subtree, in order. The subtree is known to begin, or to end, inside the range."""
        if from_start and to_end and node.is_up:
            parts.append(node.agg)
            return
        first = 0 if from_start else bisect_left(node.times, low)
        last = len(node.times) if to_end else bisect_right(node.times, high)
        if not node.children:
            parts += node.values[first:last]
            return
        for place in range(first, last + 1):
            begins = from_start if place == 0 else place > first or node.times[place - 1] >= low
            ends = to_end if place == len(node.times) else place < last
            self._collect(node.children[place], low, high, begins, ends, parts)
            if place < last:
                parts.append(node.values[place])

    # Invariants.

    def check(self) -> None:
        assert sum(1 for _ in entries(self._root)) == self._size, "the size is wrong"
        depths = set(self._check_node(self._root, 0, None, None))
        assert len(depths) == 1, f"leaves at depths {depths}"
        first = last = self._root
        while first.children:
            first, last = first.children[0], last.children[-1]
        assert (first, last) == (self._left, self._right), "a finger points elsewhere"

    def _check_node(self, node: TreeNode, depth: int, low: Place, high: Place) -> Iterator[int]:
        least = self.min_arity - 1 if node.parent is not None else bool(node.children)
        assert least <= len(node.times) < 2 * self.min_arity, f"{len(node.times)} entries in a node"
        assert all(a < b for a, b in pairwise(node.times)), "times are not sorted"
        assert all((low is None or low < ts) and (high is None or ts < high) for ts in node.times), "a time is misplaced"
        expected = self._aggregate(node)
        assert expected == node.agg or repr(expected) == repr(node.agg), "an aggregate is out of date"  # NaN != NaN
        if not node.children:
            yield depth
        limits = [low, *node.times, high]
        for place, child in enumerate(node.children):
            assert child.parent is node, "a child has lost its parent"
            root = node.parent is None
            assert child.left == (place == 0 and (node.left or root)), "a node mistakes its side"
            assert child.right == (place == len(node.times) and (node.right or root)), "a node mistakes its side"
            yield from self._check_node(child, depth + 1, limits[place], limits[place + 1])


def entries(node: TreeNode) -> Iterator[tuple[Place, Value]]:
    """All entries of a subtree, in order."""
    for place, entry in enumerate(zip(node.times, node.values, strict=True)):
        if node.children:
            yield from entries(node.children[place])
        yield entry
    if node.children:
        yield from entries(node.children[-1])
