"""Keeps the interpreter's own work short in a process that runs a node: garbage collections, and switches of threads.

A full collection visits every object, again and again: 0.2 s with 1,000,000 keys. Here, objects that survived one are not
visited again (``gc.freeze``), so the next one visits only newer objects: some 80,000, in less than 10 ms. To find cycles among
old objects, too, a full collection follows once the process has doubled in size.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

_TURN = 0.001
"""How long one thread may keep another one waiting (s). A commit takes several switches, and results wait for it."""


def resident() -> int:
    """Resident bytes of this process."""
    return int(psutil.Process().memory_info().rss)


class _Collections:
    """``size``: resident bytes of the process at the last full collection."""

    def __init__(self, resident: Callable[[], int]) -> None:
        self._resident = resident
        self.size = resident()

    def told(self, phase: str, info: dict[str, int]) -> None:
        """Called at the start and the end of each collection (see ``gc.callbacks``)."""
        if info["generation"] < 2 or phase == "start":
            return
        if self._resident() > 2 * self.size:
            gc.unfreeze()  # the next collection visits everything
            self.size = self._resident()
        else:
            gc.freeze()


_running: list[_Collections] = []
"""The collections of this process."""


def spare() -> None:
    """In a calm process, keep collections from visiting the objects made so far, as many of them will live long. O(1)."""
    if _running:
        gc.freeze()


@contextmanager
def calm(resident: Callable[[], int] = resident) -> Iterator[None]:
    """For a process that runs one node: the objects that exist at the start are kept, and collections stay short."""
    turn, collections = sys.getswitchinterval(), _Collections(resident)
    gc.freeze()
    gc.callbacks.append(collections.told)
    _running.append(collections)
    sys.setswitchinterval(_TURN)
    try:
        yield
    finally:
        sys.setswitchinterval(turn)
        gc.callbacks.remove(collections.told)
        _running.remove(collections)
        gc.unfreeze()
