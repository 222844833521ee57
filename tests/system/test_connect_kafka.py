"""The Kafka connectors against a real broker."""

from __future__ import annotations

import io
import json
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
from slackline_benchmarks.servers import Kafka, free_port, received, serving, until
from test_network import collect, node_thread

from middleware.connect.avro import Avro
from middleware.connect.feeding import Feed
from middleware.connect.kafka import KafkaSink, KafkaSource
from middleware.connect.reading import MessageReader
from middleware.connect.source import Messages, SourceSpec
from middleware.model.change import Insert, Retract, Revise
from middleware.model.detector import Detector
from middleware.model.errors import SinkError, UnreachableError
from middleware.model.event import ORDER, Event, EventTypes
from middleware.model.time import SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.sinks.sink import open_sink
from middleware.runtime.storage.late_ledger import Ledger, read_ledger

pytestmark = pytest.mark.system


class Seen(Event, frozen=True):
    text: str


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with Kafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


class Place(Event, frozen=True):
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
    assert by_source.keys() == {"kafka:reader:in/0", "kafka:reader:in/1"}
    assert all(ids == list(range(len(ids))) for ids in by_source.values())
    with closing(KafkaSource(SourceSpec(broker.address, "reader", ["in"], tmp_path))) as source:
        again = received(source, len(by_source["kafka:reader:in/1"]))
        assert again == [message for message in first if message.source.endswith("/1")]


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
        assert publisher.flush().turned == {}
    assert [(each.number, each.ts) for each in finals if isinstance(each, Place)] == [
        (n + 1, 3 * SECOND * n) for n in range(1_199)
    ]


def test_a_transaction_has_the_finals_and_their_mark_or_neither(broker: Kafka) -> None:
    address = f"{broker.address}/out"
    with closing(open_sink(address, "once")) as sink:
        assert sink.mark is None
        sink.take([seen(1), seen(2)])
        sink.take([seen(3)])
    with closing(KafkaSink(address, "once")) as first:
        assert first.mark == ORDER(seen(3))
        with closing(KafkaSink(address, "once")) as second:
            with pytest.raises(UnreachableError):  # it is shut out, and would have to begin anew
                first.take([seen(4, "never")])
            second.take([seen(4)])
            assert second.mark == ORDER(seen(4))
    found = stored(broker, "out", 4)
    assert sorted((key[2], value["text"]) for key, value in found) == [(number, "x") for number in range(1, 5)]


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
from middleware import Detector, Event

class Reading(Event, frozen=True):
    key: str
    value: int

class Total(Event, frozen=True):
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
            until(lambda: "publisher joined" in running.said("node"), "it has joined")
            running.strike(victim, broker=broker)
            # a partition that is read before the other must not run ahead of it by more than the allowed lateness
            until(lambda index=index: committed(broker) == (index + 1) * 401, "they are stored")  # type: ignore[misc]
        send(broker, "readings", reading("end", 0, start + 3_000_000))
        found = stored(broker, "totals", count, Avro("total.avsc", tmp_path).decode)
        assert running.finish("connect") == 143, running.said("connect")
    assert len({tuple(key) for key, _ in found}) == len(found), "each once"
    for key, totals in expected.items():
        assert sorted(value["total"] for _, value in found if value["key"] == key) == totals
    unread = read_ledger(tmp_path / ".slackline" / "plant" / "connect" / "readings")
    assert len({(entry.source, entry.id) for entry in unread}) == 3
    assert {"reading.avsc" in entry.told for entry in unread} == {True}
