"""What runs while it is tortured: three levels of detectors in which anything lost, doubled or out of order shows."""

from __future__ import annotations

from typing import Any, ClassVar

from middleware.model.detector import Detector
from middleware.model.event import Event


class Reading(Event):
    """What the sources say: the value of a gauge."""

    namespace: ClassVar[str] = "torture"
    gauge: int
    value: int


class Rise(Event):
    """A gauge shows more than before."""

    namespace: ClassVar[str] = "torture"
    gauge: int
    by: int


class Mark(Event):
    """The sum of all rises so far has passed another hundred."""

    namespace: ClassVar[str] = "torture"
    total: int


class Digest(Event):
    """A hash over all rises and marks so far, in order: it differs if any of them does."""

    namespace: ClassVar[str] = "torture"
    value: int


class Noise(Event):
    """What strangers send; nobody's business."""

    namespace: ClassVar[str] = "torture"
    text: str = ""


class Silence(Event):
    """Never sent."""

    namespace: ClassVar[str] = "torture"


class Rises(Detector):
    """Keyed by gauge, level 1."""

    subscribes, publishes, key = (Reading,), (Rise,), "gauge"

    def __init__(self) -> None:
        self.last: int | None = None

    def on_event(self, event: Any) -> Event | None:
        last, self.last = self.last, event.value
        if last is None or event.value <= last:
            return None
        return Rise(event.gauge, event.value - last, ts=event.ts)


class Marks(Detector):
    """Level 2: order decides where the sum passes a hundred."""

    subscribes, publishes = (Rise,), (Mark,)

    def __init__(self) -> None:
        self.total = 0

    def on_event(self, event: Any) -> Event | None:
        before, self.total = self.total, self.total + event.by
        return Mark(self.total, ts=event.ts) if self.total // 100 > before // 100 else None


class Digests(Detector):
    """Level 3."""

    subscribes, publishes = (Rise, Mark), (Digest,)

    def __init__(self) -> None:
        self.value = 1
        self.count = 0

    def on_event(self, event: Any) -> Event | None:
        self.value = (self.value * 1_000_003 + event.id) % (2**61 - 1)
        self.count += 1
        return Digest(self.value, ts=event.ts) if self.count % 10 == 0 else None


class Deaf(Detector):
    """Makes Noise a known type."""

    subscribes, publishes = (Noise,), (Silence,)

    def on_event(self, event: Any) -> Event | None:
        return None


def application() -> list[Detector]:
    """All of them."""
    return [Rises(), Marks(), Digests(), Deaf()]
