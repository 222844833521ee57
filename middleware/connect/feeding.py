"""From a source to a node: messages are acknowledged once the node has stored their events, or a ledger why they are none."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from middleware.broker.ingress.receipts import LISTED
from middleware.connect.reading import Reader, Unread
from middleware.connect.source import Message, Source
from middleware.model.errors import SourceError
from middleware.model.event import Event
from middleware.runtime.clients import Publisher
from middleware.runtime.storage.late_ledger import Ledger

MOST_HELD = 20_000
"""Messages that are published and not acknowledged yet, at most."""

LONGEST_HELD = 0.2
"""Seconds after which messages are acknowledged though others go on coming."""

_WAIT = 0.25
_log = structlog.get_logger()


class Feed:
    """Feeds a node from one source after another: each serves until its server is lost.

    ``taken``, ``unread``: messages acknowledged so far as events, and as none; a repeat counts again.
    ``is_over``: asked often; once it says True, what is held is acknowledged, and ``run`` returns.
    """

    def __init__(self, publisher: Publisher, reader: Reader, ledger: Ledger, is_over: Callable[[], bool]) -> None:
        self.taken = self.unread = 0
        self._publisher, self._reader, self._ledger, self._is_over = publisher, reader, ledger, is_over

    def run(self, source: Source) -> None:
        """Feed until it is over. Raises UnreachableError, SourceError, NetworkError: what is held then comes again."""
        held: list[Message] = []
        events: list[Event] = []
        unread: list[Unread] = []
        began = 0.0
        while True:
            messages = () if self._is_over() else source.receive(0.0 if held else _WAIT)
            if messages:
                began = began if held else time.monotonic()
                read, others = self._reader.read(messages)
                self._publisher.publish(read)
                held += messages
                events += read
                unread += others
            if held and (not messages or len(held) >= MOST_HELD or time.monotonic() - began > LONGEST_HELD):
                self._store(events, unread)
                source.acknowledge(held)
                self.taken += len(events)
                self.unread += len(unread)
                held, events, unread = [], [], []
            if not messages and self._is_over():
                return

    def _store(self, events: list[Event], unread: list[Unread]) -> None:
        """Returns once the node has all events that were published, and the ledger why the others are none."""
        while (receipt := self._publisher.flush()).unknown:  # the node was lost before it could say: a repeat does no harm
            self._publisher.publish(events)
        if refused := {why: count for why, count in receipt.turned.items() if why not in LISTED}:
            told = ", ".join(f"{count:,} x {why}" for why, count in refused.items())
            raise SourceError(f"the node at {self._publisher.address} refuses what comes: {told}; nothing is acknowledged")
        for message, event_type, why in unread:
            self._ledger.list_unread(event_type or message.topic, message.source, message.id, message.at, message.body, why)
        if unread:
            _log.warning(
                "messages that are no events are listed", input=self._ledger.node, count=len(unread), why=unread[0].reason
            )
        while not self._ledger.commit():
            if self._is_over():
                raise SourceError("the late ledger cannot be written; what it was to list is not acknowledged")
            time.sleep(_WAIT)
