"""Lists that are made when they are needed: a checkpoint takes them at once, and they are written down in later steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator


class Later:
    """Iterates over ``make(*given)``, called anew each time it is iterated or pickled; unpickled, it is a list.

    ``given`` may never change. Creating one is O(1).

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
