"""Wakes a thread that polls: by a file descriptor that it polls together with its sockets."""

from __future__ import annotations

import os
import threading


class Waker:
    """``wake`` makes ``descriptor`` readable, until ``clear``. Any thread or signal handler may wake, even after ``close``.

    ``is_set``: whether there is anything to clear; looking at it costs nothing.
    """

    def __init__(self) -> None:
        self.is_set = False
        self.descriptor, self._other = os.pipe2(os.O_NONBLOCK)
        self._lock = threading.RLock()  # a handler may wake while its thread does
        self._is_closed = False

    def wake(self) -> None:
        """Never waits. The work for which the thread is woken has to be there by now."""
        with self._lock:
            if not self.is_set and not self._is_closed:
                os.write(self._other, b"!")
                self.is_set = True

    def clear(self) -> None:
        """To be called by the thread that polls, if ``is_set``, and before it looks at what it was woken for."""
        os.read(self.descriptor, 16)
        self.is_set = False  # last: who wakes meanwhile has not written, and is looked at from now on

    def close(self) -> None:
        """Close the pipe."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._other)
                os.close(self.descriptor)
