"""Runs a function that writes bytes a little at a time: in between, it is paused at whatever line it has reached.

A pickler cannot be paused, so it runs in a thread of its own. That thread and the one that takes the bytes never run at once:
each waits while the other works. So this is a coroutine, and as deterministic as one.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from middleware.durability.state_encoding import WritingEnded


class _File:
    """The file the function writes to, shared by both threads. ``requested``: bytes to write before the reader's turn."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.requested = 0
        self.failure: BaseException | None = None
        self.is_over = self.has_ended = False
        self._to_write, self._to_take = threading.Semaphore(0), threading.Semaphore(0)

    def write(self, data: bytes | memoryview) -> int:
        self.chunks.append(bytes(data))
        self.requested -= len(data)
        if self.requested <= 0:
            self._to_take.release()
            self.wait()
        return len(data)

    def wait(self) -> None:
        """Wait, in the writer's thread, until bytes are requested."""
        self._to_write.acquire()
        if self.has_ended:
            raise WritingEnded

    def run(self, write: Callable[[_File], None]) -> None:
        """The writer's thread."""
        try:
            self.wait()
            write(self)
        except WritingEnded:
            return
        except BaseException as error:
            self.failure = error
        self.is_over = True
        self._to_take.release()

    def take(self, size: int) -> bytes:
        """Let it write ``size`` bytes, or to the end."""
        if not self.is_over:
            self.requested = size
            self._to_write.release()
            self._to_take.acquire()
        if self.failure is not None:
            raise self.failure
        chunks, self.chunks = self.chunks, []
        return b"".join(chunks)

    def end(self) -> None:
        """Let the thread end."""
        self.has_ended = True
        self._to_write.release()


class Slices:
    """The bytes that ``write`` writes to the file it is given; ``AtOnce`` is the same, all at once.

    When this object is dropped, ``write`` ends where it is.
    """

    def __init__(self, write: Callable[[_File], None]) -> None:
        self._file = _File()
        weakref.finalize(self, self._file.end)
        threading.Thread(target=self._file.run, args=(write,), name="slices", daemon=True).start()

    def take(self, size: int) -> bytes:
        """The next bytes: at least ``size``, or all that are left; none at the end. Raises what ``write`` raises."""
        return self._file.take(size)
