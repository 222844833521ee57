"""A client of a node that does not answer says so, once, on standard error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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
        told = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert f"no node answers at {ADDRESS} yet" in told, told + err
    assert ADDRESS not in err, "once"
    assert out == ""
