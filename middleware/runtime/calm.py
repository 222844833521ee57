"""What the interpreter does beside a node, such that nothing waits for it long: garbage collections, and turns of threads.

A whole collection looks at every object there is, again and again: 0.2 s with 1,000,000 keys. Here, what survived one is left
alone from then on (``gc.freeze``), so that the next one looks at what has come since: some 80,000 objects, less than 10 ms. So
that cycles among old objects are found, too, all is looked at again when the process has become twice as large.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

_TURN = 0.001
"""How long one thread may keep another one waiting (s). A commit takes several turns, and results wait for it."""


def resident() -> int:
    """Resident bytes of this process."""
    return int(psutil.Process().memory_info().rss)


class _Collections:
    """``size``: resident bytes of the process when all was looked at last."""

    def __init__(self, resident: Callable[[], int]) -> None:
        self._resident = resident
        self.size = resident()

    def told(self, phase: str, info: dict[str, int]) -> None:
        """Of the begin and the end of a collection (see ``gc.callbacks``)."""
        if info["generation"] < 2 or phase == "start":
            return
        if self._resident() > 2 * self.size:
            gc.unfreeze()  # the next one is a whole one
            self.size = self._resident()
        else:
            gc.freeze()


_running: list[_Collections] = []
"""Those of this process."""


def spare() -> None:
    """Much has been made that is kept for a while: in a process that is calm, no collection looks at it. O(1)."""
    if _running:
        gc.freeze()


@contextmanager
def calm(resident: Callable[[], int] = resident) -> Iterator[None]:
    """For a process that runs one node: what is there in the beginning is kept, and collections are short from then on."""
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
