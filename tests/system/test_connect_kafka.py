"""The Kafka connectors against a real broker."""

from __future__ import annotations

import io
import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from slackline_benchmarks.servers import Kafka, free_port, received, serving, until
from structlog.testing import capture_logs
from test_network import collect, node_thread

from middleware.connect.feeding import Feed
from middleware.connect.kafka import KafkaSink, KafkaSource
from middleware.connect.messages.avro import Avro
from middleware.connect.messages.reading import MessageReader
from middleware.connect.messages.source import Messages, SourceSpec
from middleware.model.change import Insert, Retract, Revise
from middleware.model.detector import Detector
from middleware.model.errors import SinkError, SourceError, UnreachableError
from middleware.model.event import ORDER, Event, EventTypes
from middleware.model.time import SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.sinks.sink import open_sink
from middleware.runtime.storage.late_ledger import Ledger, read_ledger

pytestmark = pytest.mark.system


class Seen(Event):
    text: str


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with Kafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


class Place(Event):
    number: int


class Numbered(Detector):
    subscribes, publishes = (Seen,), (Place,)

    def __init__(self) -> None:
        self.number = 0

    def on_event(self, event: Seen) -> Place:
        self.number += 1
        return Place(self.number, ts=event.ts)


def seen(number: int, text: str = "x") -> Seen:
    return Seen(text, ts=1_000 + number, id=number, source="s", level=1)


def send(broker: Kafka, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.servers})
    for value in values:
        producer.produce(topic, value, str(len(value)))
    assert producer.flush(30) == 0


