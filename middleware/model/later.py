"""Lists that are made when they are needed: what a checkpoint takes is handed out at once, and written down in later steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator


class Later:
    """What ``make(*given)`` gives, each time it is gone through, or written down by ``pickle``: read again, it is a list.

    ``given`` may never change. To make one costs no more than to hold it.

    >>> import pickle
    >>> pickle.loads(pickle.dumps(Later(map, str, [1, 2])))
    ['1', '2']
    """

    __slots__ = ("_given", "_make")

    def __init__(self, make: Callable[..., Iterable[object]], *given: object) -> None:
        self._make, self._given = make, given

    def __iter__(self) -> Iterator[object]:
        return iter(self._make(*self._given))

    def __reduce__(self) -> tuple[object, ...]:
        return list, (), None, iter(self)
