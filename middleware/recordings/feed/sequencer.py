"""The order in which a feed goes out: slices of the trace one after the other, whichever partition read them. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Sequencer(Generic[Item]):
    """Takes the items of slices as they come, those of one slice in order; gives them out slice by slice, each once.

    Items that come again, because a partition was restarted, are the same as before, and are skipped.
    """

    def __init__(self, slices: int) -> None:
        self.current = 0
        """The slice now going out."""
        self._slices = slices
        self._out = 0  # items of the current slice that have gone out
        self._waiting: dict[int, deque[Item]] = {}
        self._ended: set[int] = set()

    def put(self, number: int, position: int, item: Item | None, ends: bool) -> None:
        """Take an item of slice ``number`` at this position; ``ends``: no more follow. None: only the end of the slice."""
        if number < self.current:
            return
        if item is not None and (number > self.current or position >= self._out):
            self._waiting.setdefault(number, deque()).append(item)
        if ends:
            self._ended.add(number)

    def ready(self) -> Iterator[Item]:
        """The items that can go out now. O(1) each."""
        while not self.is_over:
            waiting = self._waiting.get(self.current, ())
            while waiting:
                self._out += 1
                yield waiting.popleft()
            if self.current not in self._ended:
                return
            self._waiting.pop(self.current, None)
            self._ended.discard(self.current)
            self.current += 1
            self._out = 0

    @property
    def is_over(self) -> bool:
        """Whether all slices have gone out."""
        return self.current == self._slices

    def restart(self) -> None:
        """Note that all partitions restart, with the current slice: waiting items come again."""
        self._waiting.clear()
        self._ended.clear()
