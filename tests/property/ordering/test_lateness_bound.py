"""An event that is exactly the allowed lateness behind clk is late, and the next newer one is in time: at each kind of unit."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slackline import Detector, Event, run

from detectors.window import COUNT, Tumbling, Windows
from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import FixedSlack, Lateness
from middleware.testing.oracle import oracle


class Step(Event):
    lane: int


class Sum(Event):
    total: int


class Held(Event):
    start: int
    end: int
    count: int


class Sums(Detector):
    subscribes, publishes = (Step,), (Sum,)

    def __init__(self) -> None:
        self.total = 0

    def on_event(self, step: Step) -> Sum:
        self.total = (self.total * 31 + step.ts) % 1_000_003
        return Sum(self.total, ts=step.ts)


class SumsOfLane(Sums):
    key = "lane"


KINDS = {
    "one lane": Sums,
    "lanes": SumsOfLane,
    "windows": lambda: Windows(Step, Tumbling(4), {"count": COUNT}, result=Held),
}


def steps(times: list[int]) -> list[Step]:
    return [Step(ts % 3, ts=ts, id=number, source="s") for number, ts in enumerate(times)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("as_columns", [False, True])
@given(
    lateness=st.integers(1, 12),
    alpha=st.sampled_from([0.0, 1.0]),
    times=st.lists(st.integers(0, 30), min_size=1, max_size=25),
)
def test_late_is_what_is_the_allowed_lateness_or_more_behind_clk(
    kind: str, as_columns: bool, lateness: int, alpha: float, times: list[int]
) -> None:
    policies = Policies(alpha=alpha, slack=lambda: FixedSlack(lateness), lateness=Lateness(1, lateness))
    unit, arrived = unit_for("unit", KINDS[kind](), 1, policies), steps(times)
    for step in arrived:
        delta = Delta(Block.from_events(Step, [step])) if as_columns else Delta([step])
        unit.push(delta)
        assert unit.final == unit.clock.clk - lateness
    before = [None, *accumulate(times, max)]
    late = [step for step, clk in zip(arrived, before, strict=False) if clk is not None and clk - step.ts >= lateness]
    assert [entry.event for entry in unit.late] == late


@given(times=st.lists(st.integers(0, 30), min_size=1, max_size=25), lateness=st.integers(1, 12), batch=st.integers(1, 4))
def test_a_run_with_more_than_the_lateness_of_its_events_lists_none(times: list[int], lateness: int, batch: int) -> None:
    behind = max([newest - ts for newest, ts in zip(accumulate(times, max), times, strict=True)])
    policies = Policies(alpha=0.0, slack=lambda: FixedSlack(0), lateness=Lateness(1, behind + 1))
    found = run(steps(times), {"Sums": Sums(), "Lanes": SumsOfLane()}, policies=policies, batch=batch)
    assert not any(found.late.values())
    assert found.finals == oracle(steps(times), {"Sums": Sums(), "Lanes": SumsOfLane()})
    narrow = Policies(alpha=0.0, slack=lambda: FixedSlack(0), lateness=Lateness(1, lateness))
    found = run(steps(times), {"Sums": Sums()}, policies=narrow, batch=batch)
    assert found.finals == oracle(steps(times), {"Sums": Sums()}, found.late_identities())
