"""The timetable of a feed: when to send an event, by its arrival time."""

from __future__ import annotations

import time

from middleware.model.time import MILLISECOND

PACED_WINDOW = 5 * MILLISECOND
"""At a given speed, events due within this time (wall clock, ns) go out together, when the last of them is due."""


def window_of(speed: float | None) -> int | None:
    """The span of arrival time (ns) that goes out together at a speed; None: any, as fast as possible."""
    return None if speed is None else max(1, int(PACED_WINDOW * speed))


class FeedPace:
    """The timetable of a feed: an event that arrived ``d`` after the first is due ``d / speed`` after the start.

    ``behind``: the most (ns) that it fell behind.
    """

    def __init__(self, start: int, first_arrival: int, speed: float | None) -> None:
        # The start is published as wall time; but times since the start must not jump with the wall clock.
        self._start = start - time.time_ns() + time.monotonic_ns()
        self._first = first_arrival
        self._speed = speed
        self.behind = 0

    def wait(self, arrival: int) -> None:
        """Wait until an event with this arrival is due."""
        due = self._start if self._speed is None else self._start + round((arrival - self._first) / self._speed)
        ahead = due - time.monotonic_ns()
        if ahead > 0:
            time.sleep(ahead / 1e9)
        elif self._speed is not None:
            self.behind = max(self.behind, -ahead)
