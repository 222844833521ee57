"""Runs a grouping and any cycle through it: item by item, in order of position.

Everything an item leads to comes after it (``items``). So if the first pending item is always taken next, nothing that comes
later can touch it: each item and each group is visited once per run, after all that it rests on. The run ends, since it only
moves forward, and because positions that grow too long are cut off.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any

from detectors.flow.graphs.flow_graph import FlowNode, FlowNodeKind
from detectors.flow.graphs.flow_stages import Outlet, Stage
from detectors.flow.operations.calls import CallFailures
from detectors.flow.operations.grouping import Bucket
from detectors.flow.operations.items import ABSENT, ROOT, Change, Position
from detectors.flow.operations.map_operations import branched, mapped
from middleware.model.errors import ENDING
from middleware.model.event import Key, Value

DEEPEST = 200
"""The most operations that an item may have passed. A cycle that feeds back more than state would never end."""

_Place = tuple[Position, int]
"""A position at one of the operations of the loop (by rank)."""


class Loop:
    """See the module. ``buckets`` are those of the grouping, by key."""

    def __init__(self, stage: Stage, buckets: dict[Key, Any], failures: CallFailures) -> None:
        self._stage, self._buckets, self._failures = stage, buckets, failures
        self._nodes = [node for node in (stage.entry, *stage.maps) if node in stage.looped]
        self._rank = {node: rank for rank, node in enumerate(self._nodes)}
        self._heap: list[_Place] = []
        self._pending: dict[_Place, Change] = {}
        self._causes: dict[_Place, Key] = {}
        """The key of the group that led to a pending item."""
        self._dirty: dict[Position, Key] = {}
        """Positions of groups to check again, with the key of their bucket."""
        self._out: dict[FlowNode | Outlet, list[Change]] = {}

    def bucket(self) -> Bucket:
        """A new bucket."""
        return Bucket(self._stage.entry.window)

    def run(self, changes: list[Change]) -> Iterator[tuple[FlowNode | Outlet, list[Change]]]:
        """Take changes of the input; gives the changes that leave the loop, by target."""
        for arrived in changes:
            self._push(0, arrived, NO_CAUSE)
        heap, pending = self._heap, self._pending
        while heap:
            place = heappop(heap)
            position, rank = place
            cause = self._causes.pop(place, NO_CAUSE)
            change: Change | None = pending.pop(place, None)
            if rank:
                if change is not None:
                    node = self._nodes[rank]
                    self._send(node, mapped(node, change, self._failures), cause)
            elif change is not None:
                self._dirty.pop(position, None)
                self._take(change, cause)
            elif position in self._dirty:
                self._look(position, self._dirty.pop(position))
        out, self._out = self._out, {}
        yield from out.items()

    def _push(self, rank: int, change: Change, cause: Key) -> None:
        place = (change[0], rank)
        self._pending[place] = change
        self._causes[place] = cause
        heappush(self._heap, place)

    def _take(self, change: Change, cause: Key) -> None:
        """Put an item into its bucket, or remove it, and check its group."""
        position, old, new = change
        before = self._key(position, old, NO_CAUSE) if old is not ABSENT else NO_CAUSE
        self._failures.found.pop((self._stage.entry.name, position), None)
        home = self._key(position, new, cause) if new is not ABSENT else NO_CAUSE
        gone: Value = ABSENT
        if before is not NO_CAUSE and (home is NO_CAUSE or before != home):
            gone = self._bucket_of(before).put(position, ABSENT)[1]
            self._disturb(position, before)
        if home is NO_CAUSE:
            if gone is not ABSENT:
                self._emit((position, gone, ABSENT), before)
            return
        bucket = self._bucket_of(home)
        bucket.put(position, new)
        self._disturb(position, home)
        group = bucket.regroup(position)
        if group is not None:
            self._emit((position, group[1] if gone is ABSENT else gone, group[2]), home)

    def _look(self, position: Position, home: Key) -> None:
        group = self._bucket_of(home).regroup(position)
        if group is not None:
            self._emit(group, home)

    def _disturb(self, position: Position, home: Key) -> None:
        for behind in self._bucket_of(home).following(position):
            if behind not in self._dirty:
                self._dirty[behind] = home
                heappush(self._heap, (behind, 0))

    def _emit(self, change: Change, home: Key) -> None:
        self._send(self._stage.entry, [change], home)

    def _send(self, node: FlowNode, changes: list[Change], cause: Key) -> None:
        targets = self._stage.targets[node]
        for branch, target in enumerate(targets):
            mine = changes if len(targets) == 1 else branched(changes, branch, len(targets), node.kind is FlowNodeKind.MAP)
            if isinstance(target, FlowNode) and target in self._rank:
                for change in mine:
                    if len(change[0]) < DEEPEST + ROOT:
                        self._push(self._rank[target], change, cause)
                    elif change[2] is ABSENT:
                        self._failures.found.pop((target.name, change[0]), None)
                    else:
                        self._failures.record(target.name, change[0], _ENDLESS.format(self._stage.name))
            else:
                self._out.setdefault(target, []).extend(mine)

    def _bucket_of(self, home: Key) -> Bucket:
        found: Bucket | None = self._buckets.get(home)
        if found is None:
            found = self._buckets[home] = self.bucket()
        return found

    def _key(self, position: Position, value: Value, cause: Key) -> Key:
        """The key of an item; one that is fed back must have the key of the group that led to it."""
        entry = self._stage.entry
        assert entry.function is not None
        try:
            home: Key = entry.function(value)
            hash(home)
        except ENDING:
            raise
        except BaseException:
            self._failures.raised(entry.name, position)
            return NO_CAUSE
        if cause is not NO_CAUSE and home != cause:
            self._failures.record(entry.name, position, _STRAY.format(self._stage.name, home, cause))
            return NO_CAUSE
        return home


class _NoCause:
    """Stands for the cause of items from outside the loop."""


NO_CAUSE = _NoCause()

_ENDLESS = (
    "the cycle through {!r} does not come to rest: it is to feed back state only, and nothing for a group that ends in one"
)
_STRAY = "the cycle through {!r} fed back an item with key {!r} for a group with key {!r}: what is fed back keeps its key"
