"""A run in one process gives detectors, and their readers, the values that they have after a wire: so finals are the same."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pytest
from slackline import Detector, Event, run

from middleware.model.errors import DetectorError

BERLIN = ZoneInfo("Europe/Berlin")


class Tick(Event):
    at: datetime
    loads: list[float]


class Opened(Event):
    at: datetime
    ats: list[datetime]
    counted: dict[str, Any]
    given: str


class Hour(Event):
    hour: int


class Opens(Detector):
    subscribes, publishes = (Tick,), (Opened,)

    def __init__(self) -> None:
        self.counts = np.zeros(24, np.int64)

    def on_event(self, event: Tick) -> Opened:
        self.counts[event.at.hour] += 1
        at = event.at.astimezone(BERLIN)
        return Opened(at, [at], {"n": self.counts[event.at.hour]}, f"{event.at.hour} {event.loads}", ts=event.ts)


class Hours(Detector):
    subscribes, publishes = (Opened,), (Hour,)

    def on_event(self, event: Opened) -> Hour:
        return Hour(event.at.hour, ts=event.ts)


def test_times_are_in_utc_and_numbers_pythons_and_of_their_type() -> None:
    ticks = [Tick(datetime(2024, 6, 1, 14, n, tzinfo=BERLIN), [n, 0.5], ts=n, id=n, source="s") for n in (1, 2)]
    found = run(ticks, [Opens(), Hours()]).finals
    for number, opened in enumerate(found["Opens"], 1):
        assert opened == msgspec.msgpack.decode(msgspec.msgpack.encode(opened), type=Opened)
        assert isinstance(opened, Opened)
        assert opened.at.tzinfo is opened.ats[0].tzinfo is UTC
        assert type(opened.counted["n"]) is int
        assert opened.given == f"12 [{number}.0, 0.5]"
    assert [each.hour for each in found["Hours"]] == [12, 12]  # type: ignore[attr-defined]


class Keeps(Detector):
    subscribes, publishes = (Tick,), (Hour,)

    def on_event(self, event: Tick) -> Hour:
        self.rest = (hour for hour in range(event.at.hour))
        return Hour(0, ts=event.ts)


@pytest.mark.parametrize("order", [1, -1])
def test_the_error_of_a_run_is_the_cause_not_what_was_skipped_for_it(order: int) -> None:
    ticks = [Tick(datetime(2024, 6, 1, tzinfo=UTC), [], ts=n, id=n, source="s") for n in range(1, 6)]
    with pytest.raises(DetectorError, match=r"Keeps\.rest cannot be saved: generator"):
        run(ticks[::order], [Keeps()], batch=1)
