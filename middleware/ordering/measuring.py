"""How arrivals move a unit's clock, and which delays they show (DEBS'13, section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import repeat, takewhile
from operator import is_not
from typing import TYPE_CHECKING, Any

import msgspec

from middleware import native
from middleware.model.change import Delta
from middleware.model.event import END, Event
from middleware.model.interleaved import Columns
from middleware.ordering.buffer import count_until
from middleware.ordering.kslack import LocalClock

if TYPE_CHECKING:
    from middleware.model.arrays import Array

_LEAST = -(2**63)


def measure(clock: LocalClock, inserts: list[Event], ahead: list[Event], behind: list[Event], hold: bool) -> None:
    """Measure delays and move the clock where no event has a K+ and all types move the clock: no work per event in time.

    ``ahead``, ``behind``: the events later than all before them, in order, and the others. ``hold``: see ``LocalClock.tick``.
    """
    delayed = [event.ts for event in behind]
    if ahead and ahead[0].ts < clock.clk:  # clock marks were faster
        delayed += [event.ts for event in ahead if event.ts < clock.clk]
    clock.arrive(delayed, inserts)
    if not ahead or ahead[-1].ts <= clock.clk:
        clock.pend(delayed)
        return
    clock.tick(ahead[count_until(ahead, clock.clk)].ts, ahead[-1].ts, hold)
    if behind and inserts[-1] is not ahead[-1]:
        after = [event.ts for event in takewhile(partial(is_not, ahead[-1]), reversed(inserts))]
        clock.arrive(after[::-1], ())  # they came behind the tick in its batch: measured against it here, not at the next one


def measure_singly(
    clock: LocalClock, ticking: frozenset[type[Event]] | None, delta: Delta, mark: int | None, hold: bool
) -> None:
    """Measure delays and move the clock where events carry a K+, or only some types (``ticking``) move the clock.

    A result stamped with a time still to come (the end of an open window) does not move the clock: nothing has happened
    beyond the clock mark.
    """
    limit = END if mark is None else mark
    early = delta.k_plus or repeat(0)
    delayed = [event.ts - ahead for event, ahead in zip(delta.inserts, early, strict=False)]
    clock.arrive(delayed, delta.inserts)
    ticks = [
        (event.ts, place)
        for place, event in enumerate(delta.inserts)
        if event.ts > clock.clk and (ticking is None or event.__class__ in ticking) and (event.ts <= limit or event.level == 0)
    ]
    if ticks:
        last, place = max(ticks)
        clock.tick(min(ticks)[0], last, hold)
        clock.arrive(delayed[place + 1 :], ())
    else:
        clock.pend(delayed)


class Survey(msgspec.Struct):
    """What a unit must know of the times of a batch.

    ``newest``, ``earliest``
        the latest time of all so far, and the earliest of these.
    ``first``
        the earliest time beyond the clock of those that were later than all before them, if there is one.
    ``delayed``
        the times that were not later than all before them, and those that the clock had passed.
    ``after``
        those behind the last that was later than all before it.
    """

    newest: int
    earliest: int
    first: int | None
    delayed: list[int]
    after: list[int]


def survey(arrived: Columns | list[Event], top: int, clk: int, only_earliest: bool = False) -> Survey:
    """Look at the times of columns or events; ``top`` was the latest before them, and ``clk`` is the clock. O(n), in the core.

    ``only_earliest``: all of ``delayed``, and of ``after``, but the earliest may be left out (see ``SlackPolicy``).
    """
    if type(arrived) is list:
        return Survey(*native.survey_events(arrived, top, clk, only_earliest))
    return Survey(*arrived.in_core.survey(top, clk, only_earliest))  # type: ignore[union-attr]


def measure_surveyed(clock: LocalClock, arrived: Sequence[Event], seen: Survey, hold: bool) -> None:
    """``measure`` for what ``seen`` tells of: columns, or events that are not split."""
    clock.arrive(seen.delayed, arrived)
    if seen.first is None:
        clock.pend(seen.delayed)
        return
    clock.tick(seen.first, seen.newest, hold)
    if seen.after:
        clock.arrive(seen.after, ())


def told(delta: Delta, columns: Columns) -> Array | None:
    """The times of the columns, which are all that is new in a delta, each less its K+; None if none came early. O(n)."""
    if not delta.is_early:
        return None
    import numpy as np

    if delta.since is not None:
        less: Array = np.minimum(columns.times, min(max(delta.since, _LEAST), END))
        return less
    if (k_plus := delta.k_plus) is None:
        return None
    return np.array([max(ts - early, _LEAST) for ts, early in zip(columns.times.tolist(), k_plus, strict=True)], np.int64)


def measure_columns(
    clock: LocalClock,
    ticking: frozenset[type[Event]] | None,
    columns: Columns,
    seen: Survey,
    less: Array | None,
    mark: int | None,
    hold: bool,
    top: int,
) -> None:
    """``measure_surveyed``, or what ``measure_singly`` does, for columns.

    ``less``: see ``told``. ``top``: the latest time before them.
    """
    if less is None and ticking is None and not _is_foretold(columns, top, mark):
        return measure_surveyed(clock, columns, seen, hold)
    ticks = ticking is None or columns.of_types(ticking)
    return _measure_columns_singly(clock, ticks, columns, columns.times if less is None else less, mark, hold)


def _measure_columns_singly(clock: LocalClock, ticks: Any, columns: Columns, less: Array, mark: int | None, hold: bool) -> None:
    """``ticks``: whether each (or all) of them may move the clock."""
    times = columns.times
    clock.arrive(_delayed(clock, less), columns)
    moves = (times > clock.clk) & ticks
    if mark is not None and columns.newest > mark and (levels := columns.levels) is not None:
        moves &= (times <= mark) | (levels == 0)
    if moves.any():
        moved = times[moves]
        last = int(moved.max())
        place = int((moves & (times == last)).nonzero()[0][-1])
        clock.tick(int(moved.min()), last, hold)
        clock.arrive(_delayed(clock, less[place + 1 :]), ())
    else:
        clock.pend(_delayed(clock, less))


def _delayed(clock: LocalClock, less: Array) -> list[int]:
    """The times, as far as the policy looks at them."""
    return [int(less.min())] if len(less) and clock.policy.only_earliest else less.tolist()


def _is_foretold(columns: Columns, top: int, mark: int | None) -> bool:
    """Whether the latest event, if it is later than ``top``, is a result whose time the clock ``mark`` has not reached."""
    if mark is None or columns.newest <= max(mark, top) or (levels := columns.levels) is None:
        return False
    return bool(levels[int(columns.times.argmax())] > 0)
