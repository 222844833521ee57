"""The order of arrival over several types, of what came in one step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from operator import itemgetter

from middleware.model.block.block import Block
from middleware.model.block.mixed_block import MixedBlock
from middleware.model.change import Delta, combined, early_at, early_of


def in_order(parts: list[Delta], min_rows_for_columns: int = 0) -> Delta:
    """Events of several types that came in one step, as one delta, in their order of arrival. O(n log n).

    Columns stay columns if all are, and at least ``min_rows_for_columns`` events: columns of a type cost by the step, not
    by the event, so few events may cost less as objects.

    Parts with an ``arrival_order`` keep it. The results of one step, of units here or at another node, came at once: each
    follows the events up to its time.
    """
    if len(parts) == 1:
        return parts[0]
    given = [part for part in parts if part.inserted]
    columns = [own for part in given if (own := part.columns) is not None]
    if len(columns) == len(given) > 1 and sum(map(len, columns)) >= min_rows_for_columns:
        return _columns_in_order(parts, given, columns)
    whole = combined(parts)
    if len(given) > 1:
        runs: list[Sequence[int]] = []
        placed: list[int] = []
        count = 0
        for part in parts:
            span = range(count, count := count + part.inserted)
            if part.arrival_order is None:
                runs.append(span)
            else:
                placed += span
        if placed and (order := whole.arrival_order) is not None:
            if not isinstance(order, list) and not runs:
                runs.append(order.argsort(kind="stable").tolist())  # in the time of a merge, as those of a part only grow
            else:
                numbers = order if isinstance(order, list) else order.tolist()
                runs.insert(0, sorted(placed, key=numbers.__getitem__))
        if len(runs) > 1:
            reached = [ts for run in runs for ts in accumulate((whole.inserts[at].ts for at in run), max)]
            came = sorted(zip(reached, chain.from_iterable(runs), strict=True), key=itemgetter(0))
            runs = [[at for _, at in came]]
        inserts = list(map(whole.inserts.__getitem__, runs[0]))
        return Delta(inserts, whole.revises, whole.retracts, early_at(whole.early, runs[0]))
    return whole


def _columns_in_order(parts: list[Delta], given: list[Delta], columns: list[Block]) -> Delta:
    """Put the columns of all parts in their order of arrival."""
    came = MixedBlock(columns, [part.arrival_order for part in given])
    revises = [pair for part in parts for pair in part.revises]
    retracts = [event for part in parts for event in part.retracts]
    early = early_of(given)
    if isinstance(early, list):  # else nobody asks for the order, which costs as much as the rest
        early = early_at(early, came.order)
    return Delta(came, revises, retracts, early)
