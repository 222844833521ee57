"""The rule: what came at once comes when the others have got as far in time; a survey finds what is late in that order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from middleware.model.block.block import Block
from middleware.model.event import END
from middleware.ordering.slack.measuring import Survey

if TYPE_CHECKING:
    from middleware.model.block.arrays import Array, ArrivalOrder


def survey(times: list[int], top: int, clk: int) -> Survey:
    """Look at times, of which ``top`` was the latest before and ``clk`` is the clock. O(n)."""
    newest, first = top, None
    behind: list[int] = []
    passed: list[int] = []
    after: list[int] = []
    for ts in times:
        if ts > newest:
            newest, after = ts, []
            if ts < clk:
                passed.append(ts)
            elif ts > clk and first is None:
                first = ts
        else:
            behind.append(ts)
            after.append(ts)
    return Survey(newest, min(times, default=END), first, behind + passed, after)


def clock_moves(
    times: list[int], less: list[int], ticks: list[bool], clk: int
) -> tuple[tuple[int, int] | None, list[int], list[int]]:
    """How events move a clock: from the first to the last time; all that it measures; and what came behind its last move."""
    moving = [(ts, place) for place, (ts, may_move) in enumerate(zip(times, ticks, strict=True)) if may_move and ts > clk]
    if not moving:
        return None, less, []
    last, place = max(moving)
    return (min(moving)[0], last), less, less[place + 1 :]


def order_of_arrival(pieces: Sequence[Block], places: Sequence[ArrivalOrder | None]) -> Array:
    """For each event, in order of arrival, its place among those of all pieces laid end to end. O(n log n)."""
    ends = np.cumsum([0, *map(len, pieces)])
    owns = [np.arange(start, end) for start, end in pairwise(ends.tolist())]
    runs = [own for own, known in zip(owns, places, strict=True) if known is None]
    placed = [(own, np.asarray(known, np.int64)) for own, known in zip(owns, places, strict=True) if known is not None]
    if placed:
        came = np.concatenate([known for _, known in placed]).argsort(kind="stable")
        runs.insert(0, np.concatenate([own for own, _ in placed])[came])
    order: Array = np.concatenate([np.empty(0, np.int64), *runs])
    if len(runs) > 1:
        times = np.concatenate([piece.times for piece in pieces])
        reached = np.concatenate([np.maximum.accumulate(times[run]) for run in runs])
        order = order[reached.argsort(kind="stable")]
    return order
