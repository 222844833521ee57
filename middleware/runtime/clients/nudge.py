"""A word to one thread that it is to do something soon."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from middleware.model.time import SECOND


class Nudge:
    """An event for one thread that waits, made of a queue in C.

    A signal may raise an exception anywhere in Python code, in that of ``threading.Event``, too: between the taking of its lock
    and the block that gives it back. Then all who set it wait for ever, and a program that was interrupted does not end.
    """

    def __init__(self) -> None:
        self._words: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """Have the thread wake up."""
        if self._words.empty():
            self._words.put(None)

    def wait(self, timeout: float) -> bool:
        """Whether it was set, within so many seconds; then it is so no longer."""
        try:
            self._words.get(timeout=timeout)
        except Empty:
            return False
        return True

    def clear(self) -> None:
        """Tasks that are due soon are done."""
        while not self._words.empty():
            self.wait(0)


def is_done_by_others(
    due: Callable[[], int], until: int, wait: Callable[[float], object], now: Callable[[], int] = time.monotonic_ns
) -> bool:
    """Whether other threads have done what is due soon. Else waits until it is due, or ``until`` (ns).

    ``due``: when it is to be done; 0 once it is done. ``wait``: waits for so many seconds.
    """
    while (at := now()) < until:
        when = due()
        if when == 0:
            return True
        if when <= at:
            return False
        wait((min(when, until) - at) / SECOND)
    return False
