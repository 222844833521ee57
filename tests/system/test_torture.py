"""Twenty faults on real nodes: nobody dies, progress resumes, and the finals are as if nothing had happened."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from slackline_torture.application import Reading, application
from slackline_torture.faults import FAULTS, drawn
from slackline_torture.proxy import Proxy
from slackline_torture.soak import GROWTH, SLACK, Sample, not_flat, soak
from slackline_torture.torture import RESULTS, Struck, compared, torture
from test_network import DEADLINE, Hit, NodeProcess, collect, hits, poll_until

from middleware.model.event import Event
from middleware.model.time import SECOND
from middleware.runtime.clients import Publisher, Subscriber
from middleware.testing.oracle import oracle

pytestmark = pytest.mark.system

COUNT = 20


def test_twenty_faults_change_nothing() -> None:
    struck: list[Struck] = []
    report = torture(COUNT, seed=11, longest=1.5, show=struck.append)
    assert report.wrong == []
    assert len(struck) == COUNT
    assert {each.blow.name for each in struck} == set(FAULTS)
    assert report.events > 5_000 and report.finals > 1_000
    assert report.late == 0, "of honest sources"
    assert report.rejected["ahead"] > 0 and report.rejected["late"] > 0
    assert report.drops["malformed frame"] > 0


def test_the_same_seed_draws_the_same_faults() -> None:
    assert drawn(40, 3, 2.0) == drawn(40, 3, 2.0) != drawn(40, 4, 2.0)
    assert all(0.2 <= blow.seconds <= 2.0 for blow in drawn(40, 3, 2.0))


def readings(count: int) -> list[Event]:
    return [Reading(n % 5, n * 37 % 50, ts=n * SECOND, id=n, source="s") for n in range(1, count)]


def test_the_comparison_finds_what_is_missing_doubled_changed_or_out_of_order() -> None:
    raw = readings(200)
    finals = sorted(
        (e for events in oracle(raw, application()).values() for e in events if isinstance(e, RESULTS)),
        key=lambda e: (e.ts, e.level, e.source, e.id),
    )
    assert compared(finals, raw, []) == []
    assert "1 finals missing" in compared(finals[:-1], raw, [])[0]
    assert "too many or changed" in compared([*finals, finals[0]], raw, [])[0]
    assert compared([finals[1], finals[0], *finals[2:]], raw, []) == ["the finals are not in order"]
    assert len(compared(finals, raw[:50] + raw[51:], [])) >= 1


@pytest.fixture
def echo() -> socket.socket:
    """A server that gives back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=give_back, args=(connection,), daemon=True).start()

    def give_back(connection: socket.socket) -> None:
        while data := connection.recv(1_000):
            connection.sendall(data)
        connection.close()

    threading.Thread(target=serve, daemon=True).start()
    return listener


def test_a_proxy_forwards_stalls_and_cuts(echo: socket.socket) -> None:
    with Proxy(f"tcp://127.0.0.1:{echo.getsockname()[1]}") as proxy:
        host, _, port = proxy.address.removeprefix("tcp://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=DEADLINE) as client:
            client.sendall(b"through")
            assert client.recv(100) == b"through"
            proxy.stall()
            client.sendall(b"late")
            client.settimeout(0.05)
            with pytest.raises(TimeoutError):
                client.recv(100)
            proxy.heal()
            client.settimeout(DEADLINE)
            assert client.recv(100) == b"late"
            proxy.cut()
            assert client.recv(100) == b""
        with socket.create_connection((host, int(port)), timeout=DEADLINE) as refused:
            assert refused.recv(100) == b""
        proxy.heal()
        with socket.create_connection((host, int(port)), timeout=DEADLINE) as again:
            again.sendall(b"back")
            assert again.recv(100) == b"back"
        assert proxy.connections == 2
    echo.close()


def test_a_break_shorter_than_the_silence_loses_nothing() -> None:
    """Five seconds without a connection, while events continue: the subscriber gets each once."""
    with (
        NodeProcess("a", "tcp://127.0.0.1:*") as node,
        Proxy(node.address) as proxy,
        Subscriber(proxy.address, Hit) as subscriber,
        Publisher(node.address, types=[Hit]) as publisher,
    ):
        subscriber.wait_ready(DEADLINE)
        publisher.publish(hits(0, 100))
        assert collect(subscriber, 100) == hits(0, 100)
        proxy.cut()
        start = time.monotonic()
        publisher.publish(hits(100, 100))
        publisher.flush(DEADLINE)
        poll_until(lambda: time.monotonic() - start > 5, "five seconds have passed")
        proxy.heal()
        assert collect(subscriber, 100) == hits(100, 100)
        assert subscriber.statistics().restarts == 0


def test_more_than_the_nodes_can_take_fills_no_memory_and_drops_nothing() -> None:
    report = soak(4.0, 2.0, 2.0, lambda sample: None)
    crossed = "frame of an unknown link"  # it crossed a Hello or a goodbye, on a busy machine; no event, as the counts show
    assert [each for each in report.wrong if not each.endswith(crossed)] == []
    assert report.finals == report.expected > 1_000
    assert report.drops.keys() <= {crossed}


def test_memory_that_grows_is_found() -> None:
    def course(*sizes: int) -> list[Sample]:
        return [Sample(float(number), 0, 0, {"a": size, "b": 10**8}) for number, size in enumerate(sizes)]

    assert not_flat(course(*[10**8] * 9)) == []
    assert not_flat(course(*[10**8] * 6, *[round(10**8 * GROWTH) + SLACK] * 3)) == []
    (wrong,) = not_flat(course(*[10**8] * 6, *[round(10**8 * GROWTH) + SLACK + 1] * 3))
    assert "node a grew from 95 MB" in wrong
