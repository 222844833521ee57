"""The cost of corrections on the wire: each withdrawn result sent by itself, or by a counter (DEBS'13, section 4.3.1).

With full retraction a unit withdraws everything behind the disturbed event. Its results are numbered as they are published, one
series for each key, so that one record says it all: the last number that still stands. A reader that numbers what it gets does
not need the list.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import msgspec

from middleware.model.change import Batch
from middleware.model.detector import Detector
from middleware.model.event import IDENTITY, TS, Event, Identity

Series = tuple[str, Hashable]
"""The detector and the key of results that are numbered together."""


class WireRecords(msgspec.Struct):
    """Records that go over the wire: results published, revised, and withdrawn.

    ``counters``: records that withdraw the end of a series, by its counter; ``singles``: withdrawn results that no counter
    can tell, since later ones of the series stand.
    """

    inserts: int = 0
    revises: int = 0
    retracts: int = 0
    counters: int = 0
    singles: int = 0

    @property
    def one_by_one(self) -> int:
        """All records where each withdrawn result has one."""
        return self.inserts + self.revises + self.retracts

    @property
    def by_counters(self) -> int:
        """All records where counters withdraw (``D:i-1``)."""
        return self.inserts + self.revises + self.counters + self.singles


def keys_of(detectors: Mapping[str, Detector]) -> Callable[[Event], Series]:
    """The series of a result. A key that is not in its fields cannot be seen from outside: then all keys are one series."""
    fields = {name: key for name, one in detectors.items() if isinstance(key := type(one).key, str)}
    return lambda event: (event.source, getattr(event, fields.get(event.source, ""), None))


class Wire:
    """Counts the records of a stream of batches, with withdrawals one by one and by counters.

    ``provisional``: what a reader that follows the records has of each series. Memory: O(results).
    """

    def __init__(self, series: Callable[[Event], Series]) -> None:
        self._series = series
        self.records = WireRecords()
        self.provisional: dict[Series, list[Identity]] = {}

    def take(self, batch: Batch) -> None:
        """Count a batch. O(changes, and what stands of the series that it withdraws from)."""
        gone: dict[Series, set[Identity]] = {}
        for delta in batch.deltas.values():
            for event in delta.retracts:
                gone.setdefault(self._series(event), set()).add(IDENTITY(event))
        for series, identities in gone.items():
            self._withdraw(series, identities)
        for delta in batch.deltas.values():
            self.records.revises += len(delta.revises)
            self.records.inserts += len(delta.inserts)
        # the types of a batch are one series again: in the order of their causes, which is that of time unless backdated
        for event in sorted((event for delta in batch.deltas.values() for event in delta.inserts), key=TS):
            self.provisional.setdefault(self._series(event), []).append(IDENTITY(event))

    def _withdraw(self, series: Series, gone: set[Identity]) -> None:
        self.records.retracts += len(gone)
        provisional = self.provisional.get(series, [])
        kept = len(provisional) - len(gone)
        if kept >= 0 and set(provisional[kept:]) == gone:
            self.records.counters += 1
            del provisional[kept:]
        else:
            self.records.singles += len(gone)
            self.provisional[series] = [one for one in provisional if one not in gone]
