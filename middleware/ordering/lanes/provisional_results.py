"""The results that an operation has published and may still withdraw."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain

from middleware.model.change import Delta
from middleware.model.columns.columns import EventColumns
from middleware.model.columns.held import SPARSE
from middleware.model.event import NEVER, TS, Event
from middleware.model.later import Later

_MANY = 16_384
"""With so many results more than the last time, it is worth finding out which are final behind one that is not."""

_CHANGE = 32
"""What a change takes besides its results, in results."""

_Noted = tuple[int, int, Sequence[Event], Sequence[tuple[Event, Event]], Sequence[Event]]
"""Changes: the latest time among them; what they take; new results, which may be columns; revised and withdrawn ones."""


class ProvisionalResults:
    """The published results of an operation that are not final: kept as changes, and netted on demand.

    Changes become final nearly in the order in which they came, so those at the front that are final go at each step. What is
    final behind one that is not is looked for where more and more is kept: a result far in the future holds up no others.
    """

    def __init__(self, results: Iterable[Event] = ()) -> None:
        kept = sorted(results, key=TS)
        self._changes: deque[_Noted] = deque([(kept[-1].ts, len(kept), kept, (), ())] if kept else ())
        self._weight, self._due = len(kept), len(kept) + _MANY

    def note(self, out: Delta, final: int) -> None:
        """Note changes that go out, new results in order of time. Amortised O(1) each."""
        changes, columns, weight = self._changes, out.columns, len(out) + _CHANGE
        while changes and changes[0][0] <= final:
            self._weight -= changes.popleft()[1]
        if columns is not None:
            inserts: Sequence[Event] = columns
            newest = columns.newest
        else:
            inserts = out.inserts.copy()
            newest = inserts[-1].ts if inserts else NEVER
        if not out.revises and not out.retracts:  # nearly always
            changes.append((newest, weight, inserts, (), ()))
        else:
            newest = max(chain((newest,), map(TS, out.retracts), map(TS, chain.from_iterable(out.revises))))
            changes.append((newest, weight, inserts, out.revises.copy(), out.retracts.copy()))
        self._weight += weight
        if self._weight > self._due:
            self._forget(final)

    def _forget(self, final: int) -> None:
        """Let go of all that is final, wherever it stands. O(changes that are kept)."""
        self._changes = deque(_not_final(each, final) for each in self._changes if each[0] > final)
        self._weight = sum(weight for _, weight, *_ in self._changes)
        self._due = self._weight * 9 // 8 + _MANY

    def above(self, final: int) -> list[Event]:
        """The results later than ``final``. O(changes)."""
        return _provisional(self._changes, final)

    def latest(self, final: int) -> int:
        """The latest time of those; NEVER if there are none. O(changes), where nothing was corrected."""
        if any(revises or retracts for _, _, _, revises, retracts in self._changes):
            return max(map(TS, self.above(final)), default=NEVER)
        newest = max((each[0] for each in self._changes), default=NEVER)
        return newest if newest > final else NEVER

    def state(self, final: int) -> Later:
        """The same, computed later."""
        return Later(_provisional, self._changes.copy(), final)


def _not_final(noted: _Noted, final: int) -> _Noted:
    """The same without the new results that are final, where they are nearly all. O(log n), and O(what is left)."""
    newest, weight, inserts, revises, retracts = noted
    if isinstance(inserts, EventColumns):
        start = int(inserts.times.searchsorted(final, "right"))
    else:
        start = bisect_right(inserts, final, key=TS)
    if SPARSE * (len(inserts) - start) >= len(inserts):
        return noted
    left = inserts.rest(start) if isinstance(inserts, EventColumns) else inserts[start:]
    return newest, weight - start, left, revises, retracts


def _provisional(noted: Iterable[_Noted], final: int) -> list[Event]:
    results: dict[int, Event] = {}
    for newest, _, inserts, revises, retracts in noted:
        if newest <= final:
            continue
        for event in retracts:
            results.pop(event.id, None)
        results.update((new.id, new) for _, new in revises)
        if isinstance(inserts, EventColumns):  # of which only the few that are not final are made
            inserts = inserts.filter(inserts.times > final).events()
        results.update((event.id, event) for event in inserts)
    return [event for event in results.values() if event.ts > final]
