"""The order in which a feed goes out: slices of the trace one after the other, whoever read them. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Sequencer(Generic[Item]):
    """Takes the items of slices as they come, those of a slice in their order; gives them out slice by slice, each once.

    What comes again, since a partition began anew, is the same as before, and is left out.
    """

    def __init__(self, slices: int) -> None:
        self.current = 0
        """The slice that is going out."""
        self._slices = slices
        self._out = 0  # items of the current slice that have gone out
        self._waiting: dict[int, deque[Item]] = {}
        self._ended: set[int] = set()

    def put(self, number: int, position: int, item: Item | None, ends: bool) -> None:
        """An item of slice ``number`` at this position in it; whether it is the last. None: the slice ends without any more."""
        if number < self.current:
            return
        if item is not None and (number > self.current or position >= self._out):
            self._waiting.setdefault(number, deque()).append(item)
        if ends:
            self._ended.add(number)

    def ready(self) -> Iterator[Item]:
        """What can go out now. O(1) each."""
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
        """All partitions begin anew, with the current slice: what waits comes again."""
        self._waiting.clear()
        self._ended.clear()
