"""Detectors over phones that report twice a second: which connection has turned slow, and when many do at once."""

from typing import ClassVar

from slackline import Detector, Event

from middleware.model.time import SECOND


class Report(Event):
    """A phone's message; ``send_delay`` and ``round_trip`` (ns) as the phone measured them."""

    namespace: ClassVar[str] = "devices"
    device: str
    sequence: int
    network: str
    send_delay: int
    round_trip: int
    content_length: int


class Slow(Event):
    """A connection takes more than twice its usual time (ns)."""

    namespace: ClassVar[str] = "devices"
    device: str
    round_trip: int
    usual: int


class Recovered(Event):
    """It is back to what is usual, after ``reports`` slow reports."""

    namespace: ClassVar[str] = "devices"
    device: str
    reports: int


class Congestion(Event):
    """This many phones are slow at once: it is the network, not the phone."""

    namespace: ClassVar[str] = "devices"
    devices: int


class SlowPhones(Detector):
    """Reads reports, keyed by device. Usual is an exponential mean (1/16) over reports that were not slow."""

    subscribes, publishes, key = (Report,), (Slow, Recovered), "device"

    def __init__(self) -> None:
        self.usual = 0
        self.slow = 0

    def on_event(self, event: Report) -> Event | None:
        if self.usual and event.round_trip > 2 * self.usual:
            self.slow += 1
            return Slow(event.device, event.round_trip, self.usual, ts=event.ts) if self.slow == 1 else None
        self.usual += (event.round_trip - self.usual) // 16 if self.usual else event.round_trip
        reports, self.slow = self.slow, 0
        return Recovered(event.device, reports, ts=event.ts) if reports else None


class Congestions(Detector):
    """Reads who is slow; publishes when the third phone turns slow within two seconds of the first."""

    subscribes, publishes = (Slow, Recovered), (Congestion,)

    def __init__(self) -> None:
        self.since: dict[str, int] = {}

    def on_event(self, event: Slow | Recovered) -> Event | None:
        if isinstance(event, Recovered):
            self.since.pop(event.device, None)
            return None
        self.since = {device: ts for device, ts in self.since.items() if event.ts - ts <= 2 * SECOND}
        self.since[event.device] = event.ts
        return Congestion(len(self.since), ts=event.ts) if len(self.since) >= 3 else None
