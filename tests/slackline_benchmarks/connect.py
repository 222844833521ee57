"""Benchmarks of connectors: events per second beside the client library alone, doing the same on the same server.

``connect.*.in``: messages received, decoded, stored by a node and acknowledged; the library alone receives, decodes and
acknowledges them. ``connect.*.out``: finals handed to a sink, with its mark; the library alone writes the same rows or messages
in the same way. What cannot be had on this machine is left out.
"""

from __future__ import annotations

import multiprocessing as mp
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import SkipTest

import msgspec
import structlog
from slackline_benchmarks.servers import Kafka, Mosquitto, Postgres, until

from middleware.connect.feeding import Feed
from middleware.connect.reading import MessageReader
from middleware.connect.source import Source, SourceSpec
from middleware.model.event import ORDER, Event, EventTypes
from middleware.runtime.clients import Publisher
from middleware.runtime.node import Node
from middleware.runtime.records import as_record
from middleware.runtime.sinks.sink import open_sink
from middleware.runtime.storage.late_ledger import Ledger

_EVENTS = 60_000
_MQTT_EVENTS = 20_000
_BATCH = 2_000


class Place(Event, frozen=True):
    """A location, as trackers send it."""

    tag: str
    x: float
    y: float


TYPES = EventTypes([Place])


def bench_connect(rounds: int) -> list[dict[str, Any]]:
    """All rows, each the median of ``rounds``, the library and Slackline in turn."""
    rows = []
    for each in (_kafka, _mqtt, _postgres):
        try:
            with tempfile.TemporaryDirectory(prefix="slackline-bench-") as folder:
                rows += each(rounds, Path(folder))
        except SkipTest as missing:
            structlog.get_logger().warning(str(missing))
    return rows


def _row(name: str, rounds: int, count: int, ours: Callable[[int], float], alone: Callable[[int], float]) -> dict[str, Any]:
    """Both in turn; each is given the number of the round, and returns seconds."""
    both = [(count / alone(each), count / ours(each)) for each in range(rounds)]
    value, base = statistics.median(own for _, own in both), statistics.median(other for other, _ in both)
    return {
        "name": name,
        "value": value,
        "unit": "events/s",
        "baseline": base,
        "ratio": statistics.median(own / other for other, own in both),
    }


def _place(number: int) -> Place:
    return Place(f"t{number % 50}", number * 0.5, 1.0, ts=10**18 + number, id=number, source="bench", level=1)


def _messages(count: int) -> list[bytes]:
    each = map(_place, range(count))
    return [msgspec.json.encode({"tag": one.tag, "x": one.x, "y": one.y, "ts": one.ts}) for one in each]


class _Fields(msgspec.Struct):
    """What a program without Slackline would decode."""

    tag: str
    x: float
    y: float
    ts: int


@contextmanager
def _node() -> Iterator[str]:
    """The address of a node, a process of its own, as it would be."""
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=[theirs], daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Connection) -> None:
    node = Node("bench", "tcp://127.0.0.1:*", {}, types=TYPES)
    pipe.send(node.address)
    node.run()


def _fed(make: Callable[[], Source], topic: str, folder: Path, count: int) -> float:
    """Seconds until so many messages are acknowledged, from the first on."""
    reader = MessageReader({topic: "Place"}, TYPES)
    with _node() as address, Publisher(address, types=[Place]) as publisher, closing(Ledger("bench", folder)) as ledger:
        began: list[float] = []

        class Counted:
            def __init__(self, source: Source) -> None:
                self.left, self.receive_, self.acknowledge_ = count, source.receive, source.acknowledge

            def receive(self, timeout: float) -> Any:
                messages = self.receive_(timeout)
                if messages and not began:
                    began.append(time.perf_counter())
                return messages

            def acknowledge(self, messages: Any) -> None:
                self.acknowledge_(messages)
                self.left -= len(messages)

            def close(self) -> None:
                pass

        with closing(make()) as source:
            counted = Counted(source)
            Feed(publisher, reader, ledger, lambda: counted.left <= 0).run(counted)
        return time.perf_counter() - began[0]


def _kafka(rounds: int, folder: Path) -> list[dict[str, Any]]:
    from confluent_kafka import Consumer, Producer

    from middleware.connect.kafka import KafkaSource

    with Kafka(folder) as broker:
        config = {"bootstrap.servers": broker.servers}
        filling = Producer(config | {"queue.buffering.max.messages": 2 * _EVENTS})
        for message in _messages(_EVENTS):
            filling.produce("places", message)
        filling.flush()

        def ours_in(number: int) -> float:
            return _fed(
                lambda: KafkaSource(SourceSpec(broker.address, f"ours{number}", ["places"], folder)), "places", folder, _EVENTS
            )

        def alone_in(number: int) -> float:
            own = {"group.id": f"alone{number}", "auto.offset.reset": "earliest", "enable.auto.commit": False}
            consumer, decode = Consumer(config | own), msgspec.json.Decoder(_Fields).decode
            consumer.subscribe(["places"])
            left, began = _EVENTS, 0.0
            while left > 0:
                came = consumer.consume(10_000, 0.1)
                began = began or (time.perf_counter() if came else 0.0)
                for message in came:
                    decode(message.value() or b"")
                left -= len(came)
                if came:
                    consumer.commit(asynchronous=False)
            spent = time.perf_counter() - began
            consumer.close()
            return spent

        def ours_out(number: int) -> float:
            with closing(open_sink(f"{broker.address}/ours{number}", f"ours{number}")) as sink:
                return _taken(sink.take)

        def alone_out(number: int) -> float:
            producer = Producer(config | {"transactional.id": f"alone{number}", "linger.ms": 5})
            producer.init_transactions()

            def take(events: list[Event]) -> None:
                producer.begin_transaction()
                for event in events:
                    producer.produce(f"alone{number}", msgspec.json.encode(as_record(event)), f"{event.source}/{event.id}")
                producer.commit_transaction()

            return _taken(take)

        return [
            _row("connect.kafka.in", rounds, _EVENTS, ours_in, alone_in),
            _row("connect.kafka.out", rounds, _EVENTS, ours_out, alone_out),
        ]


