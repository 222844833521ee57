"""Passes numbers from one thread to another one, which may poll for them together with its sockets."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from middleware.runtime.loop.waker import Waker


class NumberPipe:
    """One thread calls ``put`` and ``wake``, the other one ``take``.

    ``wakes``
        a file descriptor to poll; it is readable after a ``wake``, until the next ``take``.
    """

    def __init__(self) -> None:
        self._numbers: deque[int] = deque()
        self._waker = Waker()
        self.wakes = self._waker.descriptor

    @property
    def pending(self) -> bool:
        """Whether there is a number that has not been taken."""
        return bool(self._numbers)

    def put(self, numbers: Iterable[int]) -> None:
        self._numbers += numbers

    def wake(self) -> None:
        """Make ``wakes`` readable. Never waits."""
        self._waker.wake()

    def take(self) -> int | None:
        """The last number put, if there is one since the last call."""
        if self._waker.is_set:
            self._waker.clear()  # first: a later wake is about a number not taken yet
        number = None
        while self._numbers:
            number = self._numbers.popleft()
        return number

    def close(self) -> None:
        """Close the pipe."""
        self._waker.close()
