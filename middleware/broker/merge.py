"""Merging changes that arrived one after another into one delta, in which their order no longer matters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from middleware.model.change import Delta, composed


def merged(deltas: Sequence[Delta]) -> Delta:
    """The net effect of deltas of one type, in the order in which they arrived. O(changes)."""
    return composed(deltas)


def retractions_first(deltas: Mapping[str, Delta]) -> Iterator[tuple[str, Delta]]:
    """Changes by type in an order in which they may be taken one by one: all retractions before all else.

    An identity that changes its type is retracted under the old type and inserted under the new one, and a reader of both
    may get them in two batches: insertion first would look like a duplicate.
    """
    mixed = len(deltas) > 1 and any(delta.retracts for delta in deltas.values())
    if mixed:
        yield from ((name, Delta(retracts=delta.retracts)) for name, delta in deltas.items() if delta.retracts)
    for name, delta in deltas.items():
        yield name, Delta(delta.new, delta.revises, early=delta.early) if mixed else delta
