"""One tree for the windows of several queries over one stream (VLDB 2019, section 5.4); queries come and go while it runs.

>>> from detectors.window import SUM, SharedWindows
>>> shared = SharedWindows(SUM.of(int))
>>> shared.open("short", 2)
>>> shared.open("long", 10)
>>> shared.bulk_insert([1, 4, 8, 9], [5, 2, 7, 1])
>>> shared.query("short", 9), shared.query("long", 9)
(8, 15)
"""

from __future__ import annotations

from collections.abc import Iterable

from detectors.window.aggregation.fiba import Fiba
from detectors.window.aggregation.monoid import Monoid, Place
from middleware.model.errors import WindowError
from middleware.model.event import NEVER, Value
from middleware.model.quantities import Duration, duration_of


class SharedWindows:
    """The values of a stream, and sliding windows (end - size, end] over them, each as long as its query wants.

    ``retention``
        how far back values are kept though no open query needs them, so that a query which comes later can look back.

    Memory is that of the longest window alone. A query costs O(log of its distance from the ends and of its size).
    """

    def __init__(self, monoid: Monoid, *, retention: Duration = 0, min_arity: int = 8, ordered: bool = False) -> None:
        self.retention = duration_of(retention, "retention")
        self._tree = Fiba(monoid, min_arity=min_arity, ordered=ordered)
        self._sizes: dict[str, int] = {}
        self._forgotten = NEVER

    @property
    def open_queries(self) -> dict[str, int]:
        """The sizes of the open queries, by name."""
        return dict(self._sizes)

    @property
    def forgotten(self) -> int:
        """The time up to which values are forgotten: no window reaches back before it."""
        return self._forgotten

    def __len__(self) -> int:
        """Entries."""
        return len(self._tree)

    def open(self, name: str, size: Duration) -> None:
        """Begin a query; what is kept already is in its windows. Raises WindowError if the name is taken or size < 1. O(1)."""
        if name in self._sizes:
            raise WindowError(f"a query {name!r} is open already: close it first, or give another name")
        length = duration_of(size, "size")
        if length < 1:
            raise WindowError(f"the windows of {name!r} must be at least 1 ns long, not {size}")
        self._sizes[name] = length

    def close(self, name: str) -> None:
        """End a query; what it alone needs is forgotten with the next ``advance``. Raises WindowError if it is not open."""
        self._size(name)
        del self._sizes[name]

    def insert(self, ts: Place, value: Value) -> None:
        """Add a value, in any order. Raises WindowError at a time that is forgotten. O(log d)."""
        self.bulk_insert([ts], [value])

    def bulk_insert(self, times: Iterable[Place], values: Iterable[Value]) -> None:
        """Add values in order of time; all or none."""
        times = list(times)
        if times and (first := self._ts(times[0])) <= self._forgotten:
            raise WindowError(f"{first} is not after {self._forgotten}, up to where values are forgotten: it is late")
        self._tree.bulk_insert(times, values)

    def evict(self, ts: Place) -> bool:
        """Take a value back; False if there is none."""
        return len(self._tree) > 0 and self._tree.evict(ts)

    def query(self, name: str, end: int) -> Value:
        """The aggregate of a query's window that ends at ``end``. Raises WindowError if part of that window is forgotten."""
        size = self._size(name)
        if end - size < self._forgotten:
            raise WindowError(
                f"the window of {name!r} that ends at {end} is forgotten in part: values are kept from {self._forgotten + 1} "
                f"on, so its first whole window ends at {self._forgotten + size}"
            )
        return self._tree.range_query(end - size + 1, end)

    def advance(self, watermark: int) -> int:
        """Forget what no window that ends at ``watermark`` or later can hold; returns how many entries. O(log d)."""
        upto = watermark - max([self.retention, *self._sizes.values()])
        if upto <= self._forgotten:
            return 0
        self._forgotten = upto
        return self._tree.bulk_evict(upto)

    def check(self) -> None:
        self._tree.check()
        assert not len(self._tree) or self._ts(self._tree.oldest) > self._forgotten, "what is forgotten is still there"

    def _size(self, name: str) -> int:
        if name not in self._sizes:
            raise WindowError(f"no query {name!r} is open; open are {', '.join(self._sizes) or 'none'}")
        return self._sizes[name]

    def _ts(self, place: Place) -> int:
        ts: int = place[0] if isinstance(place, tuple) else place
        return ts
