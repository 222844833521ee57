"""Runs one stage: changes of items in, changes of items out. Plain data, no events, no I/O."""

from __future__ import annotations

from collections.abc import Callable

from detectors.flow.graphs.flow_graph import FlowNode, FlowNodeKind
from detectors.flow.graphs.flow_stages import Outlet, Stage
from detectors.flow.operations.calls import CallFailures
from detectors.flow.operations.grouping import Bucket
from detectors.flow.operations.items import ABSENT, Change, Position, same
from detectors.flow.operations.keyed_fold import FoldBucket
from detectors.flow.operations.loop import Loop
from detectors.flow.operations.map_operations import branched, mapped
from middleware.model.errors import ENDING
from middleware.model.event import Key, Value
from middleware.model.operator import Snapshot

AnyBucket = Bucket | FoldBucket

_SWEEP = 4_096
"""The least number of changes between two visits to all buckets."""


class Program:
    """A running stage.

    ``run`` takes changes of its input, in any order, each position at most once, and gives the changes at its outlets. All
    cycles reach their fixed point before it returns: nothing is in flight between two runs.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.failures = CallFailures()
        self.buckets: dict[Key, AnyBucket] = {}
        self._grouping = stage.entry.kind is FlowNodeKind.GROUP
        self._fused = stage.entry.fused if not stage.looped else None
        self._loop = Loop(stage, self.buckets, self.failures) if stage.looped else None
        self._maps = [node for node in stage.maps if node not in stage.looped]
        self._inbox: dict[FlowNode | Outlet, list[Change]] = {}
        self._changed = 0
        self._held = 0

    @property
    def held(self) -> int:
        """How many items the buckets keep. O(keys)."""
        return sum(map(len, self.buckets.values()))

    def run(self, changes: list[Change], final: int) -> dict[Outlet, list[Change]]:
        """Take changes; then forget items that were kept only for changes at or below ``final``."""
        entry = self.stage.entry
        if not changes:
            self._forget(final, 0)
            return {}
        if self._loop is not None:
            for node, made in self._loop.run(changes):
                self._inbox.setdefault(node, []).extend(made)
        elif self._grouping:
            self._send(entry, self._grouped(changes, final))
        else:
            self._send(entry, changes)
        for node in self._maps:
            if arrived := self._inbox.pop(node, None):
                self._send(node, self._mapped(node, arrived))
        out, self._inbox = self._inbox, {}
        self._forget(final, len(changes))
        return out  # type: ignore[return-value]

    def _send(self, node: FlowNode, changes: list[Change]) -> None:
        """Pass changes to all targets of an operation; if there are several, positions tell their items apart."""
        targets = self.stage.targets[node]
        if len(targets) == 1:
            self._put(targets[0], changes)
            return
        numbered = node.kind is FlowNodeKind.MAP or (node is self.stage.entry and self._fused is not None)
        for branch, target in enumerate(targets):
            self._put(target, branched(changes, branch, len(targets), numbered))

    def _put(self, target: FlowNode | Outlet, changes: list[Change]) -> None:
        there = self._inbox.get(target)
        if there is None:
            self._inbox[target] = changes
        else:
            self._inbox[target] = there + changes

    def _mapped(self, node: FlowNode, changes: list[Change]) -> list[Change]:
        out: list[Change] = []
        for change in changes:
            out += mapped(node, change, self.failures)
        return out

    def _grouped(self, changes: list[Change], final: int) -> list[Change]:
        by_bucket: dict[Key, list[Change]] = {}
        name, key = self.stage.entry.name, self._fused.key if self._fused else self.stage.entry.function
        assert key is not None
        moved = False
        for change in changes:
            position, old, new = change
            if old is ABSENT:
                home = self._key(name, key, position, new)
            else:
                home = self._key(name, key, position, old)
                self.failures.found.pop((name, position), None)
                if new is not ABSENT and (after := self._key(name, key, position, new)) != home:
                    by_bucket.setdefault(home, []).append((position, old, ABSENT))
                    home, change, moved = after, (position, ABSENT, new), True
            there = by_bucket.get(home)
            if there is None:
                by_bucket[home] = [change]
            else:
                there.append(change)
        by_bucket.pop(NO_KEY, None)
        out: list[Change] = []
        for home, own in by_bucket.items():
            bucket = self.buckets.get(home)
            if bucket is None:
                bucket = self.buckets[home] = self._bucket()
            out += bucket.change(own)
            bucket.forget(final)
        return _merged(out) if moved else out

    def _key(self, name: str, key: Callable[[Value], Key], position: Position, value: Value) -> Key:
        """The bucket of a value; NO_KEY, and a failure, if it has none."""
        try:
            found = key(value)
            hash(found)
        except ENDING:
            raise
        except BaseException:
            self.failures.raised(name, position)
            return NO_KEY
        return found

    def _bucket(self) -> AnyBucket:
        if self._fused is not None:
            return FoldBucket(self.stage.entry.name, self._fused.fold, self.failures)
        return Bucket(self.stage.entry.window)

    def _forget(self, final: int, count: int) -> None:
        """Visit all buckets now and then, so that those without new items forget, too. O(1) amortized per change."""
        self._changed += count
        if self._changed < max(_SWEEP, self._held):
            return
        self._changed = 0
        for bucket in self.buckets.values():
            bucket.forget(final)
        for home in [home for home, bucket in self.buckets.items() if not bucket]:
            del self.buckets[home]
        self._held = self.held

    def snapshot(self) -> Snapshot:
        """Its state, as a value that later runs do not touch."""
        return {home: bucket.columns() for home, bucket in self.buckets.items()}, dict(self.failures.found)

    def restore(self, state: Snapshot) -> None:
        """Return to the state that ``snapshot`` gave."""
        kept, failures = state
        self.buckets.clear()
        self.failures.found.clear()
        self.failures.found.update(failures)
        for home, columns in kept.items():
            bucket = self.buckets[home] = self._loop.bucket() if self._loop is not None else self._bucket()
            bucket.restore(columns)

    def check(self) -> None:
        for bucket in self.buckets.values():
            bucket.check()


NO_KEY = object()
"""Stands for the key of an item that has none, because the key function raised."""


def _merged(changes: list[Change]) -> list[Change]:
    """Merge the changes of each position: an item that moved to another key leaves one bucket and enters another."""
    found: dict[Position, Change] = {}
    for change in changes:
        there = found.setdefault(change[0], change)
        if there is not change:
            old, new = (a if b is ABSENT else b for a, b in zip(there[1:], change[1:], strict=True))
            found[change[0]] = (change[0], old, new)
    return [change for change in found.values() if not same(change[1], change[2])]
