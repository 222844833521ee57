"""Inquiry: how a program outside a node learns what the node's streams wait for, and the node's vitals."""

from __future__ import annotations

import time
from collections.abc import Collection

import msgspec

from middleware.link.codec import Answer, Interest, Question, Release, decode_payload, encode
from middleware.link.frames import Parts
from middleware.model.errors import NetworkError
from middleware.model.time import SECOND
from middleware.model.values.first_use import prepare
from middleware.runtime.clients.connection import PATIENCE, Connection
from middleware.runtime.status import Status
from middleware.runtime.transport.keys import Keys

_WAIT = 0.05


class Inquiry(Connection):
    """Asks the node at ``address``. It subscribes to nothing, so it causes no backpressure."""

    logs_waiting = False  # the caller says for how long to wait, and gets an error without an answer

    def __init__(self, address: str, *, keys: Keys | None = None, node: str | None = None, patience: float = PATIENCE) -> None:
        self._number = 0
        self._answer: Answer | None = None
        super().__init__("subscriber", address, [encode(Interest(1))], name=None, keys=keys, node=node, patience=patience)

    @property
    def is_rejected(self) -> bool:
        """Whether the node does not take the key of this client, or that it has none: nothing changes by asking again."""
        return self._is_rejected

    def ask(self, timeout: float = PATIENCE) -> Status:
        """The causes for which its streams wait now, and its vitals. Raises NetworkError if no answer comes within ``timeout``
        seconds, or at once if the node rejects this client."""
        deadline = time.monotonic_ns() + round(timeout * SECOND)
        with self._lock:
            self._number += 1
            self._link.send([encode(Question(self._number))])
            while self._answer is None or self._answer.number != self._number:
                self._check_alive()
                if self._is_rejected:
                    raise NetworkError(self._rejection())
                if time.monotonic_ns() > deadline:
                    raise NetworkError(f"node at {self.address} has not answered within {timeout:g} s")
                self._pump(_WAIT)
            prepare(Status)  # several nodes may be asked at a time
            return msgspec.json.decode(self._answer.body, type=Status)

    def release(self, names: Collection[str]) -> None:
        """Have the node keep the positions of these named subscriptions no longer: names, or beginnings of names and a ``*``.

        It keeps subscriptions that are attached or belong to another key: ``ask`` then returns which are left.
        """
        with self._lock:
            self._link.send([encode(Release(list(names)))])

    def _take(self, parts: Parts) -> None:
        super()._take(parts)
        payload = decode_payload(parts)
        if type(payload) is Answer:
            self._answer = payload
