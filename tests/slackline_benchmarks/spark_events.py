"""What the benchmarks of Spark detect, in which events."""

from __future__ import annotations

from middleware.model.detector import Detector
from middleware.model.event import Event

KEYS = 1_000


class Value(Event):
    """What a sensor measures."""

    sensor: int
    value: float


class Alarm(Event):
    """A value far above the sensor's moving mean."""

    sensor: int
    above: float


class Alarms(Detector):
    """An exponential mean for each sensor."""

    subscribes, publishes, key = (Value,), (Alarm,), "sensor"

    def __init__(self) -> None:
        self.mean = 50.0

    def on_event(self, event: Value) -> Alarm | None:
        above = event.value - self.mean
        self.mean += 0.1 * above
        return Alarm(event.sensor, above, ts=event.ts) if above > 30 else None
