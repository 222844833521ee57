"""Kafka: partitions as sources, with offsets as ids, committed once stored; and a transactional sink."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cache
from operator import methodcaller
from typing import TYPE_CHECKING, Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from middleware.connect.source import Messages, SourceSpec
from middleware.link.codec import Mark
from middleware.model.change import Change, Retract, Watermark
from middleware.model.errors import SinkError, SourceError, UnreachableError
from middleware.model.event import ORDER, Event, type_name
from middleware.model.time import MILLISECOND
from middleware.runtime.records import as_record

if TYPE_CHECKING:
    from middleware.connect.avro import Avro

_ANSWERS_WITHIN = 10.0
_GONE_AFTER = 10_000
"""Milliseconds after which a member that was killed has left its group, so that others get its partitions."""

_MOST_AT_ONCE, _A_MOMENT = 10_000, 0.005
_NOT_MINE_ANY_MORE = {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS}
"""A commit comes too late: the partitions have gone to another member, which gets the messages again."""
_HOPELESS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError._AUTHENTICATION,
}
_ERROR, _TOPIC, _PARTITION, _OFFSET, _TIMESTAMP = map(methodcaller, ("error", "topic", "partition", "offset", "timestamp"))
_quiet = logging.getLogger("slackline.kafka")
_quiet.addHandler(logging.NullHandler())  # what the library logs, this module raises


class _Connection:
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
            raise UnreachableError(f"kafka://{self.servers}: {self._down}")

    def reach(self, consumer: Consumer) -> None:
        """Return once a broker has answered. Raises UnreachableError, KafkaException."""
        for left in range(round(_ANSWERS_WITHIN), 0, -1):
            try:
                consumer.list_topics(timeout=1)
                return
            except KafkaException:
                consumer.poll(0)  # what the library has to say, it says here
                self.check()
                if left == 1:
                    raise

    def judged(self, error: KafkaError | Exception, hopeless: Callable[[str], Exception]) -> Exception:
        """Whether another attempt may help."""
        code = error.code() if isinstance(error, KafkaError) else None
        text = f"kafka://{self.servers}: {error.str() if isinstance(error, KafkaError) else error}"
        return hopeless(text) if code is None or code in _HOPELESS else UnreachableError(text)


class KafkaSource:
    """Messages of topics, by a consumer group that is named as the input is.

    Of a message, ``kafka:NAME:TOPIC/PARTITION`` is the source, and its offset the id, so that a repeat is known; a topic that
    was deleted and made again needs an input with another name. Several processes may serve one input: each has partitions of
    its own. Messages of transactions come once those are committed.

    ``start``
        where a new group begins: earliest or latest.
    ``options``
        of librdkafka, with ``_`` for dots: security_protocol = "SASL_SSL".
    """

    def __init__(self, spec: SourceSpec, *, start: str = "earliest", **options: Any) -> None:
        self._source = cache(lambda topic, partition: f"kafka:{spec.name}:{topic}/{partition}")
        self._at_end: set[str] = set()
        self._connection = _Connection(spec.address, options)
        config = self._connection.config | {
            "group.id": f"slackline-{spec.name}",
            "enable.auto.commit": False,
            "auto.offset.reset": start,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
        try:
            self._consumer = Consumer(config)
        except (KafkaException, ValueError, TypeError) as error:
            raise SourceError(f"inputs.{spec.name}: {error}") from None
        try:
            self._connection.reach(self._consumer)
            self._consumer.subscribe(list(spec.topics))
        except BaseException as error:
            self._consumer.close()
            if isinstance(error, KafkaException):
                raise self._connection.judged(error.args[0], SourceError) from None
            raise

    def receive(self, timeout: float) -> Messages:
        """See Source."""
        try:
            came: list[Any] = self._consumer.consume(1, max(timeout, _A_MOMENT))
            if came:
                came += self._consumer.consume(_MOST_AT_ONCE, _A_MOMENT)  # what is here already; for so many it would wait
        except KafkaException as error:
            raise self._connection.judged(error.args[0], SourceError) from None
        if ends := any(failed is not None for failed in map(_ERROR, came)):
            came = self._without_ends(came)
        if not came:
            self._connection.check()
            return Messages()
        topics, partitions = list(map(_TOPIC, came)), list(map(_PARTITION, came))
        sources = list(map(self._source, topics, partitions))
        if not ends:
            self._at_end.difference_update(sources)
        return Messages(
            topics,
            [each.value() or b"" for each in came],
            sources,
            list(map(_OFFSET, came)),
            [at * MILLISECOND for _, at in map(_TIMESTAMP, came)],
            partitions,
        )

    def _without_ends(self, came: list[Any]) -> list[Any]:
        """The messages among these, and what is said of ends noted. Raises UnreachableError, SourceError."""
        found = []
        for each in came:
            source, failed = self._source(each.topic(), each.partition()), each.error()
            if failed is None:
                found.append(each)
                self._at_end.discard(source)
            elif failed.code() != KafkaError._PARTITION_EOF:
                raise self._connection.judged(failed, SourceError)
            else:
                self._at_end.add(source)
        return found

    def acknowledge(self, messages: Messages) -> None:
        """See Source."""
        last = dict(zip(zip(messages.topics, messages.handles, strict=True), messages.ids, strict=True))
        try:
            offsets = [TopicPartition(*where, offset + 1) for where, offset in last.items()]
            for each in self._consumer.commit(offsets=offsets, asynchronous=False) or ():
                if each.error is not None:
                    raise KafkaException(each.error)
        except KafkaException as error:
            if error.args[0].code() not in _NOT_MINE_ANY_MORE:
                raise self._connection.judged(error.args[0], SourceError) from None

    def behind(self) -> set[str]:
        """See Parted: the partitions of which it has not reached the end."""
        own = {self._source(each.topic, each.partition) for each in self._consumer.assignment()}
        self._at_end &= own  # one that was given away and comes back is read on from where the other was
        return own - self._at_end

    def close(self) -> None:
        """See Source."""
        self._consumer.close()


def _json(event: Event) -> bytes:
    return msgspec.json.encode(as_record(event))


class KafkaSink:
    """Events as JSON objects, or in Avro, each with its identity as the key: finals exactly once, by transactions.

    The mark goes into the same transaction, with the offset of the group ``slackline-out-NAME``; so readers must read committed
    messages only. Of early changes, a revision is the next message of its key, and a withdrawal a tombstone: in a compacted
    topic the last of each key is what stands. Of two sinks of one name, the first is shut out; so is one whose transaction took
    too long. It begins anew, from the mark.

    ``address``
        kafka://HOST:PORT[,HOST:PORT]/TOPIC, in which ``{type}`` stands for the event type.
    ``avro``
        what encodes events in place of JSON; keys are JSON all the same.
    ``options``
        of librdkafka, with ``_`` for dots.
    """

    def __init__(self, address: str, name: str = "finals", *, avro: Avro | None = None, **options: Any) -> None:
        self._encode = _json if avro is None else avro.encode
        self._connection = connection = _Connection(address, options)
        if not connection.topic:
            raise SinkError("kafka: an output names its topic: kafka://HOST:PORT/TOPIC, such as kafka://127.0.0.1:9092/{type}")
        self._place = f"{connection.topic.replace('{type}', 'finals')}"
        transactions = {"transactional.id": f"slackline-out-{name}", "linger.ms": 5}
        group = {"group.id": f"slackline-out-{name}", "enable.auto.commit": False, "isolation.level": "read_committed"}
        try:
            self._producer = Producer(connection.config | transactions)
            self._consumer = Consumer(connection.config | group)
        except (KafkaException, ValueError, TypeError) as error:
            raise SinkError(f"outputs.{name}: {error}") from None
        try:
            connection.reach(self._consumer)
            self._producer.init_transactions(_ANSWERS_WITHIN)  # ends what a former one has left open, and shuts it out
            self.mark = self._kept_mark()
        except BaseException as error:
            self.close()
            if isinstance(error, KafkaException):
                raise connection.judged(error.args[0], SinkError) from None
            raise

    def _kept_mark(self) -> Mark | None:
        (kept,) = self._consumer.committed([TopicPartition(self._place, 0)], timeout=_ANSWERS_WITHIN)
        if kept.error is not None:
            raise KafkaException(kept.error)
        return msgspec.json.decode(kept.metadata, type=Mark) if kept.metadata else None

    def take(self, events: Sequence[Event]) -> None:
        """See Sink."""
        mark = ORDER(events[-1])
        self._transact([(event, self._encode(event)) for event in events], mark)
        self.mark = mark

    def apply(self, changes: Sequence[Change]) -> None:
        """See ChangeSink."""
        there = [change for change in changes if not isinstance(change, Watermark)]
        self._transact(
            [(each.event, None if isinstance(each, Retract) else self._encode(each.event)) for each in there],
            None,
        )

    def _transact(self, records: Sequence[tuple[Event, bytes | None]], mark: Mark | None) -> None:
        producer = self._producer
        try:
            producer.begin_transaction()
            for event, value in records:
                self._produce(event, value)
            if mark is not None:
                told = TopicPartition(self._place, 0, 1, metadata=msgspec.json.encode(mark).decode())
                group = self._consumer.consumer_group_metadata()
                producer.send_offsets_to_transaction([told], group, _ANSWERS_WITHIN)
            producer.commit_transaction(3 * _ANSWERS_WITHIN)
        except KafkaException as error:  # made anew, it ends this transaction first
            raise self._connection.judged(error.args[0], SinkError) from None

    def _produce(self, event: Event, value: bytes | None) -> None:
        name = type_name(event.__class__)
        key = msgspec.json.encode((name, event.source, event.id))
        while True:
            try:
                self._producer.produce(self._connection.topic.replace("{type}", name), value, key)
                return
            except BufferError:  # it has as much as it holds: some must go out first
                self._producer.poll(0.1)
                self._connection.check()

    def close(self) -> None:
        """See Sink."""
        self._producer.purge()
        self._consumer.close()
