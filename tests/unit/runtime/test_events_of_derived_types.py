"""What detectors derive comes from detectors alone: runs reject events of such a type, as nodes do, and so does the oracle."""

from __future__ import annotations

from itertools import chain
from random import Random

import pytest
from slackline import Detector, Event, run

from middleware.model.event import ORDER
from middleware.ordering.policies import Lateness, Policies
from middleware.testing.oracle import LenientOracle, first_arrivals, oracle


class Step(Event):
    number: int


class Sum(Event):
    total: int


class Alarm(Event):
    total: int


class Sums(Detector):
    subscribes, publishes = (Step,), (Sum,)

    def __init__(self) -> None:
        self.total = 0

    def on_event(self, step: Step) -> Sum:
        self.total += step.number
        return Sum(self.total, ts=step.ts)


class Alarms(Detector):
    subscribes, publishes = (Sum, Step), (Alarm,)

    def __init__(self) -> None:
        self.seen = 0

    def on_event(self, event: Sum | Step) -> Alarm | None:
        self.seen += 1
        return Alarm(self.seen, ts=event.ts) if isinstance(event, Sum) else None


STEPS = [Step(n, ts=10 * n, id=n, source="s") for n in range(1, 40)]
FOREIGN = [
    Sum(-1, ts=5, id=1, source="s"),  # with the identity of a step: that one is taken
    Sum(-2, ts=95, id=1, source="p"),
    Sum(-2, ts=95, id=1, source="p"),
    Alarm(-3, ts=10_000, id=2, source="p"),  # it moves no clock
]


def detectors() -> dict[str, Detector]:
    return {"Sums": Sums(), "Alarms": Alarms()}


@pytest.mark.parametrize("batch", [1, 7, 10_000])
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
@pytest.mark.parametrize("is_watched", [False, True])
def test_a_run_rejects_them(batch: int, seed: int | None, is_watched: bool) -> None:
    arrived = [*FOREIGN, *STEPS]
    if seed is None:
        arrived.sort(key=ORDER)
    else:
        Random(seed).shuffle(arrived)
    policies = Policies(alpha=0.0, lateness=Lateness(floor=10_000))
    watch = (lambda _: None) if is_watched else None
    found = run(arrived, detectors(), policies=policies, batch=batch, watch=watch)
    expected = run([event for event in arrived if isinstance(event, Step)], detectors(), policies=policies, batch=batch)
    assert found.finals == expected.finals
    assert found.rejected == [event for event in arrived if not isinstance(event, Step)]
    assert found.finals == oracle(arrived, detectors())
    assert LenientOracle(arrived, detectors()).finals([]) == sorted(chain.from_iterable(found.finals.values()), key=ORDER)
    assert (found.events, found.duplicates, found.clashes) == (len(STEPS), 0, 0)
    assert [unit.clk for unit in found.statistics] == [unit.clk for unit in expected.statistics]
    assert "4 rejected, as detectors derive their type (Sum 3, Alarm 1)" in repr(found).replace(f"{__name__}.", "")


def test_a_run_over_tables_rejects_them() -> None:
    table = pytest.importorskip("pyarrow").table
    steps = table({"ts": [s.ts for s in STEPS], "number": [s.number for s in STEPS]})
    sums = table({"ts": [5, 95], "total": [-1, -2]})
    found = run({Step: steps, Sum: sums}, detectors())
    assert found.finals == run({Step: steps}, detectors()).finals
    assert [event.total for event in found.rejected] == [-1, -2]


def test_why_knows_of_none_of_them() -> None:
    found = run([*FOREIGN, *STEPS], detectors(), policies=Policies(alpha=0.0, lateness=Lateness(floor=10_000)))
    why = found.why(found.finals["Alarms"][3])
    assert {type(event) for event in why.raw} == {Step}


def test_the_oracle_leaves_them_out_before_it_looks_for_repeats() -> None:
    assert first_arrivals([*FOREIGN, *STEPS], detectors()) == STEPS
