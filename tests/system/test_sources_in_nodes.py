"""A FlinkCQL script in a node: the node reads its file and its server, continues when either is away, and lists broken
lines."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from slackline_benchmarks.servers import free_port, until
from structlog.testing import capture_logs

from middleware.model.event import EventTypes
from middleware.runtime.clients import Subscriber
from middleware.runtime.scenario import load_scenario
from middleware.runtime.storage.late_ledger import read_ledger
from middleware.runtime.transport.keys import Keys, load_keys, new_keys

pytestmark = pytest.mark.system

NODES = """
name = "market"
detectors = "market_sources:script"

[policies]
lateness = "60s"

[[nodes]]
name = "desk"
address = "tcp://127.0.0.1:{port}"
durability = "disk"
detectors = ["*"]
"""

CODE = """
from pathlib import Path
from detectors.cql import load_cql

script = load_cql(Path(__file__).with_name("queries.cql"))
"""

QUERIES = """
CREATE STREAM Trade (at Long NOT NULL, symbol String NOT NULL, price Double NOT NULL) TIMESTAMP at
    SOURCE FILE ('trades.csv', ',');
CREATE STREAM Rate (at Long NOT NULL, factor Double NOT NULL) TIMESTAMP at SOURCE HOST ('127.0.0.1', {port});
SELECT symbol, price FROM Trade WHERE price > 3 INTO Dear;
SELECT factor FROM Rate WHERE factor > 0 INTO Factor;
"""

TWO_FILES = """
CREATE STREAM Trade (at Long NOT NULL, price Double NOT NULL) TIMESTAMP at SOURCE FILE ('trades.csv', ',') DISORDER 2 seconds;
CREATE STREAM Slow (at Long NOT NULL, price Double NOT NULL) TIMESTAMP at SOURCE FILE ('slow.csv', ',') DISORDER 2 seconds;
MERGE Trade, Slow INTO Both;
"""


def folder_of(where: Path, host: int) -> int:
    """Write the scenario; returns the node's port."""
    port = free_port()
    (where / "nodes.toml").write_text(NODES.format(port=port))
    (where / "market_sources.py").write_text(CODE)
    (where / "queries.cql").write_text(QUERIES.format(port=host))
    (where / "trades.csv").write_text("at,symbol,price\n")
    return port


def append(where: Path, lines: str) -> None:
    with (where / "trades.csv").open("a") as more:
        more.write(lines)


