"""However many events arrive at once, no unit takes what came at once for late: K is that of event by event, or less."""

from __future__ import annotations

from random import Random

import pytest
from slackline import Detector, Event

from middleware.ordering.policies import Policies
from middleware.runtime.engine import run


class Reading(Event):
    key: str


class Other(Event):
    key: str


class High(Event):
    key: str


class Alarm(Event):
    count: int


class Highs(Detector):
    """One result for every third event of a key, so that a step gives results of several keys."""

    subscribes, publishes, key = (Reading, Other), (High,), "key"

    def __init__(self) -> None:
        self.seen = 0

    def on_event(self, event: Reading | Other) -> High | None:
        self.seen += 1
        return High(event.key, ts=event.ts) if self.seen % 3 == 0 else None


class Alarms(Detector):
    subscribes, publishes = (High,), (Alarm,)

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event: High) -> Alarm:
        self.count += 1
        return Alarm(self.count, ts=event.ts)


def arrivals(random: Random, worst: int) -> list[Event]:
    times = sorted(random.sample(range(1, 100_000), 400))
    delayed = sorted((ts + random.randint(0, worst), number, ts) for number, ts in enumerate(times))
    return [random.choice((Reading, Other))(random.choice("abcdef"), ts=ts, id=number, source="s") for _, number, ts in delayed]


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("worst", [0, 50, 5_000])
def test_slack_of_a_hierarchy_does_not_grow_with_the_batch(alpha: float, worst: int) -> None:
    for seed in range(10):
        events = arrivals(Random(seed), worst)
        policies = Policies(alpha=alpha)
        single = {each.detector: each.k for each in run(events, [Highs(), Alarms()], policies=policies, batch=1).statistics}
        for batch in (7, 64, 400):
            done = run(events, [Highs(), Alarms()], policies=policies, batch=batch)
            for each in done.statistics:
                assert each.k <= single[each.detector], (seed, batch, each.detector)
                assert each.late == 0
            if worst == 0:
                assert {each.k for each in done.statistics} == {0}
