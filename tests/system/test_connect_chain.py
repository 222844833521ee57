"""MQTT in, PostgreSQL out, and everything between them killed: each final is a row, once, as the sorted events give it."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from slackline_benchmarks.servers import Mosquitto, Postgres, free_port, serving, until

from middleware.runtime.storage.late_ledger import read_ledger

pytestmark = pytest.mark.system

PLANT = """
from slackline import Detector, Event

class Place(Event):
    tag: str
    x: float

class Step(Event):
    tag: str
    number: int
    dx: float

class Steps(Detector):
    subscribes, publishes, key = (Place,), (Step,), "tag"

    def __init__(self):
        self.number, self.x = 0, 0.0

    def on_event(self, event):
        dx, self.x = event.x - self.x, event.x
        self.number += 1
        return Step(event.tag, self.number, dx, ts=event.ts)
"""

SCENARIO = """
name = "plant"
detectors = ["plant:Steps"]

[policies]
lateness = "5s"

[[nodes]]
name = "floor"
address = "tcp://127.0.0.1:{port}"
detectors = ["*"]

[[inputs]]
name = "hub"
from = "{mqtt}"
mapping = "omlox"
types = {{ "hub/+/location" = "Place" }}

[[outputs]]
name = "steps"
to = "{postgres}"
types = ["Step"]

[[outputs]]
name = "now"
to = "{postgres}"
types = ["Step"]
consistency = "early"
options = {{ prefix = "now_" }}
"""

MESSAGES = 1_500


def location(number: int, start: int) -> tuple[str, str]:
    """Topic and message of a location; every seventh comes a quarter of a second late, every hundredth is broken."""
    tag, at = f"t{number % 5}", start + number * 10_000_000
    when = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at // 10**9))}.{at % 10**9:09}Z"
    text = {
        "position": {"type": "Point", "coordinates": [number * 0.5 if number % 100 else "east", 1.0]},
        "source": "hall",
        "provider_type": "uwb",
        "provider_id": tag,
        "timestamp_generated": when,
    }
    return f"hub/{tag}/location", json.dumps(text)


def expected() -> list[tuple[str, int, float]]:
    """What the detector makes of the good ones in order."""
    counts: Counter[str] = Counter()
    last: dict[str, float] = {}
    steps = []
    for number in range(MESSAGES):
        if number % 100:
            tag = f"t{number % 5}"
            counts[tag] += 1
            steps.append((tag, counts[tag], number * 0.5 - last.get(tag, 0.0)))
            last[tag] = number * 0.5
    return sorted(steps)


@contextmanager
def publishing(broker: Mosquitto) -> Iterator[paho.Client]:
    """A client that sends again whatever a killed broker may not have taken."""
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, "sensors", protocol=paho.MQTTv5)  # type: ignore[attr-defined]
    client.reconnect_delay_set(1, 1)
    client.connect("127.0.0.1", broker.port, clean_start=False)
    client.loop_start()
    try:
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


def test_each_final_is_a_row_once_whatever_is_killed(tmp_path: Path) -> None:
    mosquitto = tmp_path / "mosquitto"
    mosquitto.mkdir()
    with Mosquitto(mosquitto) as broker, Postgres() as database, ExitStack() as stack:
        settings = {"port": free_port(), "mqtt": broker.address, "postgres": database.address}
        running = stack.enter_context(serving(tmp_path, PLANT, SCENARIO.format(**settings), ends=3))

        def early() -> int:
            return int((database.rows("SELECT count(*) FROM now_step") or [(0,)])[0][0])

        ledger = tmp_path / ".slackline" / "plant" / "connect" / "hub"
        start = (time.time_ns() // 10**9 - 7_200) * 10**9
        order = sorted(range(MESSAGES), key=lambda number: number + (25 if number % 7 == 0 else 0))
        with publishing(broker) as client:
            for index, victim in enumerate(["connect", "node", "broker", "database", "connect", "nobody"]):
                if victim == "nobody":  # it is slow for a while
                    database.pause()
                sent = [location(number, start) for number in order[index * 250 : (index + 1) * 250]]
                for topic, message in sent:
                    client.publish(topic, message, qos=1)
                database.resume()
                enough = random.Random(index).randint(1, 200) + index * 240
                until(lambda enough=enough: early() >= enough, f"rows come in before {victim}")  # type: ignore[misc]
                running.strike(victim, broker=broker, database=database)
                if victim == "broker":  # mosquitto acknowledges before it saves: what it had just taken may be gone
                    for topic, message in sent:
                        client.publish(topic, message, qos=1)
            far = {"provider_id": "end", "position": {"coordinates": [0.0, 0.0]}, "timestamp_generated": start // 10**9 + 3_000}
            far["timestamp_generated"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(start // 10**9 + 3_000))
            client.publish("hub/end/location", json.dumps(far), qos=1)
            query = "SELECT tag, number, dx FROM {}step WHERE tag <> 'end' ORDER BY tag, number"
            until(lambda: len(database.rows(query.format(""))) >= len(expected()), "all finals are there")
        assert database.rows(query.format("")) == expected()
        until(lambda: database.rows(query.format("now_")) == expected(), "early changes come to the same")
        unread = read_ledger(ledger)
        assert {entry.reason for entry in unread} == {"unread"}
        assert len(unread) == len({entry.id for entry in unread}) == MESSAGES // 100
        assert "expected `float`" in unread[0].details.lower()
        assert running.finish("connect") == 143, running.output_of("connect")
        assert "lost: trying again" in running.output_of("connect")
