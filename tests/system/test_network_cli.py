"""``slackline sub``, ``pub`` and ``keys new`` against a node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_network import DEADLINE, TYPES, Hit, collect, node_thread, poll_until

from middleware.runtime.clients import Subscriber
from middleware.runtime.transport.keys import load_keys

pytestmark = pytest.mark.system


def slackline(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The command, started in the folder of this file, where it finds the event classes."""
    command = [sys.executable, "-m", "middleware.cli.main", *arguments]
    paths = {"PYTHONPATH": f"{Path(__file__).parents[2]}:{Path(__file__).parent}", "PATH": "/usr/bin:/bin"}
    return subprocess.Popen(command, cwd=folder, env=paths, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, errors
    return out


def test_what_comes_from_a_pipe_is_published_as_it_comes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node, Subscriber(node.address, Hit) as subscriber:
        subscriber.wait_ready(DEADLINE)
        pub = slackline(tmp_path, "pub", node.address, "pipe", "--types-from", "test_network")
        with (tmp_path / "pipe").open("w") as pipe:
            pipe.write('{"type": "Hit", "peak": 1.5, "text": "", "ts": 7}\n')
            pipe.flush()
            assert [event.ts for event in collect(subscriber, 1)] == [7]
        finished(pub)


def test_pub_keeps_the_good_lines_and_names_the_broken_ones(tmp_path: Path) -> None:
    lines = [
        '{"type": "Hit", "peak": 1.5, "ts": 7}',
        '{"type": "Hit", "peak": "high", "ts": 8}',
        "nonsense",
        '{"type": "Miss", "ts": 8}',
        '{"peak": 1, "ts": 8}',
        '{"type": "Hit", "ts": 8}',
        '{"type": "Hit", "peak": 1, "text": "\udcff", "ts": 8}',  # a byte that no text has
        '{"type": "Hit", "peak": 2.5, "ts": 5, "id": 99, "source": "radar", "unknown": 1}',
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines), errors="surrogateescape")
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node:
        sub = slackline(
            tmp_path, "sub", node.address, "Hit", "--types-from", "test_network", "--json", "-", "--consistency", "final"
        )
        poll_until(lambda: any(peer.reads for peer in node.statistics().peers), "sub has attached")
        out = finished(
            slackline(
                tmp_path,
                "pub",
                node.address,
                "in.jsonl",
                "--types-from",
                "test_network",
                "--source",
                "pub",
                "--end",
                "--json",
                "result.json",
            )
        )
        assert "published 2 events; 6 broken records skipped" in out
        assert "in.jsonl:3: " in out
        assert json.loads((tmp_path / "result.json").read_text())["broken"] == 6
        assert [msgspec.json.decode(line) for line in finished(sub).splitlines()] == [
            {"change": "insert", "type": "Hit", "peak": 2.5, "text": "", "ts": 5, "id": 99, "source": "radar", "level": 0},
            {"change": "insert", "type": "Hit", "peak": 1.5, "text": "", "ts": 7, "id": 1, "source": "pub", "level": 0},
            {"change": "watermark", "ts": 2**62},
        ]


def test_pub_reads_parquet(tmp_path: Path) -> None:
    columns = {"peak": [0.5, 1.5], "ts": [3, 4], "id": [1, 2], "source": ["a", "a"], "text": ["", "x"]}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node, Subscriber(node.address, Hit) as subscriber:
        subscriber.wait_ready(DEADLINE)
        arguments = ["pub", node.address, "in.parquet", "--types-from", "test_network", "--type", "Hit"]
        assert "published 2 events; 0 broken" in finished(slackline(tmp_path, *arguments))
        assert collect(subscriber, 2) == [Hit(0.5, ts=3, id=1, source="a"), Hit(1.5, "x", ts=4, id=2, source="a")]


def test_an_empty_file_ends_the_type_that_is_named_and_otherwise_reports_that_nothing_has_ended(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").touch()
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node, Subscriber(node.address, Hit) as subscriber:
        subscriber.wait_ready(DEADLINE)
        arguments = ["pub", node.address, "in.jsonl", "--types-from", "test_network", "--end"]
        assert "nothing has ended: no event was published" in finished(slackline(tmp_path, *arguments))
        assert "nothing has ended" not in finished(slackline(tmp_path, *arguments, "--type", "Hit"))
        poll_until(lambda: bool(subscriber.receive(0.1)) and subscriber.has_ended, "its end has come")


def test_keys_new_writes_a_private_file_and_prints_the_line_for_others(tmp_path: Path) -> None:
    out = finished(slackline(tmp_path, "keys", "new", "goal"))
    pair = load_keys(tmp_path / "goal.key")
    assert f"{pair.public} goal" in out
    assert pair.secret not in out
    again = slackline(tmp_path, "keys", "new", "goal")
    _, errors = again.communicate(timeout=DEADLINE)
    assert again.returncode != 0
    assert "goal.key exists" in errors
