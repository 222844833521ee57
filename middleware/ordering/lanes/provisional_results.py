"""The results that an operation has published and may still withdraw."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain

from middleware.model.block.block import Block
from middleware.model.block.waiting_blocks import SPARSE
from middleware.model.change import Delta
from middleware.model.event import NEVER, TS, Event
from middleware.model.later import Later

_MANY = 16_384
"""With so many results more than the last time, it is worth finding out which are final behind one that is not."""

_CHANGE = 32
"""The cost of a change besides its results, in results."""

_Noted = tuple[int, int, Sequence[Event], Sequence[tuple[Event, Event]], Sequence[Event]]
"""Changes: the latest time among them; what they take; new results, which may be columns; revised and withdrawn ones."""


class ProvisionalResults:
    """The published results of an operation that are not final: kept as changes, and netted on demand.

    Changes become final nearly in the order in which they came, so those at the front that are final go at each step. Final
    changes behind one that is not are looked for where more and more is kept: a result far in the future holds up no others.
    """

    def __init__(self, results: Iterable[Event] = ()) -> None:
        kept = sorted(results, key=TS)
        self._changes: deque[_Noted] = deque([(kept[-1].ts, len(kept), kept, (), ())] if kept else ())
        self._weight, self._due = len(kept), len(kept) + _MANY

    def note(self, out: Delta, final: int) -> None:
        """Note changes that go out, new results in order of time. Amortised O(1) each."""
        changes, weight, inserts = self._changes, len(out) + _CHANGE, out.new
        while changes and changes[0][0] <= final:
            self._weight -= changes.popleft()[1]
        if isinstance(inserts, list):
            inserts = inserts.copy()
            newest = inserts[-1].ts if inserts else NEVER
        else:
            newest = inserts.newest
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
        """A delta whose results are computed later."""
        return Later(_provisional, self._changes.copy(), final)


def _not_final(noted: _Noted, final: int) -> _Noted:
    """Return the delta without new results that are final, where these are nearly all. O(log n), and O(what is left)."""
    newest, weight, inserts, revises, retracts = noted
    start = _count_until(inserts, final)
    if SPARSE * (len(inserts) - start) >= len(inserts):
        return noted
    return newest, weight - start, _rest(inserts, start), revises, retracts


def _count_until(inserts: Sequence[Event], final: int) -> int:
    """How many new results, in order of time, are final. O(log n)."""
    if type(inserts) is Block:
        return int(inserts.times.searchsorted(final, "right"))
    return bisect_right(inserts, final, key=TS)


def _rest(inserts: Sequence[Event], start: int) -> Sequence[Event]:
    """The new results from a place on, which keep no others alive. O(results left)."""
    return inserts.rest(start) if type(inserts) is Block else inserts[start:]


def _provisional(noted: Iterable[_Noted], final: int) -> list[Event]:
    results: dict[int, Event] = {}
    for newest, _, inserts, revises, retracts in noted:
        if newest <= final:
            continue
        for event in retracts:
            results.pop(event.id, None)
        results.update((new.id, new) for _, new in revises)
        provisional = _rest(inserts, _count_until(inserts, final))  # of columns, only the few that are not final are made
        results.update((event.id, event) for event in provisional)
    return [event for event in results.values() if event.ts > final]
