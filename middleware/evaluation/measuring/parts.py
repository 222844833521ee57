"""Memory by part: what waits, what was emitted, snapshots, published results, and identities seen, as large as when encoded."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import msgspec

from middleware.broker.ingress.seen import SeenIds
from middleware.model.event import Event
from middleware.model.operator import Operator
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.lanes.lane import LaneState
from middleware.ordering.unit import Unit

_LANES = 1_000_000_000
_encode = msgspec.msgpack.Encoder().encode


class Parts(msgspec.Struct, frozen=True):
    """Bytes, over all units of a node, as large as when encoded; an event counts once for each unit that keeps it.

    ``waiting``, ``held``: events not emitted yet; emitted, and kept for going back. ``snapshots``: states to go back to, the
    present one included; equal ones that follow each other count once. ``published``: results kept for comparison. ``seen``:
    identities, to know repeats.
    """

    waiting: int = 0
    held: int = 0
    snapshots: int = 0
    published: int = 0
    seen: int = 0

    @property
    def whole(self) -> int:
        """All parts together."""
        return self.waiting + self.held + self.snapshots + self.published + self.seen

    @classmethod
    def mean(cls, samples: Iterable[Parts]) -> Parts:
        """The mean of each part."""
        some = [msgspec.structs.astuple(one) for one in samples]
        return cls(*(round(sum(each) / len(some)) for each in zip(*some, strict=True))) if some else cls()


def parts(hierarchy: Hierarchy, seen: SeenIds) -> Parts:
    """The state that is kept now. O(all that is kept): it copies and encodes everything, so ask seldom."""
    units = [_of_unit(unit) for unit in hierarchy.units]
    waiting, held, snapshots, published = (sum(each) for each in zip(*units, strict=True))
    return Parts(waiting, held, snapshots, published, len(_encode(seen.state())))


def _of_unit(unit: Unit) -> tuple[int, int, int, int]:
    """Bytes of waiting and held events, snapshots and results of one unit."""
    state = unit.state()
    kept = state["detector"]
    waiting = _size(state["waiting"])
    if isinstance(unit.detector, Operator):
        return waiting, 0, len(pickle.dumps(kept)), 0
    lanes = [LaneState(*lane) for _, lane in [*kept[0], *unit.part(_LANES)]]
    held = sum(_size(lane.history) for lane in lanes)
    published = sum(_size(each) for lane in lanes for _, each, *_ in lane.published)
    return waiting, held, sum(map(_states, lanes)), published


def _states(lane: LaneState) -> int:
    """Bytes of the snapshots of a lane and of its present state."""
    before, size = b"", 0
    for state in (*(each for _, each in lane.snapshots), lane.live):
        data = pickle.dumps(state)
        size += 0 if data == before else len(data)
        before = data
    return size


def _size(events: Iterable[Event] | Any) -> int:
    return sum(len(_encode(event)) for event in events)
