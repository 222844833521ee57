"""A reader that stops reading holds nobody up: it is let go, or served from the log; who asks to block, blocks."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from test_network import DEADLINE, TYPES, Hit, collect, hits, node_thread, poll_until
from test_network_cli import slackline

from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.node import Node
from middleware.runtime.storage.late_ledger import Ledger
from middleware.runtime.storage.store import Store

pytestmark = pytest.mark.system

COUNT, TEXT = 4_000, "x" * 2_000
"""More than a reader, a pipe and all buffers between hold."""


@contextmanager
def node_of(folder: Path, durable: bool) -> Iterator[Node]:
    store = Store(folder / "state", "a") if durable else None
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES, store=store, ledger=Ledger("a")) as node:
        yield node


def reading(node: Node) -> int:
    """How many peers read; ``sub`` comes first as one that only asks which types there are."""
    return sum(peer.reads for peer in node.statistics().peers)


def paused(folder: Path, node: Node, *options: str) -> subprocess.Popen[str]:
    process = slackline(folder, "sub", node.address, "Hit", "--types-from", "test_network", "--json", "-", *options)
    poll_until(lambda: reading(node) >= 2, "sub has attached")
    return process


def publish(publisher: Publisher) -> None:
    for first in range(0, COUNT, 100):
        publisher.publish(hits(first, 100, text=TEXT))


def printed(process: subprocess.Popen[str]) -> tuple[list[str], str]:
    out, errors = process.communicate(timeout=DEADLINE)
    return out.splitlines(), errors


@pytest.mark.parametrize("stop", [False, True], ids=["nobody reads the pipe", "stopped"])
def test_a_paused_sub_is_dropped_with_a_notice_and_others_continue(tmp_path: Path, stop: bool) -> None:
    with node_of(tmp_path, durable=False) as node, Subscriber(node.address, Hit) as quick:
        quick.wait_ready(DEADLINE)
        process = paused(tmp_path, node)
        if stop:
            os.kill(process.pid, signal.SIGSTOP)
        with Publisher(node.address, types=[Hit]) as publisher:
            thread = threading.Thread(target=publish, args=(publisher,), daemon=True)
            thread.start()
            assert [event.id for event in collect(quick, COUNT)] == list(range(COUNT))
            thread.join()
            assert publisher.flush(DEADLINE).taken == COUNT
        if stop:
            os.kill(process.pid, signal.SIGCONT)
        lines, errors = printed(process)
        assert len(lines) < COUNT
        assert "too slow" in errors and "is missing here" in errors
        assert process.returncode == 1


def test_a_paused_sub_of_a_node_with_a_log_gets_all_of_it_later(tmp_path: Path) -> None:
    with node_of(tmp_path, durable=True) as node, Subscriber(node.address, Hit) as quick:
        quick.wait_ready(DEADLINE)
        process = paused(tmp_path, node, "--count", str(COUNT))
        with Publisher(node.address, types=[Hit]) as publisher:
            thread = threading.Thread(target=publish, args=(publisher,), daemon=True)
            thread.start()
            assert len(collect(quick, COUNT)) == COUNT
            thread.join()
            assert publisher.flush(DEADLINE).taken == COUNT
        lines, errors = printed(process)
        assert len(lines) == COUNT and process.returncode == 0, errors


def test_a_sub_that_asks_for_it_makes_the_sources_wait(tmp_path: Path) -> None:
    with node_of(tmp_path, durable=False) as node:
        process = slackline(
            tmp_path,
            "sub",
            node.address,
            "Hit",
            "--types-from",
            "test_network",
            "--json",
            "-",
            "--slow",
            "block",
            "--count",
            str(COUNT),
        )
        poll_until(lambda: reading(node) >= 1, "sub has attached")
        with Publisher(node.address, types=[Hit]) as publisher:
            thread = threading.Thread(target=publish, args=(publisher,), daemon=True)
            thread.start()
            poll_until(lambda: any(peer.slow for peer in node.statistics().peers), "the node says that a reader is slow")
            assert thread.is_alive(), "the publisher waits"
            lines, errors = printed(process)
            thread.join()
        assert len(lines) == COUNT and process.returncode == 0, errors
