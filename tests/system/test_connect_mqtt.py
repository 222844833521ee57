"""The MQTT connectors against a real broker."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest
from paho.mqtt import publish
from slackline_benchmarks.servers import Mosquitto, received, until

from middleware.connect.messages.source import Message, Messages, SourceSpec
from middleware.connect.mqtt import MqttSink, MqttSource
from middleware.model.errors import SinkError, SourceError, UnreachableError
from middleware.model.event import Event

pytestmark = pytest.mark.system


class Seen(Event):
    text: str


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path_factory.mktemp("mosquitto")) as broker:
        yield broker


def send(broker: Mosquitto, *texts: str, topic: str = "plant/1", retain: bool = False) -> None:
    messages = [{"topic": topic, "payload": text, "qos": 1, "retain": retain} for text in texts]
    publish.multiple(messages, hostname="127.0.0.1", port=broker.port)  # type: ignore[arg-type]


def test_what_was_not_acknowledged_comes_again_under_its_number(broker: Mosquitto, tmp_path: Path) -> None:
    """By packet number, as the messages name no time: equal ones are different events."""
    first = MqttSource(SourceSpec(broker.address, "own", ["plant/+"], tmp_path))
    send(broker, "same", "same", "other")
    came = received(first, 3)
    assert [message.id for message in came] == [1, 2, 3]
    first.acknowledge(Messages.of(came[:1]))
    first.close()
    again = MqttSource(SourceSpec(broker.address, "own", ["plant/+"], tmp_path))
    assert received(again, 2) == [Message(m.topic, m.body, m.source, m.id, m.at, m.handle) for m in came[1:]]
    send(broker, "same")
    assert [message.id for message in received(again, 1)] == [4]
    again.close()


def test_a_message_that_fits_several_patterns_is_one_event(broker: Mosquitto, tmp_path: Path) -> None:
    """Mosquitto sends a copy for each, and keeps the patterns of a former life in the session."""
    with closing(MqttSource(SourceSpec(broker.address, "several", ["several/one", "several/+"], tmp_path))) as source:
        send(broker, "a", topic="several/one")
        send(broker, "b", topic="several/two")
        assert [(each.id, each.body) for each in received(source, 2)] == [(1, b"a"), (2, b"b")]
        assert not source.receive(0.3)
    with closing(MqttSource(SourceSpec(broker.address, "several", ["several/#"], tmp_path))) as source:
        received(source, 2)  # what was not acknowledged
        send(broker, "c", topic="several/one")
        assert [each.body for each in received(source, 1)] == [b"c"]
        assert not source.receive(0.3)
    for wrong in ("t#", "a/#/b", ""):
        with pytest.raises(SourceError, match="no pattern of MQTT topics"):
            MqttSource(SourceSpec(broker.address, "wrong", [wrong], tmp_path / "wrong"))


def test_equal_content_is_one_event_if_it_names_its_time(broker: Mosquitto, tmp_path: Path) -> None:
    source = MqttSource(SourceSpec(broker.address, "timed", ["timed/+"], tmp_path, True))
    send(broker, "a", "b", "a", topic="timed/1")
    send(broker, "a", topic="timed/2")
    came = received(source, 4)
    assert [message.id for message in came] == [1, 2, 1, 3]
    assert came[2].at == came[0].at
    source.close()


def test_retained_messages_and_last_wills_are_messages(broker: Mosquitto, tmp_path: Path) -> None:
    send(broker, "kept", topic="state/a", retain=True)
    source = MqttSource(SourceSpec(broker.address, "states", ["state/#"], tmp_path, True))
    assert [message.body for message in received(source, 1)] == [b"kept"]
    import paho.mqtt.client as paho

    dying = paho.Client(paho.CallbackAPIVersion.VERSION2, "dying", protocol=paho.MQTTv5)  # type: ignore[attr-defined]
    dying.will_set("state/b", "gone", qos=1)
    dying.connect("127.0.0.1", broker.port)
    dying.loop_start()
    until(dying.is_connected, "it is connected")
    dying.loop_stop()
    dying.socket().close()  # without a goodbye
    assert [(message.topic, message.body) for message in received(source, 1)] == [("state/b", b"gone")]
    source.close()


def test_one_name_one_client(broker: Mosquitto, tmp_path: Path) -> None:
    first = MqttSource(SourceSpec(broker.address, "twice", ["x"], tmp_path / "1", True))
    second = MqttSource(SourceSpec(broker.address, "twice", ["x"], tmp_path / "2", True))
    with pytest.raises((SourceError, UnreachableError)):  # not every broker says why
        received(first, 1)
    first.close()
    second.close()


def test_no_broker_is_an_error_that_passes(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError):
        MqttSource(SourceSpec("mqtt://127.0.0.1:1", "none", ["x"], tmp_path, True))
    with pytest.raises(UnreachableError):
        MqttSink("mqtt://127.0.0.1:1/alarms")
    with pytest.raises(SinkError, match="names its topic"):
        MqttSink("mqtt://127.0.0.1:1")


def test_who_is_refused_is_notified_at_once(tmp_path: Path) -> None:
    with Mosquitto(tmp_path, is_open=False) as closed:
        with pytest.raises(SourceError, match="refuses the connection: Not authorized"):
            MqttSource(SourceSpec(closed.address.replace("//", "//app:wrong@"), "own", ["x"], tmp_path))
        with pytest.raises(SinkError, match="refuses the connection: Not authorized") as refused:
            MqttSink(f"{closed.address.replace('//', '//app:wrong@')}/alarms")
        assert "wrong" not in str(refused.value)


def test_finals_are_published_by_type_at_least_once(broker: Mosquitto, tmp_path: Path) -> None:
    source = MqttSource(SourceSpec(broker.address, "reader", ["alarms/#"], tmp_path, True))
    sink = MqttSink(f"{broker.address}/alarms/{{type}}", "alarms", window=2)
    finals = [Seen(str(number), ts=number, id=number, source="s") for number in range(5)]
    sink.take(finals)
    came = received(source, 5)
    sink.take(finals[3:])  # as one that was killed before it could say so
    assert [message.id for message in received(source, 2)] == [message.id for message in came[3:]], "a repeat, and known as one"
    assert {message.topic for message in came} == {"alarms/Seen"}
    assert [json.loads(message.body)["text"] for message in came] == ["0", "1", "2", "3", "4"]
    source.close()
    broker.kill()
    with pytest.raises(UnreachableError):
        sink.take([Seen("lost", ts=9, id=9, source="s")])
    sink.close()
    broker.start()


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("max_packet_size 1000", "takes at most 1,000 bytes in a packet"),
        ("message_size_limit 1000", "ends each connection on which it comes"),
    ],
)
def test_a_message_that_the_broker_will_never_take_is_reported(limit: str, message: str, tmp_path: Path) -> None:
    """Sent again and again, it would keep all that come after it."""
    broker = Mosquitto(tmp_path)
    with (tmp_path / "conf").open("a") as conf:
        conf.write(f"{limit}\n")
    finals = [Seen(size * "x", ts=size, id=size, source="s") for size in (5, 900, 1_500, 6)]

    def take_as_connectors_do() -> None:
        """A connection may be lost for any reason: then a new sink takes the same events, a few times."""
        for left in (2, 1, 0):
            with closing(MqttSink(f"{broker.address}/alarms/{{type}}")) as sink:
                try:
                    sink.take(finals)
                except UnreachableError:
                    if not left:
                        raise

    with broker:
        with closing(MqttSink(f"{broker.address}/alarms/{{type}}")) as sink:
            sink.take(finals[:2])
        with pytest.raises(SinkError, match=rf'{message}.* alarms/Seen of 1,5\d\d bytes.*"text":"xxx'):
            take_as_connectors_do()


def test_no_more_messages_are_under_way_than_the_broker_takes() -> None:
    """Some brokers end a connection on which more come; this one says 2, and answers once nothing follows."""
    under_way = []

    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        connection.recv(4_096)
        connection.sendall(bytes([0x20, 6, 0, 0, 3, 0x21, 0, 2]))
        waiting: list[bytes] = []
        connection.settimeout(0.2)
        while len(under_way) < 5:
            with suppress(TimeoutError):
                head = connection.recv(2, socket.MSG_WAITALL)
                packet = connection.recv(head[1], socket.MSG_WAITALL)
                size = int.from_bytes(packet[:2])
                waiting.append(packet[2 + size : 4 + size])
                continue
            under_way.extend([len(waiting)] * len(waiting))
            for mid in waiting:
                connection.sendall(b"\x40\x02" + mid)
            waiting.clear()
        connection.recv(4_096)

    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as pool:
        done = pool.submit(serve, listening)
        with closing(MqttSink(f"mqtt://127.0.0.1:{listening.getsockname()[1]}/x")) as sink:
            sink.take([Seen("x", ts=number, id=number, source="s") for number in range(5)])
        done.result(30)
    assert len(under_way) == 5 and max(under_way) <= 2
