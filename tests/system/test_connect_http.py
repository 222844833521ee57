"""CloudEvents in, CloudEvents and WebSocket messages out."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from slackline_benchmarks.servers import free_port, serving, until
from test_network import TYPES, Hit, collect, hits, node_thread
from test_sub_to import endpoint
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from middleware.connect.cloudevents import CloudEventsSource
from middleware.connect.feeding import Feed
from middleware.connect.messages.reading import MessageReader
from middleware.connect.messages.source import SourceSpec
from middleware.connect.websocket import WebSocketSink
from middleware.model.change import Insert, Retract
from middleware.model.errors import SinkError, SourceError
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.sinks.sink import open_sink
from middleware.runtime.storage.late_ledger import Ledger, read_ledger

pytestmark = pytest.mark.system

BATCH = "application/cloudevents-batch+json"


def cloud_event(number: int, peak: Any = 0.5, **others: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": str(number), "source": "/press", "type": "press.hit", "data": {"peak": peak}} | others


def post(address: str, body: Any, kind: str = BATCH, **headers: str) -> int:
    given = {"Content-Type": kind} | {key.replace("_", "-"): value for key, value in headers.items()}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data, given), timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


@contextmanager
def feeding(address: str, node: str, folder: Path, **options: Any) -> Iterator[None]:
    over = threading.Event()
    reader = MessageReader({"press.hit": "Hit"}, TYPES)
    with closing(Ledger("press", folder)) as ledger, Publisher(node, types=[Hit]) as publisher:
        feed = Feed(publisher, reader, ledger, over.is_set)
        with closing(CloudEventsSource(SourceSpec(address, "press", ["press.hit"], folder), **options)) as source:
            thread = threading.Thread(target=feed.run, args=[source])
            thread.start()
            try:
                yield
            finally:
                over.set()
                thread.join()


def test_a_post_is_answered_once_its_events_are_stored_and_a_repeat_counts_once(tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{free_port()}/in"
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node, Subscriber(node.address, Hit) as subscriber:
        subscriber.wait_ready(30)
        with feeding(address, node.address, tmp_path, token="secret"):

            def send(body: Any, kind: str = BATCH, **headers: str) -> int:
                return post(address, body, kind, Authorization="Bearer secret", **headers)

            assert post(address, [cloud_event(1)]) == 401
            timed = "2026-03-01T12:00:00.25Z"
            assert send([cloud_event(1), cloud_event(2, time=timed)]) == 204
            assert send(cloud_event(3), "application/cloudevents+json") == 204
            binary = {"ce_id": "4", "ce_source": "/press", "ce_type": "press.hit", "ce_specversion": "1.0"}
            assert send({"peak": 4.5}, "application/json", **binary) == 204
            assert send([cloud_event(5, "high"), cloud_event(6, type="press.miss"), cloud_event(7)]) == 204
            assert send([]) == 204
            deep = b"[" * 3_000 + b"]" * 3_000
            for broken in (
                b"nonsense",
                deep,
                [{"id": "1"}],
                [cloud_event(8, specversion="0.3")],
                [cloud_event(8, time="noon")],
            ):
                assert send(broken) == 400
            assert send([cloud_event(10, time="9999-12-31T23:59:59Z")]) == 204
            assert send(b" " * 2**21) == 413
        with feeding(address, node.address, tmp_path):  # its numbers outlast it
            assert post(address, [cloud_event(1), cloud_event(2, time=timed), cloud_event(9, 9.5)]) == 204
        events = collect(subscriber, 6)
    assert [event.peak for event in events if isinstance(event, Hit)] == [0.5, 0.5, 0.5, 4.5, 0.5, 9.5]
    assert events[1].ts == 1_772_366_400_250_000_000
    assert [(entry.reason, entry.type) for entry in read_ledger(tmp_path)] == [
        ("unread", "Hit"),
        ("unread", "press.miss"),
        ("unread", "Hit"),
    ]


def test_it_does_not_listen_to_other_machines_without_a_token(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="give a token"):
        CloudEventsSource(SourceSpec("http://0.0.0.0:8080/in", "press", ["press.hit"], tmp_path))
    with pytest.raises(SinkError, match="give a token"):
        WebSocketSink("ws://0.0.0.0:8080/")


def test_finals_go_out_as_cloud_events() -> None:
    with endpoint() as (url, received), closing(open_sink(url, cloudevents=True)) as sink:
        sink.take([Hit(0.5, ts=1_772_366_400_250_000_000, id=1, source="ball"), *hits(1, 1)])
    first = received[0]
    assert "time" not in received[1]
    assert first["data"]["peak"] == 0.5
    assert {key: first[key] for key in ("specversion", "id", "source", "type", "time")} == {
        "specversion": "1.0",
        "id": "1",
        "source": "ball",
        "type": "Hit",
        "time": "2026-03-01T12:00:00.25Z",
    }


def test_who_is_connected_gets_finals_and_changes() -> None:
    port = free_port()
    with closing(open_sink(f"ws://127.0.0.1:{port}", token="secret")) as sink:
        assert isinstance(sink, WebSocketSink)
        sink.take(hits(1, 1))  # nobody is there
        for refused in (f"ws://127.0.0.1:{port}/", f"ws://127.0.0.1:{port}/?token=wrong"):
            with pytest.raises(InvalidStatus, match="401"):
                connect(refused)
        with pytest.raises(InvalidStatus, match="403"):
            connect(f"ws://127.0.0.1:{port}/?token=secret", origin="https://elsewhere.example")  # type: ignore[arg-type]
        with connect(f"ws://127.0.0.1:{port}/?token=secret") as reader, connect(f"ws://127.0.0.1:{port}/?token=secret") as slow:
            sink.take(hits(2, 1))
            sink.apply([Insert(hits(3, 1)[0]), Retract(hits(3, 1)[0])])
            found = [json.loads(reader.recv(10)) for _ in range(3)]
            assert [(each["id"], each.get("change")) for each in found] == [(2, None), (3, "insert"), (3, "retract")]

            for _ in range(20):  # one reads, the other does not: more comes than may wait for it
                sink.take(hits(4, 10, text="x" * 100_000))
                for _ in range(10):
                    reader.recv(10)
            with pytest.raises(ConnectionClosed):  # noqa: PT012
                for _ in range(203):
                    slow.recv(10)


def test_a_backlog_comes_to_who_reads_it() -> None:
    address = f"ws://127.0.0.1:{free_port()}"
    with closing(open_sink(address)) as sink, connect(address) as reader, ThreadPoolExecutor(1) as pool:
        found = pool.submit(lambda: [json.loads(reader.recv(10))["id"] for _ in range(400)])
        backlog = hits(1, 400, text="x" * 100_000)
        sink.take(backlog)  # 40 MB at once, far more than may wait
        assert found.result() == [each.id for each in backlog]


PLANT = """
from slackline import Detector, Event

