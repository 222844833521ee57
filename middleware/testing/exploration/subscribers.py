"""A reader under exploration: the link and the subscription that ship. It comes, leaves, and comes back."""

from __future__ import annotations

from collections.abc import Hashable

from middleware.delivery.subscription import Subscription
from middleware.link.codec import EventCodec
from middleware.link.frames import Parts, decode_frame, payload_size
from middleware.link.link import Link
from middleware.model.change import Insert, Retract
from middleware.testing.exploration.exploration_plan import SubscriberPlan
from middleware.testing.exploration.explored_nodes import RAW, TYPES, copied


class ExploredSubscriber:
    """One reader of the raw type. ``visits``: how often it has come. ``stands``: (source, id) of the events that it has got
    since it came, or since the last gap, and that were not withdrawn.
    """

    def __init__(self, plan: SubscriberPlan) -> None:
        self.plan, self.visits = plan, 0
        self.link: Link | None = None
        self.has_left = False
        self.stands: set[tuple[str, int]] = set()
        self._subscription = Subscription([RAW], EventCodec(TYPES))

    @property
    def is_attached(self) -> bool:
        """Whether it has come and has not left."""
        return self.link is not None and not self.has_left

    @property
    def can_come(self) -> bool:
        """Whether it may come now."""
        return not self.is_attached and self.visits < self.plan.visits

    @property
    def can_leave(self) -> bool:
        """Whether it may leave now: all nodes know it, and it is to come back."""
        return self.is_attached and self._subscription.ready and self.visits < self.plan.visits

    def come(self, now: int) -> None:
        """Come, for the first time or again."""
        greeting = self._subscription.restarted() if self.visits else self._subscription.greeting
        self.visits, self.has_left = self.visits + 1, False
        self.link = Link(self.plan.name, "subscriber", now + 1, now, dials=True, durable=True)
        self.link.greeting = greeting
        self.link.say_hello(now)

    def leave(self) -> None:
        """Leave."""
        assert self.link is not None
        self.link.bye("has read enough")

    def receive(self, parts: Parts, now: int) -> None:
        """Take a message from its node."""
        link = self.link
        assert link is not None
        restarts = link.restarts
        payload = link.receive(decode_frame(parts[0]), parts[1:], now)
        if restarts != link.restarts:
            link.greeting = self._subscription.restarted()
        if payload is not None:
            link.consume(payload_size(payload))
            self._subscription.receive(payload)
            self._read()

    def _read(self) -> None:
        while self._subscription.pending:
            arrived, _ = self._subscription.take()
            if self._subscription.interruptions:
                self._subscription.interruptions.clear()
                self.stands.clear()
            for change in self._subscription.changes(arrived):
                if isinstance(change, Insert):
                    self.stands.add((change.event.source, change.event.id))
                elif isinstance(change, Retract):
                    self.stands.discard((change.event.source, change.event.id))

    def step(self, now: int) -> list[tuple[Hashable, Parts]]:
        """Let time pass; returns what is to be sent to its node."""
        link = self.link
        assert link is not None
        link.tick(now)
        link.settle(now)
        sends: list[tuple[Hashable, Parts]] = [(self.plan.node, parts) for parts in link.outbox]
        link.outbox.clear()
        self.has_left = self.has_left or link.closed is not None
        return sends

    def copy(self) -> ExploredSubscriber:
        """A copy that shares nothing that changes."""
        return copied(self)
