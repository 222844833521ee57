"""A connection to an MQTT broker, whose session outlives it."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any
from urllib.parse import unquote, urlsplit

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from middleware.connect.addresses import host_and_port
from middleware.model.errors import SourceError, UnreachableError

_ANSWERS_WITHIN = 10.0
_REFUSED = {
    "Bad user name or password",
    "Not authorized",
    "Banned",
    "Client identifier not valid",
    "Unsupported protocol version",
}
_TAKEN_OVER = "Session taken over"
_MOST_UNDER_WAY = 65_535
"""The most packets under way that MQTT has numbers for."""


class MqttClient:
    """A connection with a session that outlives it. Raises UnreachableError, SourceError.

    ``address``: mqtt://USER:PASSWORD@HOST:PORT, or mqtts:// with TLS. ``window``: the most messages under way; the broker's
    own limit may be lower. ``received``: messages that nobody has taken yet. ``lost``: why there is no connection any more.
    ``largest``: the most bytes that the broker takes in one packet, if announced. ``numbers_subscriptions``: whether it names
    the subscription for which a message comes.
    """

    def __init__(self, address: str, name: str, window: int, expiry: int) -> None:
        if not isinstance(window, int) or not 1 <= window <= _MOST_UNDER_WAY:
            raise SourceError(f"window = {window!r}: messages under way are a whole number from 1 to {_MOST_UNDER_WAY:,}")
        parts = urlsplit(address)
        host, port = host_and_port(address, 8883 if parts.scheme == "mqtts" else 1883)
        self.address = f"{parts.scheme}://{host}:{port}"
        self.received: deque[paho.MQTTMessage] = deque()
        self.lost: str | None = None
        self.largest: int | None = None
        self.numbers_subscriptions = True
        self.changed = threading.Condition()
        self.window = window
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
        client.on_unsubscribe = lambda _, __, mid, codes, ___: self._on_settled(mid, *codes)
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

    def settled(self, mid: int, what: str) -> str | None:
        """Wait for the answer to a packet; returns the reason if it is refused."""
        self.wait(lambda: mid in self._settled, what)
        return self._settled.pop(mid)

    def close(self) -> None:
        """Disconnect; the session stays at the broker until it expires."""
        self.client.disconnect()
        self.client.loop_stop()

    def _on_connect(self, _: object, __: object, ___: object, code: Any, limits: Properties | None) -> None:
        self.largest = getattr(limits, "MaximumPacketSize", None)
        self.numbers_subscriptions = bool(getattr(limits, "SubscriptionIdentifierAvailable", 1))
        self.window = min(self.window, getattr(limits, "ReceiveMaximum", self.window))
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