class Stroke(Event):
    peak: float

class Total(Event):
    count: int
    sum: float

class Totals(Detector):
    subscribes, publishes = (Stroke,), (Total,)

    def __init__(self):
        self.count, self.sum = 0, 0.0

    def on_event(self, event):
        self.count += 1
        self.sum += event.peak
        return Total(self.count, self.sum, ts=event.ts)
"""

SCENARIO = """
name = "plant"
detectors = ["plant:Totals"]
[policies]
lateness = "1h"
[[nodes]]
name = "floor"
address = "tcp://127.0.0.1:{port}"
detectors = ["*"]
[[inputs]]
name = "press"
from = "{http}"
types = {{ "press.hit" = "Stroke" }}
[[outputs]]
name = "totals"
to = "totals.jsonl"
types = ["Total"]
"""


def test_each_final_once_though_the_receiver_is_killed_under_those_who_send(tmp_path: Path) -> None:
    """A sender repeats what was not answered with 204; four send at once while the receiver is killed three times."""
    ledger = tmp_path / ".slackline" / "plant" / "connect" / "press"
    http, count = f"http://127.0.0.1:{free_port()}/in", 240

    def send(first: int) -> None:
        for number in range(first, count, 4):
            when = f"2026-03-01T12:{number // 60:02}:{number % 60:02}Z"
            body = [cloud_event(number, float(number), time=when), cloud_event(10_000 + number, "high", time=when)]
            until(lambda body=body: answered(body), f"{number} is stored")  # type: ignore[misc]

    def answered(body: Any) -> bool:
        try:
            return post(http, body) == 204
        except OSError:  # nobody is there
            return False

    with serving(tmp_path, PLANT, SCENARIO.format(port=free_port(), http=http), ends=2) as running:
        with ThreadPoolExecutor(4) as senders:
            sent = [senders.submit(send, first) for first in range(4)]
            for stored in (40, 100, 160):
                until(lambda stored=stored: len(read_ledger(ledger)) >= stored, f"{stored} are stored")  # type: ignore[misc]
                running.strike("connect")
            for each in sent:
                each.result()
        assert post(http, [cloud_event(99_999, 0.0, time="2026-03-01T15:00:00Z")]) == 204
        out = tmp_path / "totals.jsonl"
        until(lambda: out.read_bytes().count(b"\n") >= count, "all finals are there")
        assert running.finish("connect") == 143, running.output_of("connect")
    found = [(each["count"], each["sum"]) for each in map(json.loads, out.read_text().splitlines())]
    assert found == [(n + 1, n * (n + 1) / 2) for n in range(count)]
    listed = [(entry.id, entry.type, entry.details) for entry in read_ledger(ledger)]
    assert len({number for number, _, _ in listed}) == count
    assert all(kind == "Stroke" and "Expected `float`" in why for _, kind, why in listed)
