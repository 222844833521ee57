"""Passes numbers from one thread to another one, which may poll for them together with its sockets."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from contextlib import suppress


class Told:
    """One thread calls ``put`` and ``wake``, the other one ``take``. ``wakes``: a file descriptor to poll; it is readable after
    a ``wake``, until the next ``take``."""

    def __init__(self) -> None:
        self._numbers: deque[int] = deque()
        self.wakes, self._wake = os.pipe2(os.O_NONBLOCK)

    @property
    def pending(self) -> bool:
        """Whether there is a number that has not been taken."""
        return bool(self._numbers)

    def put(self, numbers: Iterable[int]) -> None:
        self._numbers += numbers

    def wake(self) -> None:
        """Make ``wakes`` readable. Never waits."""
        with suppress(BlockingIOError):  # the pipe is full: the other thread has not read earlier wakes yet
            os.write(self._wake, b"!")

    def take(self) -> int | None:
        """The last number put, if there is one since the last call."""
        with suppress(BlockingIOError):  # empty the pipe first: a later wake is about a number not taken yet
            os.read(self.wakes, 4096)
        number = None
        while self._numbers:
            number = self._numbers.popleft()
        return number

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._wake)
        os.close(self.wakes)
