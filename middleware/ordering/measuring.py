"""How arrivals move a unit's clock, and which delays they show (DEBS'13, section 4.1)."""

from __future__ import annotations

from functools import partial
from itertools import repeat, takewhile
from operator import is_not

from middleware.model.change import Delta
from middleware.model.event import END, Event
from middleware.ordering.buffer import count_until
from middleware.ordering.kslack import LocalClock


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