@contextmanager
def desk(where: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "middleware.cli.main", "node", str(where), "desk", *options]
    with (where / "log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=where.parent)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Server:
    """Sends lines to whoever connects first; its listening socket is handed on, so that its port stays."""

    def __init__(self, port: int = 0) -> None:
        self._socket = socket.create_server(("127.0.0.1", port))
        self._socket.settimeout(120)
        self.port = self._socket.getsockname()[1]

    def send(self, text: bytes) -> socket.socket:
        connection, _ = self._socket.accept()
        connection.sendall(text)
        return connection

    def close(self) -> None:
        self._socket.close()


def is_listed(ledger: Path, line: tuple[int, str, str]) -> bool:
    return [(entry.id, entry.reason, entry.details) for entry in read_ledger(ledger)] == [line]


def inserted(subscriber: Subscriber, found: list[tuple[object, ...]], count: int) -> list[tuple[object, ...]]:
    """What has come, in order, once there is so much of it; a repeat would be there twice."""

    def enough() -> bool:
        for delta in subscriber.receive_batch(0.2).deltas.values():
            assert not delta.retracts and not delta.revises
            found.extend(tuple(getattr(event, name) for name in event.__struct_fields__[:-4]) for event in delta.inserts)
        return len(found) >= count

    until(enough, f"{count} results", 120)
    return sorted(found, key=repr)


def test_files_and_servers_come_and_go_and_nothing_counts_twice(tmp_path: Path) -> None:
    server = Server()
    port = folder_of(tmp_path, server.port)
    types = load_scenario(tmp_path).types
    state = tmp_path / ".slackline" / "market" / "desk"
    with Subscriber(
        f"tcp://127.0.0.1:{port}", ["Dear", "Factor"], event_types=types, resume="here", patience=120
    ) as subscriber:
        found: list[tuple[object, ...]] = []
        with desk(tmp_path) as process:
            subscriber.wait_ready(120)
            append(tmp_path, "10,IBM,4.5\n11,GE,oops\n12,GE,2\n")
            with closing(server.send(b"10,1.5\n11,-1\n12,2")) as connection:
                assert inserted(subscriber, found, 2) == [("IBM", 4.5), (1.5,)]
                connection.shutdown(socket.SHUT_RDWR)
            server.close()
            append(tmp_path, "13,MS,9\n")
            inserted(subscriber, found, 3)
            server = Server(server.port)
            with closing(server.send(b"14,0.5\n")):
                assert inserted(subscriber, found, 4) == [("IBM", 4.5), ("MS", 9.0), (0.5,), (1.5,)]
            # A ledger is written after the events beside which its lines came, which may have made their results by then.
            for name, line in (
                ("Trade", (3, "unread", "price is no Double")),
                ("Rate", (3, "unread", "the connection ended in the middle of this line")),
            ):
                ledger = state / "sources" / name
                until(partial(is_listed, ledger, line), f"{name} is listed", 120)
            process.kill()
            process.wait()
        append(tmp_path, "15,GE,7\n")
        with desk(tmp_path) as process, closing(server.send(b"16,8\n")):
            assert inserted(subscriber, found, 6) == [
                ("GE", 7.0),
                ("IBM", 4.5),
                ("MS", 9.0),
                (0.5,),
                (1.5,),
                (8.0,),
            ]
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    server.close()


def test_a_source_that_is_hours_ahead_makes_nothing_of_another_late(tmp_path: Path) -> None:
    port = folder_of(tmp_path, free_port())
    (tmp_path / "queries.cql").write_text(TWO_FILES)
    with (tmp_path / "nodes.toml").open("a") as more:
        more.write('\n[sources]\nidle = "10min"\n')  # on a busy machine a file may be silent for longer than the default
    (tmp_path / "trades.csv").write_text("at,price\n")
    (tmp_path / "slow.csv").write_text("at,price\n")
    types = load_scenario(tmp_path).types
    address = f"tcp://127.0.0.1:{port}"
    with (
        desk(tmp_path),
        Subscriber(address, ["Both"], event_types=types, patience=120) as subscriber,
        Subscriber(address, ["Both"], event_types=EventTypes(), patience=120) as knows_no_type,
    ):
        found: list[tuple[object, ...]] = []
        for each in (subscriber, knows_no_type):
            each.wait_ready(120)  # the node reads at once, and a subscriber gets what comes from then on
        with (tmp_path / "slow.csv").open("a") as more:
            more.write("10,1.5\n")
        assert inserted(subscriber, found, 1) == [(10, 1.5)]
        append(tmp_path, "36000,2.5\n")
        inserted(subscriber, found, 2)
        with (tmp_path / "slow.csv").open("a") as more:
            more.write("9,3.5\n12,4.5\n")
        assert inserted(subscriber, found, 4) == [(10, 1.5), (12, 4.5), (36000, 2.5), (9, 3.5)]
        with capture_logs() as logs:

            def warned() -> bool:
                knows_no_type.receive(0.2)
                return bool(logs)

            until(warned, "a warning", 120)
        assert (logs[0]["event"], logs[0]["why"]) == ("events are skipped", "unknown type")


def test_a_node_with_keys_reads_its_own_sources_and_ends_where_no_other_attempt_would_help(tmp_path: Path) -> None:
    port = folder_of(tmp_path, free_port())
    types = load_scenario(tmp_path).types
    desk_key, reader = (new_keys(name, tmp_path / f"{name}.key") for name in ("desk", "reader"))
    allow_list = tmp_path / "allowed"
    allow_list.write_text(f"{reader.public} reader\n")
    os.chmod(allow_list, 0o600)
    own = tmp_path / "reader.list"
    own.write_text(f"{desk_key.public} desk\n")
    os.chmod(own, 0o600)
    keys = Keys.load(tmp_path / "reader.key", own)
    assert load_keys(tmp_path / "desk.key") == desk_key
    with (
        desk(tmp_path, "--keys", str(tmp_path / "desk.key"), "--allow-list", str(allow_list)) as process,
        Subscriber(f"tcp://127.0.0.1:{port}", ["Dear"], event_types=types, keys=keys, patience=120) as subscriber,
    ):
        subscriber.wait_ready(120)
        append(tmp_path, "10,IBM,4.5\n")
        assert inserted(subscriber, [], 1) == [("IBM", 4.5)]
        (tmp_path / "trades.csv").write_text("at\n")
        assert process.wait(60) == 2
    assert "was replaced or cut short" in (tmp_path / "log").read_text()
