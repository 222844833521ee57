"""A unit hands columns on to an operator as they are, also those that had to wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa
import pytest

from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.event import END, NEVER, Event
from middleware.model.operator import Operation, Operator
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.lanes.runs import RUN
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import FixedSlack, Lateness
from middleware.ordering.unit import Unit


class Tick(Event):
    value: int


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The times of the events that are made of columns."""
    noted, runs = list[int](), Block.runs

    def noting(columns: Block, size: int) -> Iterator[list[Event]]:
        noted.extend(columns.times.tolist())
        return runs(columns, size)

    monkeypatch.setattr(Block, "runs", noting)
    return noted


class Sink(Operator):
    """Notes what it is given."""

    name = "Sink"
    subscribes = (Tick,)

    def __init__(self) -> None:
        self.given: list[Delta] = []

    def start(self, name: str, level: int) -> Operation:
        return Noting(self.given)


class Noting(Operation):
    def __init__(self, given: list[Delta]) -> None:
        super().__init__()
        self.given = given

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        self.given += [delta] if delta else []
        return Delta()


class Frame(Event):
    """The core has no blocks for it."""

    data: bytes


class Frames(Sink):
    subscribes = (Frame,)


def columns(*times: int) -> Block:
    return Block(Tick, Block.from_events(Tick, [Tick(ts, ts=ts, id=ts, source="t") for ts in times]).batch)


def unit_of(alpha: float, lateness: int = 1_000) -> tuple[Unit, list[Delta]]:
    sink = Sink()
    policies = Policies(alpha=alpha, slack=lambda: FixedSlack(10), lateness=Lateness(1.0, lateness))
    return unit_for("Sink", sink, policies=policies), sink.given


def times(given: list[Delta]) -> list[list[int]]:
    return [sorted(delta.columns.times.tolist()) for delta in given if delta.columns is not None]


def test_no_event_is_made_at_full_speculation(made: list[int]) -> None:
    unit, given = unit_of(0.0)
    for batch in (columns(1, 5, 3), columns(9, 4, 20)):
        unit.push(Delta(batch), mark=20)
    assert (made, times(given)) == ([], [[1, 3, 5], [4, 9, 20]])


def test_no_event_is_made_of_those_that_wait(made: list[int]) -> None:
    unit, given = unit_of(1.0)
    for batch in (columns(1, 15, 3), columns(12, 25, 2), columns(30)):
        unit.push(Delta(batch), mark=int(batch.times.max()))
    assert (times(given), unit.statistics().waiting) == ([[1, 3], [2, 12, 15]], 2)
    assert made == []
    first = unit.first_waiting
    assert first is not None and first.ts == 25
    unit.push(Delta(), promised=END, is_open=False)
    assert times(given)[2:] == [[25, 30]] and made == []


def test_late_events_are_listed_and_the_rest_stays_columns(made: list[int]) -> None:
    unit, given = unit_of(0.0, lateness=10)
    unit.push(Delta(columns(100)), mark=100)
    unit.push(Delta(columns(90, 95, 101, 40)), mark=101)
    assert (times(given), made) == ([[100], [95, 101]], [90, 40])
    assert [late.event.ts for late in unit.late] == [90, 40]


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_what_waits_as_columns_can_be_withdrawn(alpha: float) -> None:
    unit, given = unit_of(alpha)
    unit.push(Delta(columns(1, 15, 14)), mark=15)
    unit.push(Delta(retracts=[Tick(14, ts=14, id=14, source="t")]), mark=15)
    unit.push(Delta(), promised=END, is_open=False)
    times = [event.ts for delta in given for event in delta.inserts]
    gone = [event.ts for delta in given for event in delta.retracts]
    assert sorted(times) == ([1, 14, 15] if alpha == 0 else [1, 15])
    assert gone == ([14] if alpha == 0 else [])


class Echo(Noting):
    """Gives what it is given, as columns."""

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        return Delta(delta.columns) if delta.columns is not None else Delta()


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_few_events_of_a_time_to_come_do_not_keep_what_came_with_them(monkeypatch: pytest.MonkeyPatch, alpha: float) -> None:
    monkeypatch.setattr(Sink, "start", lambda self, name, level: Echo([]))
    unit = unit_for("Sink", Sink(), policies=Policies(alpha=alpha, slack=lambda: FixedSlack(10**10)))
    rows, steps, before, far = 200, 150, pa.total_allocated_bytes(), 10**9
    for start in range(0, rows * steps, rows):
        came = columns(*range(start + 1, start + rows), far + start)
        one = came.batch.nbytes
        unit.push(Delta(came), promised=start - rows, is_open=False)
    del came
    assert pa.total_allocated_bytes() - before < (steps * 3 // 5) * one, "some of the last may be whole"
    (waiting, deltas) = unit.statistics().waiting, unit.halt("enough")
    assert (waiting if alpha else len(deltas[0])) >= steps


class Step(Event):
    value: int

    seen: ClassVar[list[int]] = []


class Watching(Detector):
    """Notes what it sees."""

    subscribes, publishes, key = (Step,), (Step,), "value"

    def on_event(self, event: Step) -> None:
        Step.seen.append(event.id)


@pytest.mark.parametrize("form", ["columns", "rows"])
def test_a_detector_is_given_many_events_in_runs_that_are_not_kept(form: str) -> None:
    count = 2 * RUN + 10
    given = Block(Step, Block.from_events(Step, [Step(n, ts=n, id=n, source="s") for n in range(count)]).batch)
    unit = unit_for("Watching", Watching(), policies=Policies(alpha=1.0, slack=lambda: FixedSlack(0)))
    Step.seen.clear()
    assert unit.push(Delta(given) if form == "columns" else Delta(list(given)), count - 1) == []
    assert Step.seen == list(range(count))
    assert list(map(len, given.runs(RUN))) == [RUN, RUN, 10]
    assert (given.events() is given.events()) and list(given.runs(count)) == [given.events()]


def test_columns_of_a_type_without_blocks_wait_as_objects() -> None:
    sink = Frames()
    unit = unit_for("Frames", sink, policies=Policies(alpha=1.0, slack=lambda: FixedSlack(10)))
    events = [Frame(b"x", ts=1_000 + (7 * n) % 50, id=n, source="s") for n in range(50)]
    for start in range(0, 50, 10):
        given = Block.from_events(Frame, events[start : start + 10])
        assert not given.as_core_blocks()
        unit.push(Delta(given), promised=NEVER, is_open=False)
    waiting = unit.statistics().waiting
    assert waiting and unit.first_waiting is not None
    unit.push(Delta(), promised=END, is_open=False)
    assert sorted(event.ts for delta in sink.given for event in delta.inserts) == list(range(1_000, 1_050))
