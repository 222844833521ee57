"""The Interests of this node on their way to another one: which of what that one sends is sent whole."""

from __future__ import annotations

from collections import deque

from middleware.broker.routing import is_subscribed
from middleware.link.codec import Interest

MOST_INTERESTS = 100
"""Interests with other subscriptions that may be under way to a node; it is sent the next one once it has taken some."""


class InterestWindow:
    """The Interests that a node has been sent. It answers each with ``Ready``, in the order in which it sends changes.

    A node sends only types that others subscribe to. A type with a new subscription comes whole from the ``Ready`` to that
    Interest on. Earlier changes may have been withdrawn while nobody subscribed, and their withdrawals never come: so this node
    does not take them.

    ``taken``: number of the last Interest that the node has answered.
    """

    def __init__(self) -> None:
        self.taken = 0
        self._sent: deque[tuple[int, frozenset[str]]] = deque()
        """Number and patterns of the Interest by which the node sends, then of those that it has yet to take."""

    def sent(self, interest: Interest) -> None:
        """The node is sent this Interest."""
        patterns = frozenset(interest.subscriptions)
        if not self._sent or self._sent[-1][1] != patterns:
            self._sent.append((interest.number, patterns))

    def answered(self, number: int) -> None:
        """The node sends by the Interest of this number from here on."""
        self.taken = max(number, self.taken)
        while len(self._sent) > 1 and self._sent[1][0] <= number:
            self._sent.popleft()

    def comes_whole(self, name: str) -> bool:
        """Whether all later changes of a type will come, too: each Interest since the one that the node sends by names it."""
        return len(self._sent) <= 1 or all(is_subscribed(patterns, name) for _, patterns in self._sent)

    @property
    def is_full(self) -> bool:
        """Whether no further Interest is to be sent before the node has taken some."""
        return len(self._sent) > MOST_INTERESTS
