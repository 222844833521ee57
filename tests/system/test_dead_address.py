"""A client that waits says for what, once, on standard error: a node that does not answer, or types that nobody publishes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_network import TYPES, node_thread
from test_network_cli import slackline

from middleware.runtime.clients import Publisher

pytestmark = pytest.mark.system

ADDRESS = "tcp://127.0.0.1:1"


@pytest.mark.parametrize(
    "arguments",
    [["sub", ADDRESS, "shop.Exit"], ["sub", ADDRESS, "shop.Exit", "--json", "-"], ["pub", ADDRESS, "{events}"]],
)
def test_whoever_waits_says_for_what(arguments: list[str], tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text('{"type": "shop.Exit", "tag": 7, "gate": 1, "visitor": 1, "ts": 1, "id": 1, "source": "gate"}\n')
    command = [sys.executable, "-m", "middleware.cli.main", *(each.format(events=events) for each in arguments)]
    command += ["--types-from", "scenarios.bookstore.shop"]
    top = str(Path(__file__).parents[2])
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": top}, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stderr is not None
        printed = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert f"no node answers at {ADDRESS} yet" in printed, printed + err
    assert "no node answers" not in err, "once"
    assert out == ""


def test_sub_says_that_nobody_publishes_what_it_waits_for(tmp_path: Path) -> None:
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node, Publisher(node.address, types=["Hit"]):
        process = slackline(tmp_path, "sub", node.address, "Other", "bank.*", "--types-from", "test_network")
        assert process.stderr is not None
        printed = [process.stderr.readline().strip() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert printed == [
        "connected to node a: no one publishes 'Other' yet",
        "connected to node a: pattern 'bank.*' does not match the one type known there: Hit",
    ]


@pytest.mark.parametrize("command", ["status", "why-waiting"])
def test_whoever_is_interrupted_waits_no_longer(command: str, tmp_path: Path) -> None:
    process = slackline(tmp_path, command, ADDRESS, "--timeout", "3600")
    assert process.stderr is not None
    printed = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert f"no node answers at {ADDRESS} yet" in printed
    assert process.returncode != 0
