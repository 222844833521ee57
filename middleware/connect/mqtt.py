"""MQTT 5: topics as a source, acknowledged once stored, and as a sink."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn
from urllib.parse import unquote

import msgspec
import paho.mqtt.client as paho
import xxhash
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from middleware.connect.messages.numbering import KEPT, Numbering
from middleware.connect.messages.source import Messages, SourceSpec, matches
from middleware.connect.mqtt_client import MqttClient
from middleware.link.codec import SinkPosition
from middleware.model.errors import SinkError, SourceError, UnreachableError
from middleware.model.event import Event, type_name
from middleware.runtime.json_records import as_record

_TIMES = 2
_FOR_NOW = "Quota exceeded"
_HEAD = 10
"""Bytes of a packet beside topic and body, at most."""

_ONLY_IF_NEW = 1
"""Retained messages come when a subscription is new, and not again with each connection."""

_HALF_A_ROUND = 32_768
"""Messages after which a packet number may be another message's: a connection has 65,535 of them."""

_decode = msgspec.json.Decoder(list[str]).decode

_Expiry = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]


class MqttSource:
    """Messages of topics, with QoS 1, in a session that the broker keeps while this program is away.

    A message that comes again is known by its topic and content, if its events name their own time (``has_own_times``). If
    not, equal messages are different events, and a repeat is known by what MQTT has: its packet number, sent again and marked
    so. A broker that forgets what it has sent, as one that is killed may, can then make two events of one message. Retained
    messages come once, when the subscription is new; a last will is a message like any other. The copy for the first pattern
    counts of a message that fits several; former patterns of this input are unsubscribed from.

    ``window``
        the most messages that the broker sends before any is acknowledged; its own limit may be lower.
    ``session``
        seconds for which the broker keeps the session.
    """

    def __init__(self, spec: SourceSpec, *, window: int = 2_000, session: _Expiry = 7 * 86_400) -> None:
        self._has_own_times = spec.has_own_times
        if not spec.topics:
            raise SourceError("types: none are given; name a type for each pattern of topics")
        self._patterns = {_number(pattern): pattern for pattern in spec.topics}
        kept = KEPT if spec.has_own_times else _HALF_A_ROUND
        self._numbering = Numbering(spec.folder / "numbers.sqlite", kept)
        self._source = f"mqtt:{spec.name}:{self._numbering.line}"
        try:
            self._mqtt = MqttClient(spec.address, f"slackline-{spec.name}", window, session)
        except BaseException:
            self._numbering.close()
            raise
        try:
            self._subscribe(spec.folder / "patterns.json")
        except BaseException:
            self.close()
            raise

    def _subscribe(self, file: Path) -> None:
        """Subscribe to the patterns, and drop those of former lives, which ``file`` has: the session has them still."""
        client, patterns = self._mqtt.client, list(self._patterns.values())
        former = _decode(file.read_bytes()) if file.exists() else []
        file.write_bytes(msgspec.json.encode([*dict.fromkeys((*former, *patterns))]))
        options = SubscribeOptions(qos=1, retainHandling=_ONLY_IF_NEW)
        for number, pattern in self._patterns.items():
            properties = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
            if self._mqtt.numbers_subscriptions:
                properties.SubscriptionIdentifier = number
            try:
                code, mid = client.subscribe(pattern, options=options, properties=properties)
            except ValueError:
                raise SourceError(
                    f"types: {pattern!r} is no pattern of MQTT topics: + stands for a level, # for the rest"
                ) from None
            if code != MQTTErrorCode.MQTT_ERR_SUCCESS or mid is None:
                raise UnreachableError(f"{self._mqtt.address}: {paho.error_string(code)}")
            if refused := self._mqtt.settled(mid, "confirm the subscription"):
                raise SourceError(f"{self._mqtt.address} refuses to send {pattern}: {refused}")
        if gone := [pattern for pattern in former if pattern not in patterns]:
            code, mid = client.unsubscribe(gone)
            if code == MQTTErrorCode.MQTT_ERR_SUCCESS and mid is not None:
                self._mqtt.settled(mid, "end a subscription")
        file.write_bytes(msgspec.json.encode(patterns))

    def _is_put_off(self, message: paho.MQTTMessage) -> bool:
        """Whether it came for another pattern than the first that fits, as brokers may send it once for each: then it is
        acknowledged, and that is all."""
        numbers = getattr(message.properties, "SubscriptionIdentifier", None) or ()
        if self._patterns.keys().isdisjoint(numbers):
            return False
        first = next((number for number, pattern in self._patterns.items() if matches(pattern, message.topic)), None)
        is_copy = first is not None and first not in numbers
        if is_copy:
            self._mqtt.client.ack(message.mid, message.qos)
        return is_copy

    def receive(self, timeout: float) -> Messages:
        """See Source."""
        mqtt = self._mqtt
        with mqtt.changed:
            mqtt.changed.wait_for(lambda: mqtt.received or mqtt.lost is not None, timeout)
            if not mqtt.received:
                mqtt.check()
            came = list(mqtt.received)
            mqtt.received.clear()
        if len(self._patterns) > 1:
            came = [each for each in came if not self._is_put_off(each)]
        if not came:
            return Messages()
        numbered = self._numbering.numbers([self._key(each) for each in came], time.time_ns())
        return Messages(
            [each.topic for each in came],
            [bytes(each.payload) for each in came],
            [self._source] * len(came),
            [number for number, _ in numbered],
            [at for _, at in numbered],
            [(each.mid, each.qos) for each in came],
        )

    def _key(self, message: paho.MQTTMessage) -> tuple[bytes, bool]:
        topic = message.topic.encode()
        content = xxhash.xxh3_128_digest(len(topic).to_bytes(4) + topic + message.payload)
        if self._has_own_times:
            return content, True
        return message.mid.to_bytes(2) + content, message.dup

    def acknowledge(self, messages: Messages) -> None:
        """See Source."""
        for mid, qos in messages.handles:
            self._mqtt.client.ack(mid, qos)

    def close(self) -> None:
        """See Source."""
        self._mqtt.close()
        self._numbering.close()


