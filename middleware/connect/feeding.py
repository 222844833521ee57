"""From a source to a node: messages are acknowledged once the node has stored their events, or a ledger why they are none."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from middleware.broker.ingress.receipts import REPORTED
from middleware.broker.ingress.sources import SourcePolicy
from middleware.connect.messages.message_blocks import Blocks
from middleware.connect.messages.reading import EventReader, UnreadableMessage
from middleware.connect.messages.source import Messages, PartitionedSource, Source
from middleware.model.errors import SourceError
from middleware.model.event import NEVER
from middleware.model.words import counted
from middleware.runtime.clients import Publisher
from middleware.runtime.storage.late_ledger import Ledger

MOST_UNACKNOWLEDGED = 20_000
"""Messages that are published and not acknowledged yet, at most."""

LONGEST_UNACKNOWLEDGED = 0.2
"""Seconds after which messages are acknowledged though others keep coming."""

_WAIT = 0.25
_log = structlog.get_logger()


class Feed:
    """Feeds a node from one source after another: each serves until its server is lost.

    ``taken``, ``unread``: messages acknowledged so far as events, and as none; a repeat counts again.
    ``is_over``: asked often; once it says True, all that was received is acknowledged, and ``run`` returns.
    ``disorder``: by how much (ns) what is older may come after what is newer, in one part of a source: then watermarks follow
    the slowest part of which more is there to be read, and one that is ahead of it makes nothing late.
    """

    def __init__(
        self,
        publisher: Publisher,
        reader: EventReader,
        ledger: Ledger,
        is_over: Callable[[], bool],
        disorder: int | None = None,
    ) -> None:
        self.taken = self.unread = 0
        self._publisher, self._reader, self._ledger, self._is_over = publisher, reader, ledger, is_over
        self._disorder, self._promised = disorder, NEVER
        self._reached: dict[str, int] = {}

    def begin(self) -> None:
        """With ``disorder``: promise next to nothing, once. Where nothing is promised, the clock alone decides."""
        if self._disorder is not None and self._promised == NEVER:
            self._promised = NEVER + 1
            self._publisher.advance(self._reader.types, self._promised)

    def run(self, source: Source) -> None:
        """Feed until it is over. Raises UnreachableError, SourceError, NetworkError: what was not acknowledged comes again."""
        unacknowledged: list[Messages] = []
        coming: dict[str, int] = {}  # the times that parts reach with these messages
        count = 0
        sent: list[Blocks] = []
        unread: list[UnreadableMessage] = []
        began = 0.0
        self.begin()
        while True:
            messages = Messages() if self._is_over() else source.receive(0.0 if unacknowledged else _WAIT)
            if messages:
                began = began if unacknowledged else time.monotonic()
                blocks, others = self._reader.blocks(messages, None if self._disorder is None else coming)
                self._publish(blocks)
                unacknowledged.append(messages)
                count += len(messages)
                sent += blocks
                unread += others
            is_due = count >= MOST_UNACKNOWLEDGED or time.monotonic() - began > LONGEST_UNACKNOWLEDGED
            if unacknowledged and (not messages or is_due):
                self._store(sent, unread)
                self._note(coming)
                source.acknowledge(Messages.joined(unacknowledged))
                self.taken += sum(head.count for blocks in sent for head, _ in blocks)
                self.unread += len(unread)
                unacknowledged, sent, unread, coming, count = [], [], [], {}, 0
            if not unacknowledged:
                self._promise(source)
            if not messages and self._is_over():
                return

    def _note(self, coming: dict[str, int]) -> None:
        """Note what parts have reached. A wrong clock that is far ahead is rejected by the node, and moves no promise."""
        latest = time.time_ns() + SourcePolicy().ahead
        for part, ts in coming.items():
            if ts <= latest:
                self._reached[part] = max(ts, self._reached.get(part, NEVER))

    def _promise(self, source: Source) -> None:
        """Promise what parts that are still read have reached; those that are read to their end hold nothing back."""
        if self._disorder is None or not self._reached:
            return
        behind = source.behind() if isinstance(source, PartitionedSource) else ()
        reached = min((self._reached.get(part, NEVER) for part in behind), default=max(self._reached.values()))
        if reached == NEVER:
            return
        # A promise includes its own time, and a message that is exactly ``disorder`` behind may still come.
        promise = reached - self._disorder - 1
        if promise > self._promised:
            self._promised = promise
            self._publisher.advance(self._reader.types, promise)

    def _publish(self, frames: list[Blocks]) -> None:
        for blocks in frames:
            self._publisher.publish_blocks(blocks)

    def _store(self, sent: list[Blocks], unread: list[UnreadableMessage]) -> None:
        """Returns once the node has all events that were sent, and the ledger why the others are none."""
        while (receipt := self._publisher.flush()).unknown:  # the node was lost before it could say: a repeat does no harm
            self._publish(sent)
        if refused := {why: count for why, count in receipt.rejected.items() if why not in REPORTED}:
            raise SourceError(
                f"the node at {self._publisher.address} refuses what comes: {counted(refused)}; nothing is acknowledged"
            )
        for message, event_type, why in unread:
            name, body = event_type or message.topic, bytes(message.body)  # it may be Gone
            self._ledger.report_unread(name, message.source, message.id, message.at, body, why)
        if unread:
            _log.warning(
                "messages that are no events are listed", input=self._ledger.node, count=len(unread), why=unread[0].reason
            )
        while not self._ledger.commit():
            if self._is_over():
                raise SourceError("the late ledger cannot be written; what it was to list is not acknowledged")
            time.sleep(_WAIT)
