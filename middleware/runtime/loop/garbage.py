"""Short garbage collections, and short turns of threads, in a process that runs a node.

A full collection visits every object, again and again: 0.2 s with 1,000,000 keys. Here, objects that survived one are not
visited again (``gc.freeze``), so the next one visits only newer objects: some 80,000, in less than 10 ms. Cycles among old
objects are found by a collection of everything, which takes 60 to 130 ms with 10,000 keys. A process that has doubled in size
makes one at the next idle moment (``collect_when_idle``); a process that is never idle waits until it has grown to four times
its size.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

_TURN = 0.0002
"""How long one thread may keep another one waiting (s). A commit waits for two switches, and results wait for the commit: with
1 ms, it took 2.5 ms beside a busy thread, instead of 0.9."""

_GROWN, _OVERGROWN = 2, 4
"""How many times its former size a process has when a collection of everything is due: at an idle moment, or at any."""

_SMALL = 128 * 2**20
"""A process smaller than this (bytes) counts as this large: it doubles often, and has little to win."""


def resident() -> int:
    """Resident bytes of this process."""
    return int(psutil.Process().memory_info().rss)


class _Collections:
    """``size``: resident bytes of the process at the last collection of everything."""

    def __init__(self, resident: Callable[[], int]) -> None:
        self._resident = resident
        self._is_due = False
        self._measure()

    def _measure(self) -> None:
        self.size = max(self._resident(), _SMALL)

    def on_collection(self, phase: str, info: dict[str, int]) -> None:
        """Called at the start and the end of each collection (see ``gc.callbacks``)."""
        if info["generation"] < 2 or phase == "start":
            return
        size = self._resident()
        if size > _OVERGROWN * self.size:
            gc.unfreeze()  # the next collection visits everything
            self._measure()
        else:
            gc.freeze()
            self._is_due = size > _GROWN * self.size

    def collect_when_due(self) -> None:
        """Collect everything if that is due."""
        if self._is_due:
            self._measure()
            gc.unfreeze()
            gc.collect()
            self._measure()


_running: list[_Collections] = []
"""The collections of this process."""


def freeze_objects() -> None:
    """Within ``short_collections``, keep collections from visiting the objects made so far: many will live long. O(1)."""
    if _running:
        gc.freeze()


def collect_when_idle() -> None:
    """Run the collection that waited for an idle moment, if one is due."""
    for collections in _running:
        collections.collect_when_due()


@contextmanager
def short_collections(resident: Callable[[], int] = resident) -> Iterator[None]:
    """Meanwhile, collections stay short: they skip the objects that exist at the start. For a process that runs one node."""
    turn, collections = sys.getswitchinterval(), _Collections(resident)
    gc.freeze()
    gc.callbacks.append(collections.on_collection)
    _running.append(collections)
    sys.setswitchinterval(_TURN)
    try:
        yield
    finally:
        sys.setswitchinterval(turn)
        gc.callbacks.remove(collections.on_collection)
        _running.remove(collections)
        gc.unfreeze()
