"""A publisher under exploration: the link and the publication that ship, and a list of acts."""

from __future__ import annotations

from collections.abc import Hashable

from middleware.delivery.publication import Publication
from middleware.link.frames import Parts, decode_frame, payload_size
from middleware.link.link import Link
from middleware.model.event import END, NEVER
from middleware.testing.exploration.exploration_plan import Act, PublisherPlan
from middleware.testing.exploration.explored_nodes import RAW, Raw, copied


class ExploredPublisher:
    """One publisher.

    ``done``: how many acts it has done. ``promised``: its last promise. ``acknowledged``: the last promise that its node has
    acknowledged, or None. ``admitted``: what its node had called final by the first acknowledged promise: newer events must
    be taken. ``sent``: (time, owed) of its events by number; its node may reject an event that is not later than ``owed``.
    ``withdrawn``: the numbers of those that it has withdrawn.
    """

    def __init__(self, plan: PublisherPlan) -> None:
        self.plan, self.done = plan, 0
        self.link: Link | None = None
        self.promised = self.admitted = NEVER
        self.acknowledged: int | None = None
        self.has_left = False
        self.sent: dict[int, tuple[int, int | None]] = {}
        self.withdrawn: set[int] = set()
        self._publication = Publication([Raw])

    @property
    def next(self) -> Act | None:
        """Its next act; None if it has done all."""
        return self.plan.acts[self.done] if self.done < len(self.plan.acts) else None

    @property
    def is_attached(self) -> bool:
        """Whether it has come and has not left."""
        return self.link is not None and not self.has_left

    @property
    def can_act(self) -> bool:
        """Whether it may do its next act now. It waits for credit; to flush or to leave, it waits for all acknowledgements."""
        if self.link is None or self.next is None or not self.link.has_room:
            return False
        return self.link.idle or self.next.kind not in ("flush", "leave")

    def attach(self, now: int) -> None:
        """Come, and offer the raw type."""
        self.link = Link(self.plan.name, "publisher", now + 1, now, dials=True, durable=True)
        self.link.greeting = self._publication.greeting
        self.link.say_hello(now)

    def act(self) -> None:
        """Do the next act."""
        act, link = self.next, self.link
        assert act is not None
        assert link is not None
        self.done += 1
        match act.kind:
            case "promise" | "end":
                self.promised = END if act.kind == "end" else act.at
                link.send(self._publication.promise(RAW, self.promised))
            case "event":
                owed = None if self.acknowledged is None else max(self.acknowledged, self.admitted)
                self.sent[self.done] = act.at, owed
                (frame,) = self._publication.frames([Raw(act.at, ts=act.at, id=self.done, source=self.plan.name)])
                link.send(self._publication.payload_of(frame))
            case "retract":
                (number,) = (number for number, (at, _) in self.sent.items() if at == act.at)
                self.withdrawn.add(number)
                event = Raw(act.at, ts=act.at, id=number, source=self.plan.name)
                link.send(self._publication.payload_of(self._publication.retraction(event)))
            case "leave":
                link.bye("has sent all")

    def receive(self, parts: Parts, now: int) -> None:
        """Take a message from its node."""
        assert self.link is not None
        restarts = self.link.restarts
        payload = self.link.receive(decode_frame(parts[0]), parts[1:], now)
        if payload is not None:
            self.link.consume(payload_size(payload))
        if restarts != self.link.restarts:
            self.link.greeting = self._publication.greeting
            if (again := self._publication.restarted()) is not None:
                self.link.send(again)

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

    def settled(self, floor: int) -> None:
        """Note what its node has acknowledged; ``floor``: nothing as old may come in there any more."""
        if self.link is not None and self.link.idle and self.promised != NEVER:
            if self.acknowledged is None:
                self.admitted = floor
            self.acknowledged = self.promised

    def copy(self) -> ExploredPublisher:
        """A copy that shares nothing that changes."""
        return copied(self)
