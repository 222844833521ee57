"""A node that cannot start says why and ends, and lets go of what it had taken."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import ClassVar

import pytest
from test_network import poll_until

from middleware.broker.log.log_records import Record
from middleware.durability.checkpoint import Piece, whole
from middleware.durability.durable_core import Write
from middleware.model.errors import NetworkError, StateError
from middleware.model.event import Event, EventTypes
from middleware.runtime.clients import Subscriber
from middleware.runtime.node import Node
from middleware.runtime.storage.late_ledger import Ledger
from middleware.runtime.storage.store import Retention, Store
from tests.unit.runtime.disks import disk_where

pytestmark = pytest.mark.system

PLAN = """
name = "small"
detectors = "watch:none"

[recording]
generate = "watch:none"

[[nodes]]
name = "edge"
"""


def test_a_port_in_use_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "nodes.toml").write_text(PLAN)
    (tmp_path / "watch.py").write_text("def none():\n    return []\n")
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        command = [sys.executable, "-m", "middleware.cli.main", "node", ".", "edge", "--address", f"edge={address}"]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines() == [
        f"error: node edge cannot start: cannot bind {address}: Address already in use (addr='{address}'); "
        "is another node running there?"
    ]


def test_the_state_is_free_again(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="is no address") as held:
        Node("n", "tcp://127.0.0.1:x", ledger=Ledger("n", tmp_path), store=Store(tmp_path, "n"))
    with pytest.raises(StateError, match="cannot run it") as also_held:
        Node("n", "tcp://127.0.0.1:*", processor=object.__new__(Plain), store=Store(tmp_path, "n"))
    node = Node("n", "tcp://127.0.0.1:*", store=Store(tmp_path, "n"))
    node.stop()
    node.run()
    assert held.tb is not None and also_held.tb is not None  # the traceback kept nothing open


def test_a_store_that_cannot_store_ends_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk_where(monkeypatch, lambda sql: MemoryError("no more") if sql == "COMMIT" else None)
    node = Node("n", "tcp://127.0.0.1:*", types=EventTypes([Tick]), store=Store(tmp_path, "n"))
    ended: list[BaseException] = []

    def run() -> None:
        try:
            node.run()
        except StateError as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    with Subscriber(node.address, Tick):
        thread.join(30)
    assert "cannot be written, now or later: no more" in str(ended[0])
    monkeypatch.undo()
    Store(tmp_path, "n").close()


def test_a_log_that_was_cut_off_cannot_be_built_anew_from(tmp_path: Path) -> None:
    store = Store(tmp_path, "n", Retention(age=1))
    for number in (1, 2, 3):  # none has blocks: the positions of the log do not tell that it was cut off
        pieces = [Piece(number, part, piece) for part, piece in enumerate(whole(b"state"))]
        store.write(Write(Record(number, 0, [], False, None, {}), pieces))
        poll_until(lambda: (store.stored(), store.idle)[1], "it is stored")
    store.close()
    with pytest.raises(StateError, match="does not reach back to its beginning"):
        Node("n", "tcp://127.0.0.1:*", store=Store(tmp_path, "n"), rebuild=True)


class Tick(Event):
    n: int


class Plain:
    """A processor without state()/restore()."""

    subscriptions = publications = frozenset[str]()
    derivations: ClassVar[dict[str, frozenset[str]]] = {}
