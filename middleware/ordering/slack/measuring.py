"""How arrivals move a unit's clock, and which delays they show (DEBS'13, section 4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

import msgspec

from middleware import native
from middleware.model.block.mixed_block import AnyBlock
from middleware.model.change import Delta
from middleware.model.event import END, NEVER, Event
from middleware.ordering.slack.kslack import LocalClock

if TYPE_CHECKING:
    from middleware.model.block.arrays import Array

_LEAST = -(2**63)

Less: TypeAlias = "list[int] | Array"
"""Times, each less the K+ of its event: a list for rows, an array for columns."""


class Survey(msgspec.Struct):
    """The survey of the times of a batch.

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


def survey(arrived: AnyBlock | list[Event], top: int, clk: int, only_earliest: bool = False) -> Survey:
    """Look at the times of columns or events; ``top`` was the latest before them, and ``clk`` is the clock. O(n), in the core.

    ``only_earliest``: ``delayed`` and ``after`` may hold their earliest only (see ``SlackPolicy``).
    """
    if type(arrived) is list:
        return Survey(*native.survey_events(arrived, top, clk, only_earliest))
    return Survey(*arrived.in_core.survey(top, clk, only_earliest))  # type: ignore[union-attr]


def measure(
    clock: LocalClock,
    ticking: frozenset[type[Event]] | None,
    arrived: list[Event] | AnyBlock,
    seen: Survey,
    less: Less | None,
    mark: int | None,
    hold: bool,
    top: int,
) -> None:
    """Measure the delays of what arrived, and move the clock (Algorithm 1, lines 1-8).

    ``ticking``: see ``Timeline``. ``seen``: the survey of ``arrived``. ``less``: see ``less_k_plus``. ``mark``: the clock mark
    of the node. ``hold``: see ``LocalClock.tick``. ``top``: the latest time before. O(n); in the core, where no event has a K+
    and all types move the clock, which is the usual case.
    """
    is_beyond = mark is not None and seen.newest > mark
    if less is not None or ticking is not None or (is_beyond and _is_foretold(arrived, seen, top)):
        _measure_singly(clock, ticking, arrived, less, END if mark is None else mark, hold)
        return
    clock.arrive(seen.delayed, arrived)
    if seen.first is None:
        clock.pend(seen.delayed)
        return
    clock.tick(seen.first, seen.newest, hold)
    if seen.after:  # these came behind the tick in their batch: the clock measures them now, not at its next move
        clock.arrive(seen.after, ())


def less_k_plus(delta: Delta, arrived: list[Event] | AnyBlock) -> Less | None:
    """The times of what arrived, which is all that is new in a delta that is early, each less its K+. O(n)."""
    if isinstance(arrived, list):
        k_plus = delta.k_plus
        return None if k_plus is None else _less([event.ts for event in arrived], k_plus)
    import numpy as np

    times = arrived.times
    if isinstance(delta.early, int):
        less: Array = np.minimum(times, min(max(delta.early, _LEAST), END))
        return less
    return None if (k_plus := delta.k_plus) is None else np.array(_less(times.tolist(), k_plus), np.int64)


def _less(times: list[int], k_plus: list[int]) -> list[int]:
    """Times less K+, within what 64 bits hold: a peer may send any K+."""
    return [min(max(ts - early, _LEAST), END) for ts, early in zip(times, k_plus, strict=True)]


def _measure_singly(
    clock: LocalClock,
    ticking: frozenset[type[Event]] | None,
    arrived: list[Event] | AnyBlock,
    less: Less | None,
    limit: int,
    hold: bool,
) -> None:
    """See ``measure``; ``limit``: the clock mark. A result beyond it does not move the clock: it tells of a time to come.

    Such a result is that of a window which is still open: nothing has happened at its time yet.
    """
    times: list[int] | Array
    ticks: list[bool] | Array
    if isinstance(arrived, list):
        times = [event.ts for event in arrived]
        ticks = [
            (ticking is None or event.__class__ in ticking) and (event.ts <= limit or event.level == 0) for event in arrived
        ]
    else:
        times, levels = arrived.times, arrived.levels
        may_tick = arrived.of_types(ticking) if ticking is not None else times > NEVER
        if levels is not None and arrived.newest > limit:
            may_tick &= (times <= limit) | (levels == 0)
        ticks = may_tick.astype("int64")
    moved, delayed, after = native.clock_moves(
        times, times if less is None else less, ticks, clock.clk, clock.policy.only_earliest
    )
    clock.arrive(delayed, arrived)
    if moved is None:
        clock.pend(delayed)
    else:
        clock.tick(*moved, hold)
        clock.arrive(after, ())


def _is_foretold(arrived: list[Event] | AnyBlock, seen: Survey, top: int) -> bool:
    """Whether the latest event, which lies beyond the clock mark, is a result, and later than ``top``."""
    if seen.newest <= top:
        return False
    if type(arrived) is list:
        return next(event.level for event in arrived if event.ts == seen.newest) > 0
    columns = cast(AnyBlock, arrived)
    return (levels := columns.levels) is not None and bool(levels[int(columns.times.argmax())] > 0)
