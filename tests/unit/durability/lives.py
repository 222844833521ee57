"""Lives of one node with a log, without its sockets: a publisher and a subscriber with a name at its broker, a real store."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from middleware.broker.broker import Broker
from middleware.broker.effects import Effects
from middleware.broker.log.log import Log
from middleware.link.codec import BlockHead, Changes, Interest, decode_payload, encode
from middleware.link.encoding import encode_delta
from middleware.link.frames import decode_frame
from middleware.link.link import Link
from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.event import Event, EventTypes
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from middleware.runtime.loop.durable_runner import DurableRunner
from middleware.runtime.storage.store import Retention, Store

POLICIES = Policies(alpha=0.0, lateness=Lateness(1, 3))


class Life:
    """From a start, or a refusal to start, to a crash: ``kill`` lets go of the folder and leaves nothing behind.

    ``wants``: what the subscriber reads; ``raw``: what the publisher may send.
    """

    def __init__(
        self,
        folder: Path,
        types: EventTypes,
        detectors: Mapping[str, Detector] | None,
        *,
        wants: list[str],
        raw: list[str],
        rebuild: bool = False,
        retention: Retention | None = None,
        policies: Mapping[str, Policies] | Policies = POLICIES,
        settings: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.store = Store(folder, "n", retention)
        try:
            self.hierarchy = Hierarchy(detectors, policies=policies, settings=settings or {}) if detectors is not None else None
            reads, makes = (self.hierarchy.subscriptions, self.hierarchy.publications) if self.hierarchy else ((), ())
            log = Log(self.store.line, self.store.read)
            self.broker = Broker("n", self.store.epoch, 0, types=types, subscriptions=reads, publications=makes, log=log)
            self.runner = DurableRunner(self.broker, self.hierarchy, types, self.store, rebuild)
        except BaseException:
            self.store.close()
            raise
        self.sent: list[tuple[BlockHead, bytes]] = []
        self.now = 0
        names, epoch = ("publisher", "subscriber"), self.store.epoch
        self.links = {name: Link(name, name, epoch, 0, dials=True, durable=True) for name in names}
        self.links["publisher"].greeting = [encode(Interest(1, raw=raw))]
        self.links["subscriber"].greeting = [encode(Interest(1, wants, resumes=True))]
        for link in self.links.values():
            link.say_hello(0)
        for _ in range(3):
            self.step()

    def step(self) -> None:
        """The messages sent arrive, the detectors run, and all is stored and then sent on."""
        self.now += 1
        for link in self.links.values():
            for message in link.outbox:
                self.broker.receive(link.name, message, self.now)
            link.outbox.clear()
        batch = self.broker.take(self.now)
        for result in self.hierarchy.process(batch) if batch is not None and self.hierarchy is not None else ():
            self.broker.publish(result, self.now)
        self._carry_out(self.runner.settle(self.now))
        deadline = time.monotonic() + 20
        while not self.store.idle:
            assert time.monotonic() < deadline
            self._carry_out(self.runner.settle(self.now))
            time.sleep(0.001)

    def _carry_out(self, released: list[Effects]) -> None:
        for channel, parts in [send for effects in released for send in effects.sends]:
            payload = self.links[str(channel)].receive(decode_frame(parts[0]), parts[1:], self.now)
            changes = decode_payload(payload) if payload else None
            if channel == "subscriber" and payload and isinstance(changes, Changes):
                self.sent += zip(changes.blocks, payload[1:], strict=True)

    def feed(self, *events: Event) -> None:
        """The publisher sends these, one by one."""
        for event in events:
            self.feed_block(*encode_delta(type(event).__name__, Delta([event]), raw=True)[0], event.ts)

    def feed_block(self, head: BlockHead, block: bytes, clock: int) -> None:
        self.links["publisher"].send([encode(Changes(clock, None, [head])), block])
        self.step()

    def kill(self) -> None:
        """The process is gone; the system lets go of the lock."""
        self.store.close()
