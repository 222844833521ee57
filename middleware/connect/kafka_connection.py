"""A connection to Kafka: how it is made, whether another attempt may help if it fails, and what stands for what is gone."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException

from middleware.connect.messages.source import MissingMessage
from middleware.model.errors import UnreachableError
from middleware.model.time import MILLISECOND
from middleware.model.words import redacted

ANSWERS_WITHIN = 10.0
"""Seconds."""

_GONE_AFTER = 10_000
"""Milliseconds after which a member that was killed has left its group, so that others get its partitions."""

_HOPELESS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError._AUTHENTICATION,
}
_quiet = logging.getLogger("slackline.kafka")
_quiet.addHandler(logging.NullHandler())  # what the library logs, this module raises


class KafkaConnection:
    """Where the brokers are, and whether all of them are lost."""

    def __init__(self, address: str, options: dict[str, Any]) -> None:
        self.servers, _, self.topic = address.partition("://")[2].partition("/")
        self._down: str | None = None
        self.config = {
            "session.timeout.ms": _GONE_AFTER,
            **{key.replace("_", "."): value for key, value in options.items()},
            "bootstrap.servers": self.servers,
            "error_cb": self._on_error,
            "logger": _quiet,
        }

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN or error.fatal():
            self._down = error.str()

    def check(self) -> None:
        """Raise UnreachableError if no broker answers any more."""
        if self._down is not None:
            raise UnreachableError(redacted(f"kafka://{self.servers}: {self._down}"))

    def reach(self, consumer: Consumer) -> None:
        """Return once a broker has answered. Raises UnreachableError, KafkaException."""
        for left in range(round(ANSWERS_WITHIN), 0, -1):
            try:
                consumer.list_topics(timeout=1)
                return
            except KafkaException:
                consumer.poll(0)  # the library's callbacks run here
                self.check()
                if left == 1:
                    raise

    def judged(self, error: KafkaError | Exception, hopeless: Callable[[str], Exception]) -> Exception:
        """Whether another attempt may help."""
        code = error.code() if isinstance(error, KafkaError) else None
        text = redacted(f"kafka://{self.servers}: {error.str() if isinstance(error, KafkaError) else error}")
        return hopeless(text) if code is None or code in _HOPELESS else UnreachableError(text)


class OffsetGap(NamedTuple):
    """Messages that are gone, in place of the last of them."""

    of: str
    part: int
    start: int
    stop: int

    def topic(self) -> str:
        return self.of

    def partition(self) -> int:
        return self.part

    def offset(self) -> int:
        return self.stop - 1

    def timestamp(self) -> tuple[int, int]:
        return 0, time.time_ns() // MILLISECOND

    def value(self) -> bytes:
        reason = f"the broker has deleted {self.of}/{self.part} from offset {self.start} to {self.stop - 1} before it was read"
        return MissingMessage(reason.encode())
