"""Settings that a detector keeps in unchanging attributes are no state: a start takes those of now, and no other version."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lives import Life
from test_upgrade import TYPES, Sum, Tick

from middleware.model.change import Batch, Delta, Retract
from middleware.model.detector import Detector
from middleware.model.errors import DetectorError
from middleware.model.event import IDENTITY, Event
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies
from middleware.provenance.known_past import Past
from middleware.runtime.storage.past import LoggedPast


class Over(Detector):
    """Counts the prices that are at least the limit, and says each."""

    subscribes, publishes, unchanging = (Tick,), (Sum,), ("limit",)

    def __init__(self, limit: int, step: int = 1) -> None:
        self.limit = limit
        self.step = step
        self.count = 0

    def on_event(self, event: Tick) -> Sum | None:
        if event.price < self.limit:
            return None
        self.count += self.step
        return Sum(self.count, ts=event.ts)


class KeyedOver(Over):
    key = "name"


class OverOfState(Over):
    """The same, as it was before anybody thought of that: the limit is state."""

    unchanging: ClassVar[tuple[str, ...]] = ()


class MigratingOver(OverOfState):
    version = 2

    def migrate(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        return state


class MindfulOver(MigratingOver):
    def migrate(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        return state | {"limit": self.limit}


class FixedMigratingOver(MigratingOver):
    unchanging = ("limit",)


def hierarchy(detector: Detector, **settings: int) -> Hierarchy:
    text = {name: repr(value) for name, value in settings.items()}
    return Hierarchy({"Over": detector}, policies=Policies(alpha=0.0), settings={"Over": text})


def prices(first: int, *values: int) -> list[Event]:
    return [Tick(value, ts=ts, id=ts, source="market") for ts, value in enumerate(values, first)]


def sums(units: Hierarchy, events: list[Event]) -> list[int]:
    batches = units.process(Batch({"Tick": Delta(events)}, {}, events[-1].ts))
    return [event.total for batch in batches for event in batch.deltas["Sum"].inserts if isinstance(event, Sum)]


def stored(units: Hierarchy) -> tuple[Any, Any]:
    return units.state(), list(iter(partial(units.parts, 1), {}))


@pytest.mark.parametrize("kind", [Over, KeyedOver])
@pytest.mark.parametrize("before", [Over, OverOfState])
def test_a_changed_setting_that_is_no_state_counts_from_the_start_on(kind: type[Over], before: type[Over]) -> None:
    if kind is KeyedOver:
        before = type("Before", (before,), {"key": "name"})
    first = hierarchy(before(80), limit=80)
    assert sums(first, prices(1, 79, 80, 90)) == [1, 2]
    second = hierarchy(kind(88), limit=88)
    second.restore(*stored(first))
    assert sums(second, prices(4, 87, 88, 79)) == [3], "the count continues, by the limit of now"
    assert "limit" not in kind(88).snapshot()


def test_a_changed_setting_that_is_state_is_refused_by_its_name() -> None:
    state = stored(hierarchy(Over(80, 1), limit=80, step=1))
    with pytest.raises(DetectorError, match=r"limit=80, step=1 .* and are limit=88, step=2 .*name step in unchanging"):
        hierarchy(Over(88, 2), limit=88, step=2).restore(*state)


@pytest.mark.parametrize(
    ("kind", "advice", "limit"),
    [(MigratingOver, "return self.limit, or name it in unchanging", 80), (FixedMigratingOver, "leave limit out", 88)],
)
def test_a_migration_that_returns_the_former_setting_is_noticed(kind: type[Over], advice: str, limit: int) -> None:
    first = hierarchy(OverOfState(80), limit=80)
    sums(first, prices(1, 80))
    second = hierarchy(kind(88), limit=88)
    with pytest.warns(UserWarning, match=f"Over.migrate returns limit = 80 .* but settings say 88: .*{advice}"):
        second.restore(*stored(first))
    assert sums(second, prices(2, 84, 90)) == ([2, 3] if limit == 80 else [2])


def test_a_migration_that_minds_the_settings_is_not_reported() -> None:
    first = hierarchy(OverOfState(80), limit=80)
    sums(first, prices(1, 80))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = hierarchy(MindfulOver(88), limit=88)
        second.restore(*stored(first))
        assert sums(second, prices(2, 84, 90)) == [2]
        same = hierarchy(MigratingOver(80), limit=80)
        same.restore(*stored(first))  # no setting has changed: what it returns is right


def life(folder: Path, limit: int) -> Life:
    settings = {"Over": {"limit": repr(limit)}}
    return Life(folder, TYPES, {"Over": Over(limit)}, wants=["Sum"], raw=["Tick"], settings=settings)


@given(st.lists(st.tuples(st.integers(0, 9), st.lists(st.integers(0, 9), max_size=6), st.booleans()), min_size=1, max_size=4))
def test_each_event_counts_by_the_setting_of_the_life_in_which_it_came(
    tmp_path_factory: pytest.TempPathFactory, lives: list[tuple[int, list[int], bool]]
) -> None:
    """A life that is killed is followed by one with its setting: that one runs the log since the last checkpoint again."""
    folder, expected, first, over = tmp_path_factory.mktemp("lives"), [], 1, Over(0)
    is_killed = False
    for limit, values, kills in lives:
        over.limit = over.limit if is_killed else limit
        there, is_killed = life(folder, over.limit), kills
        events = prices(first, *values)
        there.feed(*events)
        expected += [result for event in events if (result := over.on_event(event)) is not None]
        first += len(values)
        if not kills:
            there.runner.end()
        there.kill()
    past = Past(Sum, {"Over": over})
    past.take(LoggedPast(folder).steps(TYPES, {"Sum"}))
    found = sorted(past.results(), key=lambda event: event.ts)
    assert [(event.ts, event.total) for event in found if isinstance(event, Sum)] == [
        (each.ts, each.total) for each in expected
    ]
    assert not any(isinstance(past.moments(IDENTITY(event))[-1].change, Retract) for event in found)
