"""How often news of many types is sent, so that it costs a small share of a node's time, however many types there are."""

from __future__ import annotations

AT_ONCE = 64
"""News of so many types is never held back."""

EACH = 30_000
"""Nanoseconds between two rounds of news for each type above that: what a round takes of a node is some 5 us a type."""


def spacing(types: int) -> int:
    """The time between two rounds of news of so many types, ns.

    >>> spacing(10), spacing(564)
    (0, 15000000)
    """
    return EACH * max(0, types - AT_ONCE)