def stored(broker: Kafka, topic: str, count: int, decode: Callable[[bytes], Any] = json.loads) -> list[tuple[Any, Any]]:
    """What a reader of committed messages has after so many of them: keys and values, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.servers,
            "group.id": f"test-{time.monotonic_ns()}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    found: list[Any] = []
    ends = set()
    try:

        def whole() -> bool:
            for message in consumer.consume(500, 0.2):
                if message.error() is None:
                    found.append(message)
                    ends.discard(message.partition())
                else:
                    ends.add(message.partition())
            return len(found) >= count and len(ends) == 2

        until(whole, f"{count} messages in {topic}")
    finally:
        consumer.close()
    found.sort(key=lambda message: (message.partition(), message.offset()))
    return [(json.loads(m.key()), m.value() and decode(m.value())) for m in found]


def committed(broker: Kafka) -> int:
    """How many messages the input has acknowledged."""
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "slackline-readings"})
    try:
        offsets = consumer.committed([TopicPartition("readings", partition) for partition in (0, 1)], timeout=5)
    except KafkaException:
        return 0
    finally:
        consumer.close()
    return sum(max(0, each.offset) for each in offsets)


def test_offsets_are_ids_and_what_is_not_committed_comes_again(broker: Kafka, tmp_path: Path) -> None:
    send(broker, "in", *(b"x" * (1 + number % 7) for number in range(100)))
    with closing(KafkaSource(SourceSpec(broker.address, "reader", ["in"], tmp_path))) as source:
        first = received(source, 100)
        source.acknowledge(Messages.of(message for message in first if message.source.endswith("/0")))
    by_source: dict[str, list[int]] = defaultdict(list)
    for message in first:
        by_source[message.source].append(message.id)
    assert {where.partition("@")[0] for where in by_source} == {"kafka:reader:in"}
    assert {where.partition("/")[2] for where in by_source} == {"0", "1"}
    assert all(ids == list(range(len(ids))) for ids in by_source.values())
    with closing(KafkaSource(SourceSpec(broker.address, "reader", ["in"], tmp_path))) as source:
        again = received(source, sum(message.source.endswith("/1") for message in first))
        assert again == [message for message in first if message.source.endswith("/1")]


def administer(broker: Kafka, request: Callable[[AdminClient], dict[Any, Any]]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.servers})
    for done in request(admin).values():
        done.result()


def made(broker: Kafka, topic: str) -> None:
    """A topic of one partition."""
    administer(broker, lambda admin: admin.create_topics([NewTopic(topic, 1, 1)]))


def test_what_retention_has_deleted_is_listed_and_the_rest_comes(broker: Kafka, tmp_path: Path) -> None:
    made(broker, "short")
    spec, reader = (
        SourceSpec(broker.address, "short", ["short"], tmp_path),
        MessageReader({"short": "Seen"}, EventTypes([Seen])),
    )
    send(broker, "short", *(b'{"text": "x"}' for _ in range(10)))
    with closing(KafkaSource(spec)) as source:
        came = received(source, 10)
        source.acknowledge(Messages.of(came[:4]))
    administer(broker, lambda admin: admin.delete_records([TopicPartition("short", 0, 7)]))  # as retention does
    for _ in range(2):  # until it is acknowledged, it is reported again
        with closing(KafkaSource(spec, start="latest")) as source:
            events, unread = reader.read(received(source, 1))
            assert not events
            assert [each.reason for each in unread] == ["the broker has deleted short/0 from offset 4 to 6 before it was read"]
    with closing(KafkaSource(spec)) as source:
        source.acknowledge(Messages.of(received(source, 1)))
        with pytest.raises(UnreachableError, match="it resumes behind the deleted messages"):
            source.receive(0.1)
    with closing(KafkaSource(spec)) as source:
        assert [event.id for event in reader.read(received(source, 3))[0]] == [7, 8, 9]


def test_latest_is_where_the_group_began_whenever_it_comes_back(broker: Kafka, tmp_path: Path) -> None:
    """Nothing had come before it was restarted: nothing was acknowledged."""
    made(broker, "late")
    send(broker, "late", b"before")
    spec = SourceSpec(broker.address, "late", ["late"], tmp_path)
    with capture_logs() as logs, closing(KafkaSource(spec, start="latest")) as source:
        until(lambda: not source.receive(0.1) and bool(logs), "it has begun")
    send(broker, "late", b"while it was away")
    with closing(KafkaSource(spec, start="latest")) as source:
        assert [message.body for message in received(source, 1)] == [b"while it was away"]


def test_a_partition_that_is_added_is_read_from_its_beginning(broker: Kafka, tmp_path: Path) -> None:
    made(broker, "growing")
    spec = SourceSpec(broker.address, "growing", ["growing"], tmp_path)
    with capture_logs() as logs, closing(KafkaSource(spec, start="latest", topic_metadata_refresh_interval_ms=500)) as source:
        until(lambda: not source.receive(0.1) and bool(logs), "it has begun")
        administer(broker, lambda admin: admin.create_partitions([NewPartitions("growing", 2)]))
        producer = Producer({"bootstrap.servers": broker.servers, "topic.metadata.refresh.interval.ms": 100})
        until(lambda: len(producer.list_topics("growing").topics["growing"].partitions) == 2, "it is there")
        producer.produce("growing", b"first", partition=1)
        producer.flush(30)
        (message,) = received(source, 1)
    assert (message.body, message.id, message.source.endswith("/1")) == (b"first", 0, True)


def test_a_topic_that_is_made_again_has_other_messages(broker: Kafka, tmp_path: Path) -> None:
    """Its offsets begin at 0 again: under the same identities, nodes would drop them as repeats."""
    spec = SourceSpec(broker.address, "again", ["again"], tmp_path)
    seen: list[tuple[str, int]] = []
    for body in (b"a", b"b"):
        made(broker, "again")
        send(broker, "again", *[body] * 5)
        with closing(KafkaSource(spec)) as source:
            came = received(source, 5)
            assert {message.body for message in came} == {body}
            source.acknowledge(Messages.of(came))
            seen += [(message.source, message.id) for message in came]
        administer(broker, lambda admin: admin.delete_topics(["again"]))
    assert len(set(seen)) == 10


def test_a_topic_that_is_made_again_while_it_is_read_is_read_from_its_beginning(broker: Kafka, tmp_path: Path) -> None:
    """The library continues at the offset where it was, in the middle of the new one."""
    spec = SourceSpec(broker.address, "swapped", ["swapped"], tmp_path)
    made(broker, "swapped")
    send(broker, "swapped", *[b"a"] * 5)
    with closing(KafkaSource(spec, topic_metadata_refresh_interval_ms=-1)) as source:
        source.acknowledge(Messages.of(received(source, 5)))
        administer(broker, lambda admin: admin.delete_topics(["swapped"]))
        made(broker, "swapped")
        send(broker, "swapped", *[b"b"] * 10)
        with pytest.raises(UnreachableError):
            source.acknowledge(Messages.of(received(source, 1)))
    with closing(KafkaSource(spec)) as source:
        assert [(message.id, message.body) for message in received(source, 10)] == [(number, b"b") for number in range(10)]


def test_a_broker_that_has_lost_messages_is_reported(broker: Kafka, tmp_path: Path) -> None:
    made(broker, "lost")
    spec = SourceSpec(broker.address, "lost", ["lost"], tmp_path)
    send(broker, "lost", *[b"x"] * 5)
    with closing(KafkaSource(spec)) as source:
        received(source, 5)
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "slackline-lost"})
    consumer.commit(offsets=[TopicPartition("lost", 0, 9)], asynchronous=False)
    consumer.close()
    refusal = pytest.raises(SourceError, match="lost/0 ends at offset 5, but was read up to 9: the broker has lost messages")
    with closing(KafkaSource(spec)) as source, refusal:
        received(source, 1)


def test_a_partition_that_is_read_ahead_makes_nothing_late(broker: Kafka, tmp_path: Path) -> None:
    """A backlog of an hour in two partitions, a second of allowed lateness: watermarks follow the one that is behind."""
    send(broker, "hour", *(json.dumps({"text": "a" * (n % 5), "ts": 3 * SECOND * n}).encode() for n in range(1_200)))
    types, over = EventTypes([Seen, Place]), threading.Event()
    reader = MessageReader({"hour": "Seen"}, types)
    with (
        node_thread("a", "tcp://127.0.0.1:*", processor=Hierarchy([Numbered()]), types=types) as node,
        Subscriber(node.address, Place, consistency="final") as subscriber,
        Publisher(node.address, types=[Seen]) as publisher,
        closing(Ledger("hour", tmp_path)) as ledger,
        closing(KafkaSource(SourceSpec(broker.address, "hour", ["hour"], tmp_path))) as source,
    ):
        subscriber.wait_ready(30)
        feed = Feed(publisher, reader, ledger, over.is_set, disorder=SECOND)
        thread = threading.Thread(target=feed.run, args=[source])
        thread.start()
        finals = collect(subscriber, 1_199)  # all but the last, which others may still come before
        over.set()
        thread.join()
        assert publisher.flush().rejected == {}
    assert [(each.number, each.ts) for each in finals if isinstance(each, Place)] == [
        (n + 1, 3 * SECOND * n) for n in range(1_199)
    ]


def test_a_transaction_has_the_finals_and_their_mark_or_neither(broker: Kafka) -> None:
    address = f"{broker.address}/out"
    with closing(open_sink(address, "once")) as sink:
        assert sink.position is None
        sink.take([seen(1), seen(2)])
        sink.take([seen(3)])
    with closing(KafkaSink(address, "once")) as first:
        assert first.position == ORDER(seen(3))
        with closing(KafkaSink(address, "once")) as second:
            with pytest.raises(UnreachableError):  # it is shut out, and would have to begin anew
                first.take([seen(4, "never")])
            second.take([seen(4)])
            assert second.position == ORDER(seen(4))
    found = stored(broker, "out", 4)
    assert sorted((key[2], value["text"]) for key, value in found) == [(number, "x") for number in range(1, 5)]


def test_each_type_has_its_topic_and_the_mark_goes_with_them(broker: Kafka) -> None:
    address = f"{broker.address}/of-{{type}}"
    with closing(KafkaSink(address, "by-type")) as sink:
        sink.take([seen(1), seen(2)])
    with closing(KafkaSink(address, "by-type")) as sink:
        assert sink.position == ORDER(seen(2))
    assert len(stored(broker, "of-Seen", 2)) == 2


def test_a_message_that_is_too_large_is_named(broker: Kafka) -> None:
    settings = {"max.message.bytes": "1000"}
    administer(broker, lambda admin: admin.create_topics([NewTopic("small", 1, 1, config=settings)]))
    for name, size in (("by-broker", 2_000), ("by-client", 2_000_000)):
        with closing(KafkaSink(f"{broker.address}/small", name)) as sink:
            with pytest.raises(SinkError, match="Message size too large") as raised:
                sink.take([seen(1), seen(2, size * "x"), seen(3)])
            assert re.search(r"Seen \('s', 2\), 2,0.* bytes: raise max.message.bytes", raised.value.__notes__[0])


def test_changes_are_the_last_of_their_key_and_withdrawals_tombstones(broker: Kafka) -> None:
    changes = [Insert(seen(1)), Insert(seen(2)), Revise(seen(2, "y"), seen(2)), Retract(seen(1)), Insert(seen(3))]
    with closing(KafkaSink(f"{broker.address}/changes-{{type}}", "changes")) as sink:
        for start in (0, 2):  # as from a reader that begins again
            sink.apply(changes[start:])
    found = stored(broker, "changes-Seen", 8)
    last = {key[2]: value and value["text"] for key, value in found}
    assert last == {1: None, 2: "y", 3: "x"}


def test_no_broker_is_an_error_that_passes(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError):
        KafkaSource(SourceSpec("kafka://127.0.0.1:1", "none", ["x"], tmp_path))
    with pytest.raises(UnreachableError):
        KafkaSink("kafka://127.0.0.1:1/x")
    with pytest.raises(SinkError, match="names its topic"):
        KafkaSink("kafka://127.0.0.1:1")


PLANT = """
from slackline import Detector, Event

