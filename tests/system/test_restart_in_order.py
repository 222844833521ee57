"""A node with a log that is stopped in order and started again, as for an upgrade: those attached continue by themselves."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from test_network import DEADLINE, TYPES, hits, node_thread

from middleware.model.change import Insert
from middleware.model.errors import NetworkError
from middleware.model.event import END
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.storage.store import Store

pytestmark = pytest.mark.system


def read(subscriber: Subscriber, got: list[int]) -> None:
    for change in subscriber:
        if isinstance(change, Insert):
            got.append(change.event.id)


def test_clients_resume_where_they_were(tmp_path: Path) -> None:
    got: list[int] = []
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES, store=Store(tmp_path, "a")) as node:
        address = node.address
        subscriber = Subscriber(address, "Hit", event_types=TYPES, consistency="final")
        subscriber.wait_ready(DEADLINE)
        reading = threading.Thread(target=read, args=[subscriber, got])
        reading.start()
        publisher = Publisher(address, types=["Hit"])
        publisher.publish(hits(1, 20))
        publisher.advance(["Hit"], 1_010)
        publisher.flush(DEADLINE)
    publishing = threading.Thread(target=publisher.publish, args=[hits(21, 20)])  # waits for the node
    publishing.start()
    with node_thread("a", address, types=TYPES, store=Store(tmp_path, "a")):
        publishing.join(DEADLINE)
        publisher.publish(hits(41, 20)[::-1])
        publisher.advance(["Hit"], END)
        publisher.flush(DEADLINE)
        reading.join(DEADLINE)
    assert got == list(range(1, 61))
    assert subscriber.statistics().drops == {}
    publisher.close()
    subscriber.close()


def test_a_node_without_a_log_leaves_for_good() -> None:
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node:
        subscriber = Subscriber(node.address, "Hit", event_types=TYPES)
        subscriber.wait_ready(DEADLINE)
    with pytest.raises(NetworkError, match="said goodbye: node a shuts down"):
        subscriber.receive(DEADLINE)
    subscriber.close()
