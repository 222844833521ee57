"""Benchmarks of connectors: events per second beside the client library alone, doing the same on the same server.

``connect.*.in``: messages received, decoded, taken by a node (one without a log, so without a disk) and acknowledged; the
library alone receives, decodes and acknowledges them. It keeps no numbers of what it has had, which MQTT, HTTP and PostgreSQL
need. ``connect.*.out``: finals handed to a sink, with its mark; the library alone writes the same rows or messages in the same
way, with the same mark in the transaction (PostgreSQL, Kafka); WebSocket: until one reader has them. What cannot be had on this
machine is skipped.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import SkipTest

import msgspec
import structlog
from slackline_benchmarks.connect_web import bench_http, bench_websocket
from slackline_benchmarks.connectors import EVENTS, Fields, Place, fed, messages, row, taken
from slackline_benchmarks.servers import Kafka, Mosquitto, Postgres, until

from middleware.connect.messages.source import Source, SourceSpec
from middleware.model.event import ORDER, Event
from middleware.runtime.json_records import as_record
from middleware.runtime.sinks.sink import open_sink

_MQTT_EVENTS = 20_000


def bench_connect(rounds: int) -> list[dict[str, Any]]:
    """All rows, each the median of ``rounds``, the library and Slackline in turn."""
    rows = []
    for each in (_kafka, _mqtt, _postgres, bench_http, bench_websocket):
        try:
            with tempfile.TemporaryDirectory(prefix="slackline-bench-") as folder:
                rows += each(rounds, Path(folder))
        except SkipTest as missing:
            structlog.get_logger().warning(str(missing))
    return rows


def _kafka(rounds: int, folder: Path) -> list[dict[str, Any]]:
    from confluent_kafka import Consumer, Producer, TopicPartition

    from middleware.connect.kafka import KafkaSource

    with Kafka(folder) as broker:
        config = {"bootstrap.servers": broker.servers}
        filling = Producer(config | {"queue.buffering.max.messages": 2 * EVENTS})
        for message in messages(EVENTS):
            filling.produce("places", message)
        filling.flush()

        def ours_in(number: int) -> float:
            return fed(
                lambda: KafkaSource(SourceSpec(broker.address, f"ours{number}", ["places"], folder)), "places", folder, EVENTS
            )

        def alone_in(number: int) -> float:
            own = {"group.id": f"alone{number}", "auto.offset.reset": "earliest", "enable.auto.commit": False}
            consumer, decode = Consumer(config | own), msgspec.json.Decoder(Fields).decode
            consumer.subscribe(["places"])
            left, began = EVENTS, 0.0
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
                return taken(sink.take)

        def alone_out(number: int) -> float:
            producer = Producer(config | {"transactional.id": f"alone{number}", "linger.ms": 5})
            producer.init_transactions()
            with closing(Consumer(config | {"group.id": f"alone{number}", "enable.auto.commit": False})) as consumer:

                def take(events: list[Event]) -> None:
                    producer.begin_transaction()
                    for event in events:
                        producer.produce(f"alone{number}", msgspec.json.encode(as_record(event)), f"{event.source}/{event.id}")
                    mark = TopicPartition(f"alone{number}", 0, 1, metadata=msgspec.json.encode(ORDER(events[-1])).decode())
                    producer.send_offsets_to_transaction([mark], consumer.consumer_group_metadata())
                    producer.commit_transaction()

                return taken(take)

        return [
            row("connect.kafka.in", rounds, EVENTS, ours_in, alone_in),
            row("connect.kafka.out", rounds, EVENTS, ours_out, alone_out),
        ]


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
        sent = [client.publish("places", message, qos=1) for message in messages(_MQTT_EVENTS)]
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
            return fed(make, "places", folder, _MQTT_EVENTS)

        def alone(number: int) -> float:
            decode, times = msgspec.json.Decoder(Fields).decode, [0.0, 0.0]
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

        def ours_out(number: int) -> float:
            with closing(open_sink(f"{broker.address}/out", f"out{number}")) as sink:
                return taken(sink.take, _MQTT_EVENTS)

        def alone_out(number: int) -> float:
            client = paho.Client(paho.CallbackAPIVersion.VERSION2, f"sender{number}", protocol=paho.MQTTv5)  # type: ignore[attr-defined]
            client.max_inflight_messages_set(1_000)
            client.connect("127.0.0.1", broker.port)
            client.loop_start()

            def take(events: list[Event]) -> None:
                sent = [client.publish("out", msgspec.json.encode(as_record(event)), qos=1) for event in events]
                for each in sent:
                    each.wait_for_publish(60)

            spent = taken(take, _MQTT_EVENTS)
            client.disconnect()
            client.loop_stop()
            return spent

        return [
            row("connect.mqtt.in", rounds, _MQTT_EVENTS, ours, alone),
            row("connect.mqtt.out", rounds, _MQTT_EVENTS, ours_out, alone_out),
        ]


def _postgres(rounds: int, folder: Path) -> list[dict[str, Any]]:
    import psycopg

    from middleware.connect.postgres_source import PostgresSource

    with Postgres() as server:

        def ours(number: int) -> float:
            with closing(open_sink(server.address, f"ours{number}", prefix=f"ours{number}_")) as sink:
                return taken(sink.take)

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

                return taken(take)

        slot = "SELECT pg_create_logical_replication_slot('{0}', 'pgoutput')"
        insert = (
            f"INSERT INTO places SELECT 't' || n % 50, n * 0.5, 1, {10**18} + n FROM generate_series(1, {EVENTS // 20}) AS n"
        )
        server.do("CREATE TABLE places (tag text, x double precision, y double precision, ts bigint)")

        def ours_in(number: int) -> float:
            def make() -> Source:
                return PostgresSource(SourceSpec(server.address, f"in{number}", ["places"], folder / f"in{number}"))

            make().close()  # its slot keeps what comes
            server.do(*[insert] * 20)
            return fed(make, "places", folder, EVENTS)

        def alone_in(number: int) -> float:
            server.do("CREATE PUBLICATION alone FOR TABLE places" if number == 0 else "SELECT 1", slot.format(f"alone{number}"))
            server.do(*[insert] * 20)
            peek = "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, 10000, 'proto_version', '1', "
            left, start = EVENTS, time.perf_counter()
            with psycopg.connect(server.address, autocommit=True) as connection:
                cursor = connection.cursor(binary=True)
                while left > 0:
                    found = cursor.execute(peek + "'publication_names', 'alone')", (f"alone{number}",)).fetchall()
                    left -= sum(len(_texts(data)) == 4 for (data,) in found if data[:1] == b"I")
                    (committed,) = found[-1]
                    high, low = int.from_bytes(committed[10:14]), int.from_bytes(committed[14:18])
                    advance = "SELECT pg_replication_slot_advance(%s, %s::pg_lsn)"
                    connection.execute(advance, (f"alone{number}", f"{high:X}/{low:X}"))
            return time.perf_counter() - start

        return [
            row("connect.postgres.in", rounds, EVENTS, ours_in, alone_in),
            row("connect.postgres.out", rounds, EVENTS, ours, alone),
        ]


def _texts(data: bytes) -> list[str]:
    """The values of a row that was inserted, as pgoutput has them: what a program without Slackline would read."""
    place, texts = 8, []
    while place < len(data):
        size = int.from_bytes(data[place + 1 : place + 5])
        texts.append(data[place + 5 : place + 5 + size].decode())
        place += 5 + size
    return texts
