"""Bytes that a function writes, made a little at a time: in between it stands still, wherever it is.

A pickler cannot be stopped, so it runs in a thread of its own. That thread and the one that takes the bytes never run at once:
each waits while the other works, so this is a coroutine, and does the same each time, as one does.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable


class _GivenUp(BaseException):
    """Nobody wants the rest."""


class _File:
    """What the function writes to, and what both threads see. ``wanted``: bytes until the one that takes has its turn."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.wanted = 0
        self.failure: BaseException | None = None
        self.is_over = self.is_given_up = False
        self._to_write, self._to_take = threading.Semaphore(0), threading.Semaphore(0)

    def write(self, data: bytes | memoryview) -> int:
        self.chunks.append(bytes(data))
        self.wanted -= len(data)
        if self.wanted <= 0:
            self._to_take.release()
            self.wait()
        return len(data)

    def wait(self) -> None:
        """The writer's thread: stand still until bytes are wanted."""
        self._to_write.acquire()
        if self.is_given_up:
            raise _GivenUp

    def run(self, write: Callable[[_File], None]) -> None:
        """The writer's thread."""
        try:
            self.wait()
            write(self)
        except _GivenUp:
            return
        except BaseException as error:
            self.failure = error
        self.is_over = True
        self._to_take.release()

    def take(self, size: int) -> bytes:
        """Let it write so much, or to the end."""
        if not self.is_over:
            self.wanted = size
            self._to_write.release()
            self._to_take.acquire()
        if self.failure is not None:
            raise self.failure
        chunks, self.chunks = self.chunks, []
        return b"".join(chunks)

    def give_up(self) -> None:
        """Let the thread end."""
        self.is_given_up = True
        self._to_write.release()


class Slices:
    """What ``write`` writes to the file that it is given; see ``AtOnce``, which is the same all at once.

    Whoever lets go of it ends ``write`` where it stands.
    """

    def __init__(self, write: Callable[[_File], None]) -> None:
        self._file = _File()
        weakref.finalize(self, self._file.give_up)
        threading.Thread(target=self._file.run, args=(write,), name="slices", daemon=True).start()

    def take(self, size: int) -> bytes:
        """The next bytes: so many at least, or as few as there are; none at the end. Raises what ``write`` raises."""
        return self._file.take(size)
