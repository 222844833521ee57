"""How arrivals move a unit's clock, and which delays they show (DEBS'13, section 4.1)."""

from __future__ import annotations

from functools import partial
from itertools import repeat, takewhile
from operator import is_not, sub
from typing import TYPE_CHECKING

from middleware.model.change import Delta
from middleware.model.columns import EventColumns
from middleware.model.event import END, Event
from middleware.ordering.buffer import count_until
from middleware.ordering.kslack import LocalClock

if TYPE_CHECKING:
    import numpy as np

    Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]
    """One yes or no for each event."""


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
        clock.arrive(after, ())  # these came behind the tick in its batch: measured against it here, so not at the next one


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


def measure_columns(clock: LocalClock, columns: EventColumns, ahead: Mask, hold: bool) -> None:
    """``measure`` for columns; ``ahead``: which events are later than all before them."""
    times = columns.times
    rising, delayed = times[ahead], times[~ahead].tolist()
    if len(rising) and rising[0] < clock.clk:
        delayed += rising[rising < clock.clk].tolist()
    clock.arrive(delayed, columns)
    if not len(rising) or rising[-1] <= clock.clk:
        clock.pend(delayed)
        return
    clock.tick(int(rising[rising.searchsorted(clock.clk, "right")]), int(rising[-1]), hold)
    last = int(ahead.nonzero()[0][-1])
    if last + 1 < len(times):
        clock.arrive(times[last + 1 :].tolist(), ())


def measure_columns_singly(
    clock: LocalClock, ticks: bool, columns: EventColumns, k_plus: list[int] | None, mark: int | None, hold: bool
) -> None:
    """``measure_singly`` for columns; ``ticks``: whether events of their type move the clock."""
    times = columns.times
    delayed = times.tolist() if k_plus is None else list(map(sub, times.tolist(), k_plus))
    clock.arrive(delayed, columns)
    moves = times > (clock.clk if ticks else END)
    if mark is not None and (levels := columns.levels) is not None:
        moves &= (times <= mark) | (levels == 0)
    if moves.any():
        last = int(times[moves].max())
        place = int((moves & (times == last)).nonzero()[0][-1])
        clock.tick(int(times[moves].min()), last, hold)
        clock.arrive(delayed[place + 1 :], ())
    else:
        clock.pend(delayed)


def rising(columns: EventColumns, top: int) -> Mask:
    """Which events are later than ``top`` and all before them."""
    import numpy as np

    times = columns.times
    before = np.maximum.accumulate(np.concatenate(([top], times[:-1])))
    ahead: Mask = times > before
    return ahead


def foretold(columns: EventColumns, ahead: Mask, mark: int | None) -> bool:
    """Whether the latest event is a result whose time the clock ``mark`` has not reached."""
    levels = columns.levels
    if mark is None or levels is None or not ahead.any():
        return False
    last = int(ahead.nonzero()[0][-1])
    return bool(columns.times[last] > mark and levels[last] > 0)