class Reading(Event):
    key: str
    value: int

class Total(Event):
    key: str
    total: int

class Totals(Detector):
    subscribes, publishes, key = (Reading,), (Total,), "key"

    def __init__(self):
        self.total = 0

    def on_event(self, event):
        self.total += event.value
        return Total(event.key, self.total, ts=event.ts)
"""

SCENARIO = """
name = "plant"
detectors = ["plant:Totals"]

[policies]
lateness = "10s"

[[nodes]]
name = "floor"
address = "tcp://127.0.0.1:{port}"
detectors = ["*"]

[[inputs]]
name = "readings"
from = "{kafka}"
types = {{ readings = "Reading" }}
unit = "ms"
options = {{ session_timeout_ms = 6000, avro = {{ 7 = "reading.avsc" }} }}

[[outputs]]
name = "totals"
to = "{kafka}/totals"
types = ["Total"]
options = {{ avro = "total.avsc" }}
"""

SCHEMAS = {
    "Reading": {"key": "string", "value": "int", "ts": "long"},
    "Total": {"key": "string", "total": "long", "ts": {"type": "long", "logicalType": "timestamp-micros"}},
}


def test_kafka_in_avro_both_ways_each_final_once_whatever_is_killed(broker: Kafka, tmp_path: Path) -> None:
    start = time.time_ns() // 10**6 - 7_200_000
    count = 1_200

    for name, fields in SCHEMAS.items():
        schema = {"type": "record", "name": name, "fields": [{"name": own, "type": kind} for own, kind in fields.items()]}
        (tmp_path / f"{name.lower()}.avsc").write_text(json.dumps(schema))

    def reading(key: str, value: int, ts: int) -> bytes:
        out = io.BytesIO(b"\0\0\0\0\7")
        out.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(
            out, json.loads((tmp_path / "reading.avsc").read_text()), {"key": key, "value": value, "ts": ts}
        )
        return out.getvalue()

    def readings(first: int, last: int) -> None:
        broken = reading("broken", 1, 2)[:-1]
        send(broker, "readings", *(reading(f"k{n % 3}", n, start + 20 * n) for n in range(first, last)), broken)

    expected: dict[str, list[int]] = defaultdict(list)
    for number in range(count):
        totals = expected[f"k{number % 3}"]
        totals.append(number + (totals[-1] if totals else 0))
    with serving(tmp_path, PLANT, SCENARIO.format(port=free_port(), kafka=broker.address), ends=2) as running:
        for index, victim in enumerate(["connect", "broker", "nobody"]):
            readings(index * 400, (index + 1) * 400)
            until(lambda: "publisher joined" in running.output_of("node"), "it has joined")
            running.strike(victim, broker=broker)
            # a partition that is read before the other must not run ahead of it by more than the allowed lateness
            until(lambda index=index: committed(broker) == (index + 1) * 401, "they are stored")  # type: ignore[misc]
        send(broker, "readings", reading("end", 0, start + 3_000_000))
        found = stored(broker, "totals", count, Avro("total.avsc", tmp_path).decode)
        assert running.finish("connect") == 143, running.output_of("connect")
    assert len({tuple(key) for key, _ in found}) == len(found), "each once"
    for key, totals in expected.items():
        assert sorted(value["total"] for _, value in found if value["key"] == key) == totals
    unread = read_ledger(tmp_path / ".slackline" / "plant" / "connect" / "readings")
    assert len({(entry.source, entry.id) for entry in unread}) == 3
    assert {"reading.avsc" in entry.details for entry in unread} == {True}
