"""Merging changes that arrived one after another into one delta, in which their order no longer matters."""

from __future__ import annotations

from collections.abc import Sequence

from middleware.change import Change, Delta, consolidate


def merged(deltas: Sequence[Delta]) -> Delta:
    """The net effect of deltas of one type, in the order in which they arrived. O(changes).

    Insertions alone are just strung together, since an identity is never inserted twice without a retraction.
    """
    if len(deltas) == 1:
        return deltas[0]
    if not any(delta.revises or delta.retracts for delta in deltas):
        inserts = [event for delta in deltas for event in delta.inserts]
        if all(delta.k_plus is None for delta in deltas):
            return Delta(inserts)
        return Delta(inserts, k_plus=[k for delta in deltas for k in delta.k_plus or [0] * len(delta.inserts)])
    changes: list[Change] = [change for delta in deltas for change in delta.changes()]
    return consolidate(changes)
