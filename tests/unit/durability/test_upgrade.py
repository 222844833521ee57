"""Detectors that have changed since their state was stored: migrated, built anew, or refused; nothing is dropped."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from middleware.durability.state_encoding import decode_state, encode_state
from middleware.model.change import Batch, Delta
from middleware.model.detector import Detector
from middleware.model.errors import DetectorError
from middleware.model.event import Event, EventTypes
from middleware.model.operator import Operation, Operator
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies


class Tick(Event):
    price: int
    name: str = ""


class Sum(Event):
    total: int


TYPES = EventTypes([Tick, Sum])


class Sums(Detector):
    subscribes, publishes = (Tick,), (Sum,)

    def __init__(self) -> None:
        self.total = 0

    def on_event(self, event: Tick) -> Sum:
        self.total += event.price
        return Sum(self.total, ts=event.ts)


class SumsInCents(Detector):
    """The next version: its state is in cents now."""

    subscribes, publishes, version = (Tick,), (Sum,), 2

    def __init__(self) -> None:
        self.cents = 0

    def on_event(self, event: Tick) -> Sum:
        self.cents += 100 * event.price
        return Sum(self.cents // 100, ts=event.ts)


class MigratingSums(SumsInCents):
    def migrate(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        assert version == 1
        return {"cents": 100 * state["total"]}


class KeyedSums(Sums):
    key = "name"


class KeyedMigratingSums(MigratingSums):
    key = "name"


def ticks(*times: int) -> Batch:
    return Batch({"Tick": Delta([Tick(ts, "x" * (ts % 2), ts=ts, id=ts, source="market") for ts in times])}, {}, max(times))


def stored(detector: Detector) -> Any:
    hierarchy = Hierarchy({"Sums": detector}, policies=Policies(alpha=0.0))
    hierarchy.process(ticks(1, 2, 3, 10, 11, 12))
    state = hierarchy.state()
    return decode_state(encode_state((state, list(iter(partial(hierarchy.parts, 1), {}))), TYPES), TYPES)


def sums(hierarchy: Hierarchy, batch: Batch) -> list[tuple[int, int]]:
    deltas = [out.deltas["Sum"] for out in hierarchy.process(batch)]
    return sorted((new.ts, new.total) for delta in deltas for new in [*delta.inserts, *(each for _, each in delta.revises)])


@pytest.mark.parametrize(("before", "after"), [(Sums, MigratingSums), (KeyedSums, KeyedMigratingSums)])
def test_state_is_migrated_and_late_events_still_replay(before: type[Detector], after: type[Detector]) -> None:
    same, changed = (Hierarchy({"Sums": kind()}, policies=Policies(alpha=0.0)) for kind in (before, after))
    same.restore(*stored(before()))
    changed.restore(*stored(before()))
    for batch in (ticks(13), ticks(4, 5), ticks(14, 15)):
        found = sums(changed, batch)
        assert found == sums(same, batch)
        assert found


def test_state_of_another_version_without_a_migration_is_refused() -> None:
    with pytest.raises(DetectorError, match=r"SumsInCents is of version 2, its stored state of version 1.*--rebuild"):
        Hierarchy({"Sums": SumsInCents()}).restore(*stored(Sums()))


def test_a_detector_that_is_gone_is_not_dropped_unasked() -> None:
    with pytest.raises(DetectorError, match="detectors that do not run here any more: Sums"):
        Hierarchy({"Other": Sums()}).restore(*stored(Sums()))


def test_changed_events_are_refused() -> None:
    state, parts = stored(Sums())
    version, fields, definition = state["code"]["Sums"]
    state["code"]["Sums"] = (version, fields.replace("price", "cost"), definition)
    with pytest.raises(DetectorError, match="have changed since its state was stored"):
        Hierarchy({"Sums": Sums()}).restore(state, parts)


class Planned(Operator):
    """An operator that is made of data."""

    subscribes, publishes, name = (Tick,), (Sum,), "Sums"

    def __init__(self, window: int) -> None:
        self.definition = f"window of {window}"

    def start(self, name: str, level: int) -> Operation:
        return Idle()


class Idle(Operation):
    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        return Delta()

    def snapshot(self) -> Any:
        return None

    def restore(self, state: Any) -> None:
        assert state is None


def test_state_of_another_definition_is_refused() -> None:
    hierarchy = Hierarchy({"Sums": Planned(10)})
    state = hierarchy.state()
    Hierarchy({"Sums": Planned(10)}).restore(state, ())
    with pytest.raises(DetectorError, match=r"Sums computes something else.*was window of 10; is window of 8.*--rebuild"):
        Hierarchy({"Sums": Planned(8)}).restore(state, ())


class LimitedSums(Sums):
    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit


class LimitedMigratingSums(MigratingSums):
    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def migrate(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        return super().migrate(state, version) | {"limit": self.limit}


def test_state_that_was_made_with_other_settings_is_refused() -> None:
    """It holds what was made of the former settings, mostly the settings themselves."""
    hierarchy = Hierarchy({"Sums": LimitedSums(10)}, settings={"Sums": {"limit": "10"}})
    hierarchy.process(ticks(1, 2))
    state, parts = hierarchy.state(), list(iter(partial(hierarchy.parts, 1), {}))
    with pytest.raises(DetectorError, match=r"settings\.Sums were limit=10 .* and are limit=50 now: .*--rebuild"):
        Hierarchy({"Sums": LimitedSums(50)}, settings={"Sums": {"limit": "50"}}).restore(state, parts)
    Hierarchy({"Sums": LimitedSums(10)}, settings={"Sums": {"limit": "10"}}).restore(state, parts)
    Hierarchy({"Sums": LimitedMigratingSums(50)}, settings={"Sums": {"limit": "50"}}).restore(state, parts)
