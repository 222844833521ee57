"""Numbers that one thread tells another one, which may wait for them among its sockets."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from contextlib import suppress


class Told:
    """One thread calls ``put`` and ``wake``, the other one ``take``. ``wakes``: a file descriptor to poll; it can be read after
    a ``wake``, until the next ``take``."""

    def __init__(self) -> None:
        self._numbers: deque[int] = deque()
        self.wakes, self._wake = os.pipe2(os.O_NONBLOCK)

    @property
    def pending(self) -> bool:
        """Whether there is a number that was not taken."""
        return bool(self._numbers)

    def put(self, numbers: Iterable[int]) -> None:
        self._numbers += numbers

    def wake(self) -> None:
        """Never waits."""
        with suppress(BlockingIOError):  # full: the other one has not heeded what was told before
            os.write(self._wake, b"!")

    def take(self) -> int | None:
        """The last number that was told, if there is one since the last time."""
        with suppress(BlockingIOError):  # first: what is written to the pipe behind this is about something not told yet
            os.read(self.wakes, 4096)
        number = None
        while self._numbers:
            number = self._numbers.popleft()
        return number

    def close(self) -> None:
        """Let go of the pipe."""
        os.close(self._wake)
        os.close(self.wakes)
