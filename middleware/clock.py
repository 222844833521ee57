"""Time as an argument: whoever needs the present moment is handed a clock (only ``runtime`` and ``cli`` make real ones)."""

import time
from typing import Protocol

SECOND = 1_000_000_000
MILLISECOND = 1_000_000


class Clock(Protocol):
    """Where the present moment comes from."""

    def now(self) -> int:
        """Nanoseconds since an arbitrary start; never goes back."""
        ...


class SystemClock:
    """The machine's monotonic clock."""

    def now(self) -> int:
        return time.monotonic_ns()


class ManualClock:
    """A clock that stands still until told otherwise: for tests and simulations.

    >>> clock = ManualClock()
    >>> clock.advance(3 * SECOND)
    >>> clock.now()
    3000000000
    """

    def __init__(self, start: int = 0) -> None:
        self._now = start

    def now(self) -> int:
        return self._now

    def advance(self, nanoseconds: int) -> None:
        """Move on by ``nanoseconds`` (not negative)."""
        if nanoseconds < 0:
            raise ValueError(f"a clock never goes back: advance({nanoseconds})")
        self._now += nanoseconds