def _taken(take: Callable[[list[Event]], None]) -> float:
    """Seconds for all events, in batches."""
    events: list[Event] = list(map(_place, range(_EVENTS)))
    start = time.perf_counter()
    for at in range(0, len(events), _BATCH):
        take(events[at : at + _BATCH])
    return time.perf_counter() - start


def _mqtt(rounds: int, folder: Path) -> list[dict[str, Any]]:
    import paho.mqtt.client as paho
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    from middleware.connect.mqtt import MqttSource

    def filled(broker: Mosquitto) -> None:
        client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)  # type: ignore[attr-defined]
        client.max_inflight_messages_set(1_000)
        client.connect("127.0.0.1", broker.port)
        client.loop_start()
        sent = [client.publish("places", message, qos=1) for message in _messages(_MQTT_EVENTS)]
        for each in sent:
            each.wait_for_publish(60)
        client.disconnect()
        client.loop_stop()

    with Mosquitto(folder, keeps=False) as broker:

        def ours(number: int) -> float:
            def make() -> Source:
                return MqttSource(SourceSpec(broker.address, f"ours{number}", ["places"], folder / f"ours{number}"))

            make().close()  # its session takes what comes
            filled(broker)
            return _fed(make, "places", folder, _MQTT_EVENTS)

        def alone(number: int) -> float:
            decode, times = msgspec.json.Decoder(_Fields).decode, [0.0, 0.0]
            left = _MQTT_EVENTS
            subscribed: list[bool] = []

            def take(_: object, __: object, message: paho.MQTTMessage) -> None:
                nonlocal left
                times[0] = times[0] or time.perf_counter()
                decode(message.payload)
                client.ack(message.mid, message.qos)
                left -= 1
                times[1] = time.perf_counter()

            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.ReceiveMaximum, properties.SessionExpiryInterval = 2_000, 600
            for fills in (True, False):
                client = paho.Client(
                    paho.CallbackAPIVersion.VERSION2,  # type: ignore[attr-defined]
                    f"alone{number}",
                    protocol=paho.MQTTv5,
                    manual_ack=True,
                )
                client.on_message = take
                client.on_subscribe = lambda *_: subscribed.append(True)
                client.connect("127.0.0.1", broker.port, clean_start=False, properties=properties)
                client.loop_start()
                if fills:
                    until(client.is_connected, "it is connected")
                    client.subscribe("places", 1)
                    until(lambda: bool(subscribed), "it is subscribed")
                    client.disconnect()
                    client.loop_stop()
                    filled(broker)
                else:
                    until(lambda: left == 0, "all messages")
                    client.disconnect()
                    client.loop_stop()
            return times[1] - times[0]

        return [_row("connect.mqtt.in", rounds, _MQTT_EVENTS, ours, alone)]


def _postgres(rounds: int, folder: Path) -> list[dict[str, Any]]:
    import psycopg

    with Postgres() as server:

        def ours(number: int) -> float:
            with closing(open_sink(server.address, f"ours{number}", prefix=f"ours{number}_")) as sink:
                return _taken(sink.take)

        def alone(number: int) -> float:
            table = f"alone{number}"
            columns = "tag text, x double precision, y double precision, ts bigint, id bigint, source text, level bigint"
            with psycopg.connect(server.address, autocommit=True) as connection:
                connection.execute(f"CREATE TABLE {table} ({columns}, PRIMARY KEY (source, id))")
                connection.execute("CREATE TABLE IF NOT EXISTS marks (name text PRIMARY KEY, mark jsonb)")

                def take(events: list[Event]) -> None:
                    rows = [(e.tag, e.x, e.y, e.ts, e.id, e.source, e.level) for e in events if isinstance(e, Place)]
                    with connection.transaction(), connection.cursor() as cursor:
                        cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s, %s, %s, %s, %s, %s)", rows)
                        mark = msgspec.json.encode(ORDER(events[-1])).decode()
                        cursor.execute(
                            "INSERT INTO marks VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET mark = excluded.mark",
                            (table, mark),
                        )

                return _taken(take)

        return [_row("connect.postgres.out", rounds, _EVENTS, ours, alone)]
