"""A broker whose state outlives its process: it goes into checkpoints, and is restored from one and from the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xxhash

from middleware.broker.broker import Broker
from middleware.broker.effects import Closed
from middleware.broker.ingress.receipts import tally
from middleware.broker.log import Began, Behind, Detached, OnBehalf, PeerKey, Received, Record, Subscribed, TurnedAway, WentOn
from middleware.broker.peers import Peer
from middleware.broker.routing import wanted
from middleware.link.codec import Interest
from middleware.link.link import SILENCE
from middleware.model.change import Batch
from middleware.model.event import NEVER

MOST_REMEMBERED = 10_000
"""Most readers of one life that are remembered as having come before."""


class DurableBroker(Broker):
    """A broker with a log, which can go on where another life ended.

    ``outrun``
        the peer that has shown in this life that the log lacks what it once had. Only one is believed: otherwise a peer that
        lies could harm others again and again.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.outrun = ""
        self._here_before: set[PeerKey] = set()
        """Readers that have attached in this life."""

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds of the broker, at a step's end, as plain values."""
        ingress = self._ingress
        return {
            "seen": ingress.seen.state(),
            "changed": ingress.changed.state(),
            "books": self._tracker.state(),
            "copies": ingress.copies.since,
            "behind": self.sources.behind,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was taken; only a broker that was just made can."""
        self._ingress.seen.restore(state["seen"])
        self._ingress.changed.restore(state.get("changed", {}))
        self._tracker.restore(state["books"])
        self.sources.was_behind(state.get("behind", 0))
        if (since := state.get("copies")) is not None:
            self._recall(since)

    def _recall(self, offset: int) -> None:
        """Read the raw blocks after an offset of the log again, to know what came first. O(bytes)."""
        assert self.log is not None
        last, copies = self.log.offset, self._ingress.copies
        while offset < last:
            blocks, reached = self.log.blocks_after(offset)
            for number, _, head, block in blocks:
                if head.raw and number <= last:
                    copies.at = number - 1
                    copies.keep(head, block, head.runs)
            if reached <= offset:
                return
            offset = reached

    def replay(self, record: Record) -> Batch | None:
        """Replay a step: restores the state that it left, and returns the batch that the detectors were given, if any."""
        assert self.log is not None
        self._tracker.gather(self.log.gathers and bool(self._dialled))
        self._ingress.copies.at = record.first
        for entry in record.entries:
            if type(entry) is Received:
                self._take_again(entry)
            elif type(entry) is Subscribed and entry.peer[0] != "subscriber":
                if entry.peer[0] == "publisher":
                    self._tracker.hold(self._reopening.ended(entry.peer, entry.interest.raw), anew=False)
                self._offered(entry.peer, entry.interest)
            elif type(entry) is Detached:
                self._tracker.left(entry.peer)
            elif type(entry) is TurnedAway:
                for turned in entry.turned:
                    self._ingress.refused(turned)
            elif isinstance(entry, Began | WentOn):
                self._reopening.again(entry)
            elif type(entry) is Behind:
                self.sources.was_behind(entry.behind)
        self.log.passed(record)
        batch = None
        if record.stepped:
            taken = self._inbox.take(self._tracker.elsewhere, record.clock, (), self._reopening.due()) or Batch()
            batch = Batch(taken.deltas, taken.watermarks, record.clock, ground=taken.ground)
        for entry in record.entries:
            if type(entry) is OnBehalf:  # at the end of the step, as then
                self._admission.again(entry)
        tally(self._ingress, self.drops)
        return batch

    def _take_again(self, taken: Received) -> None:
        for head, block in zip(taken.changes.blocks, taken.blocks, strict=True):
            reads = head.type in self.subscriptions
            is_raw = taken.peer[0] == "publisher"
            for admitted in self._ingress.admit(head, block, reads) if is_raw else [(head, block, None)]:
                if reads:
                    self._inbox.put(*admitted)
        self._tracker.noted(taken.peer, taken.changes)

    def resumed(self, watermarks: dict[str, int], reached: int = NEVER) -> None:
        """All records have been replayed, and led to these promises of the local detectors: await the peers of the last life.

        ``reached``: the latest time that was final, or that an event has, in those of their streams that have ended.
        """
        self._tracker.promised_here(watermarks)
        self.sources.reached_before = self._tracker.clock if self._tracker.clock is not None else NEVER
        self._tracker.reached = max(reached, self._tracker.reached)
        here = self._tracker.here
        self._admission.offered({name for name in here.known if not here.is_derived(name)})  # of publishers that have left, too
        for gone in [key for key in self._tracker.durable if key[1] not in self._dialled]:
            self._tracker.durable.discard(gone)
            self._leave(gone)
            self._effects.closed.append(Closed("node", gone[1], "is not in the configuration any more", 0))
        self._lost |= dict.fromkeys(self._tracker.durable, self._now)
        self._missing -= {name for _, name in self._tracker.durable}
        self._tracker.gather(bool(self._missing))
        assert self.log is not None
        self.log.began = self.log.offset
        readers = {peer for peer, reader in self.log.readers.items() if not reader.named}
        for key in (self._tracker.origins() | readers) - self._tracker.durable:
            self._awaited[key] = self._now + SILENCE  # type: ignore[index]
            if key[0] == "node":  # type: ignore[index]
                self._lost[key] = self._now  # type: ignore[index]

    def lost_log(self, common: int) -> None:
        """What the log had after offset ``common`` is lost: it goes on under another identity, and readers get a gap.

        The gap is in all types that came in or were made here: some of what was acknowledged to publishers is gone.
        """
        assert self.log is not None
        self.drops["gap in the log"] += 1
        self.log.renewed(xxhash.xxh3_64_intdigest(b"%d %d" % (self.log.line, self._epoch)) >> 3 | 1, common)
        elsewhere = self._tracker.elsewhere
        raw = {name for name in {*self._types, *self._tracker.raw_here()} if not elsewhere.is_derived(name)}
        self._lack(("node", self.name), set(elsewhere.known), raw | self.publications)

    def _attached(self, peer: Peer, interest: Interest) -> bool:
        assert self.log is not None
        promises = self._tracker.everywhere
        final = max((promises.floor(name) for name in promises.known if wanted(peer.patterns, name)), default=NEVER)
        is_first = peer.key not in self._here_before and len(self._here_before) < MOST_REMEMBERED
        if is_first:
            self._here_before.add(peer.key)
        if not self.outrun and self.log.is_outrun(peer.key, interest, final, is_first):
            self.outrun = f"{peer.role} {peer.name}"
            self.lost_log(self.log.began)
        return super()._attached(peer, interest)

    def wait_longer(self, now: int) -> None:
        """This node cannot answer at the moment: the peers it awaits get their full time once it can."""
        self._awaited = dict.fromkeys(self._awaited, now + SILENCE)
        self._admission.sources.could_not_speak(now)
