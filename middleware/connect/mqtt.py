"""MQTT 5: topics as a source, acknowledged once stored, and as a sink."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

import msgspec
import paho.mqtt.client as paho
import xxhash
from msgspec import Meta
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from middleware.connect.addresses import host_and_port
from middleware.connect.numbering import Numbering
from middleware.connect.source import Messages, SourceSpec
from middleware.link.codec import Mark
from middleware.model.errors import SinkError, SourceError, UnreachableError
from middleware.model.event import Event, type_name
from middleware.runtime.records import as_record

_ANSWERS_WITHIN = 10.0
_REFUSED = {
    "Bad user name or password",
    "Not authorized",
    "Banned",
    "Client identifier not valid",
    "Unsupported protocol version",
}
_TAKEN_OVER = "Session taken over"
_ONLY_IF_NEW = 1
"""Retained messages come when a subscription is new, and not again with each connection."""


_Expiry = Annotated[int, Meta(ge=0, lt=2**32)]
_MOST_UNDER_WAY = 65_535
"""What MQTT has a number for."""


class MqttClient:
    """A connection with a session that outlives it. Raises UnreachableError, SourceError.

    ``address``: mqtt://USER:PASSWORD@HOST:PORT, or mqtts:// with TLS. ``window``: the most messages under way.
    ``received``: messages that nobody has taken yet. ``lost``: why there is no connection any more.
    """

    def __init__(self, address: str, name: str, window: int, expiry: int) -> None:
        if not isinstance(window, int) or not 1 <= window <= _MOST_UNDER_WAY:
            raise SourceError(f"window = {window!r}: messages under way are a whole number from 1 to {_MOST_UNDER_WAY:,}")
        parts = urlsplit(address)
        host, port = host_and_port(address, 8883 if parts.scheme == "mqtts" else 1883)
        self.address = f"{parts.scheme}://{host}:{port}"
        self.received: deque[paho.MQTTMessage] = deque()
        self.lost: str | None = None
        self.changed = threading.Condition()
        self._settled: dict[int, str | None] = {}
        self._greeted: str | None = None
        client = paho.Client(
            CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5, reconnect_on_failure=False, manual_ack=True
        )
        if parts.username:
            client.username_pw_set(unquote(parts.username), unquote(parts.password or "") or None)
        if parts.scheme == "mqtts":
            client.tls_set()
        client.max_inflight_messages_set(window)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        client.on_subscribe = lambda _, __, mid, codes, ___: self._on_settled(mid, *codes)
        client.on_publish = lambda _, __, mid, code, ___: self._on_settled(mid, code)
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.ReceiveMaximum = window
        properties.SessionExpiryInterval = expiry
        self.client = client
        try:
            client.connect(host, port, keepalive=20, clean_start=False, properties=properties)
        except (OSError, ValueError) as error:
            raise UnreachableError(f"{self.address}: {error}") from None
        client.loop_start()
        try:
            self.wait(lambda: self._greeted is not None, "greet")
            if self._greeted in _REFUSED:
                raise SourceError(f"{self.address} refuses the connection: {self._greeted}")
            if self._greeted != "Success":
                raise UnreachableError(f"{self.address} refuses the connection for now: {self._greeted}")
        except BaseException:
            self.close()
            raise

    def wait(self, condition: Any, what: str, seconds: float = _ANSWERS_WITHIN) -> None:
        """Wait for a condition that a callback makes true. Raises UnreachableError if that takes too long."""
        with self.changed:
            if not self.changed.wait_for(lambda: condition() or self.lost is not None, seconds):
                raise UnreachableError(f"{self.address} does not {what} within {seconds:g} s")
            if not condition():
                self.check()

    def check(self) -> None:
        """Raise if the connection is lost."""
        if self.lost == _TAKEN_OVER:
            raise SourceError(f"{self.address}: another client has come under the same name; give each input a name of its own")
        if self.lost is not None:
            raise UnreachableError(f"{self.address}: the connection is lost: {self.lost}")

    def settled(self, mids: Sequence[int], what: str) -> list[str]:
        """Wait for the answers to these packets; returns the reasons of those that are refused."""
        self.wait(lambda: all(mid in self._settled for mid in mids), what)
        return [reason for mid in mids if (reason := self._settled.pop(mid)) is not None]

    def close(self) -> None:
        """Disconnect; the session stays at the broker until it expires."""
        self.client.disconnect()
        self.client.loop_stop()

    def _on_connect(self, _: object, __: object, ___: object, code: Any, ____: object) -> None:
        with self.changed:
            self._greeted = str(code)
            self.changed.notify_all()

    def _on_disconnect(self, _: object, __: object, ___: object, code: Any, ____: object) -> None:
        with self.changed:
            self.lost = str(code)
            self.changed.notify_all()

    def _on_message(self, _: object, __: object, message: paho.MQTTMessage) -> None:
        with self.changed:
            self.received.append(message)
            self.changed.notify_all()

    def _on_settled(self, mid: int, *codes: Any) -> None:
        with self.changed:
            self._settled[mid] = next((str(code) for code in codes if code.is_failure), None)
            self.changed.notify_all()


class MqttSource:
    """Messages of topics, with QoS 1, in a session that the broker keeps while this program is away.

    A message that comes again is known by its topic and content, if its events name their own time (``has_own_times``). If
    not, equal messages are different events, and a repeat is known by what MQTT has: its packet number, sent again and marked
    so. A broker that forgets what it has sent, as one that is killed may, can then make two events of one message. Retained
    messages come once, when the subscription is new; a last will is a message like any other.

    ``window``
        the most messages that the broker sends before any is acknowledged; its own limit may be lower.
    ``session``
        seconds for which the broker keeps the session.
    """

    def __init__(self, spec: SourceSpec, *, window: int = 2_000, session: _Expiry = 7 * 86_400) -> None:
        self._has_own_times = spec.has_own_times
        self._numbering = Numbering(spec.folder / "numbers.sqlite")
        self._source = f"mqtt:{spec.name}:{self._numbering.line}"
        try:
            self._mqtt = MqttClient(spec.address, f"slackline-{spec.name}", window, session)
        except BaseException:
            self._numbering.close()
            raise
        try:
            options = SubscribeOptions(qos=1, retainHandling=_ONLY_IF_NEW)
            code, mid = self._mqtt.client.subscribe([(topic, options) for topic in spec.topics])
            if code != MQTTErrorCode.MQTT_ERR_SUCCESS or mid is None:
                raise UnreachableError(f"{self._mqtt.address}: {paho.error_string(code)}")
            if refused := self._mqtt.settled([mid], "confirm the subscription"):
                raise SourceError(f"{self._mqtt.address} refuses to send {', '.join(spec.topics)}: {refused[0]}")
        except BaseException:
            self.close()
            raise

    def receive(self, timeout: float) -> Messages:
        """See Source."""
        mqtt = self._mqtt
        with mqtt.changed:
            mqtt.changed.wait_for(lambda: mqtt.received or mqtt.lost is not None, timeout)
            if not mqtt.received:
                mqtt.check()
            came = list(mqtt.received)
            mqtt.received.clear()
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


class MqttSink:
    """Publishes each final as a JSON object, with QoS 1, and waits for the broker to have it: at least once.

    A receiver tells repeats by (source, id). The topic is that of the address, mqtt://HOST:PORT/TOPIC, in which ``{type}``
    stands for the event type.
    """

    mark: Mark | None = None

    def __init__(self, address: str, name: str = "finals", *, window: int = 1_000) -> None:
        self._topic = unquote(urlsplit(address).path.lstrip("/"))
        if not self._topic or set(self._topic) & {"+", "#"}:
            raise SinkError("mqtt: an output names its topic: mqtt://HOST:PORT/TOPIC, such as mqtt://127.0.0.1/alarms/{type}")
        self._window = window
        try:
            self._mqtt = MqttClient(address, f"slackline-out-{name}", window, 0)
        except SourceError as error:
            raise SinkError(str(error)) from None

    def take(self, events: Sequence[Event]) -> None:
        """See Sink."""
        for start in range(0, len(events), self._window):
            mids = []
            for event in events[start : start + self._window]:
                topic = self._topic.replace("{type}", type_name(event.__class__))
                sent = self._mqtt.client.publish(topic, msgspec.json.encode(as_record(event)), qos=1)
                if sent.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
                    self._mqtt.check()
                    raise UnreachableError(f"{self._mqtt.address}: {paho.error_string(sent.rc)}")
                mids.append(sent.mid)
            if refused := self._mqtt.settled(mids, "take the events"):
                raise SinkError(f"{self._mqtt.address} refuses the events: {refused[0]}")

    def close(self) -> None:
        """See Sink."""
        self._mqtt.close()
