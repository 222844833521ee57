"""A small scenario, and runs of it that were never run: hand-made, so that every number is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from slackline import Detector, Event

from middleware.broker.effects import BrokerStatistics
from middleware.evaluation.evaluation_runs import Replay
from middleware.evaluation.feeder import FeedTimes
from middleware.evaluation.modes import Mode
from middleware.model.event import IDENTITY
from middleware.ordering.records import UnitStatistics
from middleware.runtime.plan import Plan
from middleware.runtime.report import AdaptationInterval, NodeReport
from middleware.runtime.scenario import Scenario

MS = 1_000_000
START = 1_700_000_000_000 * MS


class Tick(Event):
    value: int


class Rise(Event):
    by: int


class Peak(Event):
    value: int


class Alarm(Event):
    value: int


class Rises(Detector):
    subscribes, publishes = (Tick,), (Rise,)

    def __init__(self) -> None:
        self.last = 0

    def on_event(self, event: Tick) -> Rise | None:
        by, self.last = event.value - self.last, event.value
        return Rise(by, ts=event.ts) if by > 0 else None


class Peaks(Detector):
    subscribes, publishes = (Rise,), (Peak,)

    def on_event(self, event: Rise) -> Peak | None:
        return Peak(event.by, ts=event.ts) if event.by > 5 else None


class Alarms(Detector):
    subscribes, publishes = (Peak,), (Alarm,)

    def on_event(self, event: Peak) -> Alarm:
        return Alarm(event.value, ts=event.ts)


def ticks(seed: int, seconds: float) -> dict[str, Any]:
    raise AssertionError("no test makes this recording")


def scenario(**changes: Any) -> Scenario:
    """Three detectors on two nodes; Alarm is what people wait for."""
    me = __name__
    plan: dict[str, Any] = {
        "name": "sample",
        "detectors": [f"{me}:Rises", f"{me}:Peaks", f"{me}:Alarms"],
        "results": ["Alarm"],
        "recording": {"generate": f"{me}:ticks", "seconds": 2.0, "seed": 3},
        "policies_for": {"Peaks": {"lateness": "2s"}},
        "evaluation": {"latency": "Peaks", "corrections": "Peaks"},
        "nodes": [{"name": "low", "detectors": ["Rises"]}, {"name": "high", "detectors": ["*"]}],
    }
    return Scenario(msgspec.convert({**plan, **changes}, Plan), Path(__file__).parent / "nodes.toml")


def event(kind: type[Event], source: str, at_ms: int, number: int, value: int = 9) -> Event:
    return kind(value, ts=at_ms * MS, id=number, source=source, level=1)


def unit(name: str, inserted: int = 0, revised: int = 0, retracted: int = 0) -> UnitStatistics:
    """Statistics in which only what was published counts."""
    counts: dict[str, Any] = dict.fromkeys(UnitStatistics.__struct_fields__, 0)
    return UnitStatistics(**{**counts, "detector": name, "inserted": inserted, "revised": revised, "retracted": retracted})


def adaptation(at_ms: float, busy: float, alpha: float, memory: int) -> AdaptationInterval:
    alphas = {"Rises": alpha, "Peaks": alpha / 2, "Alarms": 0.0}
    slack = {"Rises": 30 * MS, "Peaks": 20 * MS, "Alarms": 10 * MS}
    return AdaptationInterval(START + round(at_ms * MS), busy, alphas, cpu=busy / 2, memory=memory, k=slack)


def replay(mode: Mode, finals: list[Event], latency_ms: float, **changes: Any) -> Replay:
    """A run of two seconds in which every final was delivered ``latency_ms`` after the replayed moment of its event."""
    first = 100 * MS  # the recording's first arrival
    fed = FeedTimes(START, first, mode.speed, 1_000, 2.0 / mode.speed, 7 * MS)
    delivered = {IDENTITY(one): START + round((one.ts - first) / mode.speed + latency_ms * MS) for one in finals}
    report = NodeReport(
        node="evaluated",
        units=[unit("Rises", 50, 5, 5), unit("Peaks", 10, 1, 2), unit("Alarms", 8, 0, 1)],
        late=changes.pop("late", {}),
        failures={},
        adaptation=[
            adaptation(-400, 0.0, 0.5, 100),
            adaptation(500, 0.4, 1.0, 150),
            adaptation(1000, 0.6, 0.5, 250),
            adaptation(9000, 0.0, 0.1, 900),
        ],
        broker=BrokerStatistics(0, 0, 0, {}, 0, [], {}, []),
        cpu=1.5,
        seconds=12.0,
        memory=900,
    )
    types = frozenset({"Alarm"} if mode.results_only else {"Rise", "Peak", "Alarm"})
    given: dict[str, Any] = {"violations": {}, **changes}
    return Replay(mode, types, fed, finals, delivered, given["violations"], report)
