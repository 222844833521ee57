"""Kafka: partitions as sources, with offsets as ids, committed once stored; and a transactional sink."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cache
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition, Uuid
from confluent_kafka.admin import AdminClient

from middleware.connect.kafka_connection import ANSWERS_WITHIN, KafkaConnection, OffsetGap
from middleware.connect.messages.source import Messages, SourceSpec
from middleware.link.codec import SinkPosition
from middleware.model.change import Change, Retract, Watermark
from middleware.model.errors import SinkError, SourceError, UnreachableError
from middleware.model.event import ORDER, Event, type_name
from middleware.model.time import MILLISECOND
from middleware.runtime.json_records import as_record

if TYPE_CHECKING:
    from middleware.connect.messages.avro import Avro

_MOST_AT_ONCE, _A_MOMENT = 10_000, 0.005
_NOT_MINE_ANY_MORE = {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS}
"""A commit comes too late: the partitions have gone to another member, which gets the messages again."""
_ERROR, _TOPIC, _PARTITION, _OFFSET, _TIMESTAMP = map(methodcaller, ("error", "topic", "partition", "offset", "timestamp"))
_NO_ID = (str(Uuid(0, 0)), "None")
_log = structlog.get_logger()


class KafkaSource:
    """Messages of topics, by a consumer group that is named as the input is.

    ``kafka:NAME:TOPIC@ID/PARTITION`` is the source of a message, and its offset the id, so that a repeat is known. ID is the
    broker's for the topic: one that was deleted and made again begins at offset 0 again, with other messages. Several processes
    may serve one input: each has partitions of its own. Messages of transactions come once those are committed.

    Messages that the broker has deleted before they were read are listed in the late ledger, one entry for each gap; if it has
    lost messages after they were read (it has fewer than before), that is a SourceError.

    ``start``
        where a new group begins: earliest or latest. New partitions of a topic that the group knows are read from their
        beginning.
    ``options``
        of librdkafka, with ``_`` for dots: security_protocol = "SASL_SSL".
    """

    def __init__(self, spec: SourceSpec, *, start: Literal["earliest", "latest"] = "earliest", **options: Any) -> None:
        self._name, self._start = spec.name, start
        self._topic_ids: dict[str, str] = {}
        self._source = cache(lambda topic, partition: f"kafka:{spec.name}:{topic}{self._topic_ids.get(topic, '')}/{partition}")
        self._at_end: set[str] = set()
        self._stopped: set[tuple[str, int]] = set()
        self._is_over = False
        self._connection = KafkaConnection(spec.address, options)
        config = self._connection.config | {
            "group.id": f"slackline-{spec.name}",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",  # what is gone must not be skipped unheard
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
        try:
            self._admin = AdminClient(self._connection.config)
            self._consumer = Consumer(config)
        except (KafkaException, ValueError, TypeError) as error:
            raise SourceError(f"inputs.{spec.name}: {error}") from None
        try:
            self._connection.reach(self._consumer)
            self._consumer.subscribe(list(spec.topics), on_assign=self._on_assign)
        except BaseException as error:
            self._consumer.close()
            if isinstance(error, KafkaException):
                raise self._connection.judged(error.args[0], SourceError) from None
            raise

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Note which topics these are, and commit where those begin that the group does not know. Raises KafkaException."""
        names = {each.topic for each in partitions}
        self._topic_ids.update(self._ids(names))
        self._source.cache_clear()
        begun = []
        for topic in names:
            there = consumer.list_topics(topic, timeout=ANSWERS_WITHIN).topics[topic].partitions
            offsets = consumer.committed([TopicPartition(topic, each) for each in there], timeout=ANSWERS_WITHIN)
            at_end = self._start == "latest" and all(each.offset < 0 for each in offsets)
            own = there if at_end else [each.partition for each in partitions if each.topic == topic]
            for each in offsets:
                if each.offset < 0 and each.partition in own:
                    ends = consumer.get_watermark_offsets(each, timeout=ANSWERS_WITHIN)
                    begun.append(TopicPartition(topic, each.partition, ends[at_end]))
        if begun:
            _log.info("begins", input=self._name, at={self._source(each.topic, each.partition): each.offset for each in begun})
            consumer.commit(offsets=begun, asynchronous=False)

    def _ids(self, topics: Collection[str]) -> dict[str, str]:
        """The identities of topics, as a source has them; of those only that the broker has one for."""
        found = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=ANSWERS_WITHIN) if topics else {}
        ids = {topic: future.result().topic_id for topic, future in found.items()}
        texts = {topic: str(each).replace("+", "-").replace("/", "_") for topic, each in ids.items()}  # as Kafka's tools do
        return {topic: f"@{text}" for topic, text in texts.items() if text not in _NO_ID}

    def receive(self, timeout: float) -> Messages:
        """See Source."""
        if self._is_over:
            raise UnreachableError(f"kafka://{self._connection.servers}: it resumes behind the deleted messages")
        try:
            came: list[Any] = self._consumer.consume(1, max(timeout, _A_MOMENT))
            if came:
                came += self._consumer.consume(_MOST_AT_ONCE, _A_MOMENT)  # what is here already; for so many it would wait
            if ends := any(failed is not None for failed in map(_ERROR, came)):
                came = self._without_ends(came)
        except KafkaException as error:
            raise self._connection.judged(error.args[0], SourceError) from None
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
        """The messages among these, and the ends of partitions noted. Raises UnreachableError, SourceError."""
        found = []
        for each in came:
            source, failed = self._source(each.topic(), each.partition()), each.error()
            if failed is None:
                found.append(each)
                self._at_end.discard(source)
            elif failed.code() == KafkaError._PARTITION_EOF:
                self._at_end.add(source)
            elif failed.code() == KafkaError._AUTO_OFFSET_RESET:
                found.append(self._gap(each.topic(), each.partition(), each.offset()))
            else:
                raise self._connection.judged(failed, SourceError)
        return found

    def _gap(self, topic: str, partition: int, offset: int) -> OffsetGap:
        """Return the report of messages from an offset on that the broker has deleted. The next source resumes behind them:
        librdkafka leaves the partition alone.
        """
        first, end = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=ANSWERS_WITHIN)
        if offset < first:
            self._stopped.add((topic, partition))
            return OffsetGap(topic, partition, offset, first)
        self._check_topics([topic])
        raise SourceError(
            f"kafka://{self._connection.servers}: {topic}/{partition} ends at offset {end}, but was read up to {offset}: the "
            "broker has lost messages, and others would get their offsets; give the input another name, which reads it anew"
        )

    def acknowledge(self, messages: Messages) -> None:
        """See Source."""
        last = dict(zip(zip(messages.topics, messages.handles, strict=True), messages.ids, strict=True))
        try:
            self._check_topics({topic for topic, _ in last})
            self._commit([TopicPartition(*where, offset + 1) for where, offset in last.items()])
        except KafkaException as error:
            if error.args[0].code() not in _NOT_MINE_ANY_MORE:
                raise self._connection.judged(error.args[0], SourceError) from None
        self._is_over |= not self._stopped.isdisjoint(last)

    def _commit(self, offsets: list[TopicPartition]) -> None:
        for each in self._consumer.commit(offsets=offsets, asynchronous=False) or ():
            if each.error is not None:
                raise KafkaException(each.error)

    def _check_topics(self, topics: Collection[str]) -> None:
        """Raise UnreachableError if one was made again under this consumer, which then resumes in the middle of the new one."""
        ids = self._ids(topics)
        if again := [topic for topic in topics if ids.get(topic, "") != self._topic_ids.get(topic, "")]:
            parts = [each for each in self._consumer.assignment() if each.topic in again]
            firsts = [self._consumer.get_watermark_offsets(each, timeout=ANSWERS_WITHIN)[0] for each in parts]
            self._commit([TopicPartition(p.topic, p.partition, first) for p, first in zip(parts, firsts, strict=True)])
            raise UnreachableError(f"kafka://{self._connection.servers}: {again[0]} was deleted and made again: it begins anew")

    def behind(self) -> set[str]:
        """See PartitionedSource: the partitions of which it has not reached the end."""
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

    The sink's position goes into the same transaction, with the offset of the group ``slackline-out-NAME``: readers must read
    committed messages only. As an early change, a revision is the next message of its key, and a withdrawal a tombstone: in a
    compacted topic the last of each key is what stands. The second sink of a name shuts out the first; so is one shut out whose
    transaction took too long. It begins anew, from the position.

    ``address``
        kafka://HOST:PORT[,HOST:PORT]/TOPIC, in which ``{type}`` stands for the event type.
    ``avro``
        what encodes events in place of JSON; keys are JSON all the same.
    ``options``
        of librdkafka, with ``_`` for dots.
    """

    def __init__(self, address: str, name: str = "finals", *, avro: Avro | None = None, **options: Any) -> None:
        self._encode = _json if avro is None else avro.encode
        self._connection = connection = KafkaConnection(address, options)
        if not connection.topic:
            raise SinkError("kafka: an output names its topic: kafka://HOST:PORT/TOPIC, such as kafka://127.0.0.1:9092/{type}")
        transactions = {"transactional.id": f"slackline-out-{name}", "linger.ms": 5}
        group = {"group.id": f"slackline-out-{name}", "enable.auto.commit": False, "isolation.level": "read_committed"}
        try:
            self._producer = Producer(connection.config | transactions)
            self._consumer = Consumer(connection.config | group)
        except (KafkaException, ValueError, TypeError) as error:
            raise SinkError(f"outputs.{name}: {error}") from None
        try:
            connection.reach(self._consumer)
            self._producer.init_transactions(ANSWERS_WITHIN)  # ends what a former one has left open, and shuts it out
            self.position = self._stored_position()
        except BaseException as error:
            self.close()
            if isinstance(error, KafkaException):
                raise connection.judged(error.args[0], SinkError) from None
            raise

    def _stored_position(self) -> SinkPosition | None:
        """The position of the last final written: it is kept with the topic of the last event that was written with it."""
        form = re.compile(re.escape(self._connection.topic).replace(re.escape("{type}"), ".+"))
        topics = [topic for topic in self._consumer.list_topics(timeout=ANSWERS_WITHIN).topics if form.fullmatch(topic)]
        kept = (
            self._consumer.committed([TopicPartition(topic, 0) for topic in topics], timeout=ANSWERS_WITHIN) if topics else []
        )
        if failed := next((each.error for each in kept if each.error is not None), None):
            raise KafkaException(failed)
        return max((msgspec.json.decode(each.metadata, type=SinkPosition) for each in kept if each.metadata), default=None)

    def take(self, events: Sequence[Event]) -> None:
        """See Sink."""
        position = ORDER(events[-1])
        self._transact([(event, self._encode(event)) for event in events], position)
        self.position = position

    def apply(self, changes: Sequence[Change]) -> None:
        """See ChangeSink."""
        there = [change for change in changes if not isinstance(change, Watermark)]
        self._transact(
            [(each.event, None if isinstance(each, Retract) else self._encode(each.event)) for each in there],
            None,
        )

    def _transact(self, records: Sequence[tuple[Event, bytes | None]], position: SinkPosition | None) -> None:
        producer = self._producer
        try:
            producer.begin_transaction()
            for event, value in records:
                self._produce(event, value)
            if position is not None:
                producer.flush(ANSWERS_WITHIN)  # its topic is there once it has events
                topic = self._topic_of(records[-1][0])
                offset = TopicPartition(topic, 0, 1, metadata=msgspec.json.encode(position).decode())
                group = self._consumer.consumer_group_metadata()
                producer.send_offsets_to_transaction([offset], group, ANSWERS_WITHIN)
            producer.commit_transaction(3 * ANSWERS_WITHIN)
        except KafkaException as error:  # made anew, it ends this transaction first
            failure = self._connection.judged(error.args[0], SinkError)
            if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                event, value = max(records, key=lambda record: len(record[1] or b""))
                failure.add_note(
                    f"the largest is {type_name(event.__class__)} ({event.source!r}, {event.id}), {len(value or b''):,} bytes: "
                    "raise max.message.bytes of the topic, and message_max_bytes in the options of the output"
                )
            raise failure from None

    def _topic_of(self, event: Event) -> str:
        return self._connection.topic.replace("{type}", type_name(event.__class__))

    def _produce(self, event: Event, value: bytes | None) -> None:
        key = msgspec.json.encode((type_name(event.__class__), event.source, event.id))
        while True:
            try:
                self._producer.produce(self._topic_of(event), value, key)
                return
            except BufferError:  # it has as much as it holds: some must go out first
                self._producer.poll(0.1)
                self._connection.check()

    def close(self) -> None:
        """See Sink."""
        self._producer.purge()
        self._consumer.close()