def _number(pattern: str) -> int:
    """The number of a subscription, the same in each life: from 1 to 268,435,455."""
    return xxhash.xxh32_intdigest(pattern.encode()) % (2**28 - 1) + 1


def _client_of_sink(address: str, name: str, window: int) -> MqttClient:
    try:
        return MqttClient(address, f"slackline-out-{name}", window, 0)
    except SourceError as error:
        raise SinkError(str(error)) from None


class MqttSink:
    """Publishes each final as a JSON object, with QoS 1, and waits for the broker to have it: at least once.

    A receiver tells repeats by (source, id). The topic is that of the address, mqtt://HOST:PORT/TOPIC, in which ``{type}``
    stands for the event type.
    """

    position: SinkPosition | None = None

    def __init__(self, address: str, name: str = "finals", *, window: int = 1_000) -> None:
        self._topic = unquote(address.partition("://")[2].partition("/")[2].lstrip("/"))  # ? and # are part of it
        if not self._topic or set(self._topic) & {"+", "#"}:
            raise SinkError("mqtt: an output names its topic: mqtt://HOST:PORT/TOPIC, such as mqtt://127.0.0.1/alarms/{type}")
        self._connect = partial(_client_of_sink, address, name, window)
        self._mqtt = self._connect()

    def take(self, events: Sequence[Event]) -> None:
        """See Sink."""
        under_way: deque[tuple[int, str, bytes]] = deque()
        topic, body = "", b""
        try:
            for topic, body in map(self._message, events):
                if len(under_way) >= self._mqtt.window:
                    self._settle(under_way)
                under_way.append((self._sent(topic, body), topic, body))
            while under_way:
                self._settle(under_way)
        except UnreachableError:
            if self._mqtt.lost is not None and body:
                # the one that was to be sent next counts too: its sending may have ended the connection
                suspects = [(topic, body), *(sent[1:] for sent in under_way)]
                self._try_alone(*max(suspects, key=lambda sent: len(sent[1])))
            raise

    def _try_alone(self, topic: str, body: bytes) -> None:
        """Not every broker says what it will never take. Raises SinkError if it is lost at this message each time."""
        for _ in range(_TIMES):
            self._mqtt.close()
            self._mqtt = self._connect()
            try:
                self._settle(deque([(self._sent(topic, body), topic, body)]))
            except UnreachableError:
                if self._mqtt.lost is None:
                    raise
            else:
                return
        self._refuse(topic, body, f"ends each connection on which it comes ({self._mqtt.lost})")

    def _message(self, event: Event) -> tuple[str, bytes]:
        """Topic and body of an event. Raises SinkError if they are more than the broker takes."""
        topic, body = self._topic.replace("{type}", type_name(event.__class__)), msgspec.json.encode(as_record(event))
        largest = self._mqtt.largest
        if largest is not None and len(topic.encode()) + len(body) + _HEAD > largest:
            self._refuse(topic, body, f"takes at most {largest:,} bytes in a packet")
        return topic, body

    def _sent(self, topic: str, body: bytes) -> int:
        sent = self._mqtt.client.publish(topic, body, qos=1)
        if sent.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            self._mqtt.check()
            raise UnreachableError(f"{self._mqtt.address}: {paho.error_string(sent.rc)}")
        return sent.mid

    def _settle(self, under_way: deque[tuple[int, str, bytes]]) -> None:
        if refused := self._mqtt.settled(under_way[0][0], "take the events"):
            error = UnreachableError if refused == _FOR_NOW else SinkError
            raise error(f"{self._mqtt.address} refuses the events: {refused}")
        under_way.popleft()

    def _refuse(self, topic: str, body: bytes, why: str) -> NoReturn:
        raise SinkError(
            f"{self._mqtt.address} {why}: an event for {topic} of {len(body):,} bytes; let the broker take messages that "
            f"large (it begins {body[:80].decode(errors='replace')})"
        )

    def close(self) -> None:
        """See Sink."""
        self._mqtt.close()
