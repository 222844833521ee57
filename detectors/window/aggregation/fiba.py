"""``Fiba``: the aggregator of a sliding window whose events come and go out of order; a data structure on its own.

>>> from detectors.window import SUM, Fiba
>>> window = Fiba(SUM.of(int))
>>> for ts, value in [(1, 5), (4, 2), (3, 7)]:
...     window.insert(ts, value)
>>> window.query(), window.range_query(3, 4), window.evict(1), window.query()
(14, 9, True, 9)

The finger B-tree aggregator of Tangwongsan, Hirzel and Schneider (VLDB 2019), with the bulk operations of their sequel (VLDB
2023), in the core.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from detectors.window.aggregation.monoid import Monoid, Place
from middleware import native
from middleware.model.event import Value


class Aggregator(Protocol):
    """The values of a window in order of time, and their aggregate. d: distance from the nearer end; n: size.

    Times are integers (int64). Each holds one entry: values at one time combine, old before new. With ``ordered``, the times
    are places in the total order, (ts, source, id) or (ts, level, source, id), so that each event has an entry of its own; a
    bare ts as a bound includes all events at it.
    """

    monoid: Monoid
    min_arity: int
    ordered: bool

    def __init__(self, monoid: Monoid, *, min_arity: int = 8, ordered: bool = False) -> None:
        """``min_arity``: nodes have from this many children to twice as many. From 2 to 128; else WindowError."""

    def insert(self, ts: Place, value: Value, *, replace: bool = False) -> None:
        """Put a value at a time; after what is there, or instead of it. O(log d), amortised O(1) in order."""

    def evict(self, ts: Place) -> bool:
        """Remove the entry at a time, anywhere; False if there is none. O(log d). Raises WindowError on an empty window."""

    def evict_oldest(self) -> None:
        """Remove the oldest entry. Amortised O(1). Raises WindowError on an empty window."""

    def query(self) -> Value:
        """The aggregate of the window. O(1)."""

    def range_query(self, low: Place, high: Place) -> Value:
        """The aggregate of the entries from ``low`` to ``high``, both included. O(log of distance and size of the range)."""

    def bulk_insert(self, times: Iterable[Place], values: Iterable[Value], *, replace: bool = False) -> None:
        """Insert many, in order of time (WindowError if not), with one search and one repair for each run of neighbours.

        Both may be arrays (numpy, Arrow, anything with a buffer): then no Python object is made for an entry.
        """

    def bulk_evict(self, upto: Place) -> int:
        """Remove all entries with times <= ``upto``; returns how many."""

    def round(self, evict_upto: Place, ts: Place, value: Value) -> Value:
        """``bulk_evict(evict_upto)``, ``insert(ts, value)`` and ``query()`` in one call."""

    def rounds(self, evict_upto: Iterable[Place], times: Iterable[Place], values: Iterable[Value]) -> Value:
        """One ``round`` after another, over columns; the results as a column. Times need not be in order."""

    def clear(self) -> None:
        """Remove everything."""

    @property
    def oldest(self) -> Place:
        """The first time, None if there is none."""

    @property
    def youngest(self) -> Place:
        """The last time, None if there is none."""

    @property
    def work(self) -> dict[str, int]:
        """The work done so far: ``combines`` (uses of the operator) and ``visits`` (of nodes)."""

    def __len__(self) -> int:
        """Entries."""

    def __iter__(self) -> Iterator[tuple[Place, Value]]:
        """(time, result of the entry there) in order of time. O(n)."""

    def check(self) -> None:
        """Raise AssertionError if an invariant does not hold. O(n)."""


Fiba: type[Aggregator] = native.Fiba
