"""``slackline status`` and ``top`` on real nodes, and a node's command with metrics and a log for machines."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from test_mesh_inquiry import keys  # noqa: F401 (a fixture)
from test_metrics import TYPES, fetched, hits, processor, scraped
from test_network import DEADLINE, Hit, node_thread, poll_until
from typer.testing import CliRunner

from middleware.cli.main import application
from middleware.cli.output import ExitCode
from middleware.observe.mesh import Lookout, MeshStatus
from middleware.runtime.clients import Publisher
from middleware.runtime.transport.keys import Keys

pytestmark = pytest.mark.system


def invoked(*arguments: str) -> tuple[int, str, str]:
    answer = CliRunner().invoke(application(), [*arguments])
    return answer.exit_code, answer.stdout, answer.stderr


def test_a_whole_mesh_from_one_address_and_a_node_that_goes_down_is_named(tmp_path: Path) -> None:
    addresses = {name: f"ipc://{tmp_path}/{name}" for name in "ab"}
    report = tmp_path / "report.json"
    with node_thread("a", addresses["a"], addresses, processor("Echoing"), TYPES) as first:
        with (
            node_thread("b", addresses["b"], addresses, processor("Summing"), TYPES) as second,
            Publisher(first.address, name="p", types=[Hit]) as publisher,
            Lookout([second.address]) as lookout,
        ):
            publisher.publish(hits(0, 1_000))
            publisher.flush(DEADLINE)

            def have_all() -> bool:
                nodes = lookout.look(DEADLINE).nodes
                return [sum(unit.counts.received for unit in node.units if unit.counts) for node in nodes] == [1_000, 1_000]

            poll_until(have_all, "all has gone through both nodes")
            code, out, _ = invoked("status", addresses["b"], "--json", str(report))
            assert code == ExitCode.OK, out
            mesh = msgspec.json.decode(report.read_bytes(), type=MeshStatus)
            assert [node.node for node in mesh.nodes] == ["a", "b"]
            assert mesh.silent == []
            lines = [line.split("│") for line in out.splitlines() if "│" in line]
            cells = {line[1].strip(): [cell.strip() for cell in line[2:-1]] for line in lines}
            assert cells["a"][0] == cells["b"][0] == "ready"
            assert cells["a"][2:4] == ["1,000", "1,000"]
            assert cells["Summing"][0] == "b"
            code, out, _ = invoked("top", addresses["a"], "--times", "2", "--every", "0.2")
            assert code == ExitCode.OK
            assert out.count("Summing") == 2
            assert "results/s" in out
            second.stop()

            def is_gone() -> bool:
                return bool(lookout.look(0.5).silent)

            poll_until(is_gone, "it is missed over a connection that was there")
        code, out, _ = invoked("status", addresses["a"], "--timeout", "1", "--json", str(report))
        assert code == ExitCode.FAILED
        assert f"node b at {addresses['b']} does not answer within 1 s" in out
        assert "node a has lost b" in out
        assert [node.node for node in msgspec.json.decode(report.read_bytes(), type=MeshStatus).nodes] == ["a"]
        with node_thread("b", addresses["b"], addresses, processor("Summing"), TYPES):
            poll_until(lambda: invoked("status", addresses["a"], "--timeout", "1")[0] == ExitCode.OK, "it is back")


def test_with_keys_the_peers_are_asked_by_theirs(tmp_path: Path, keys: dict[str, Keys]) -> None:  # noqa: F811
    ports = []
    with closing(socket.socket()) as one, closing(socket.socket()) as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
            ports.append(each.getsockname()[1])
    addresses = {name: f"tcp://127.0.0.1:{port}" for name, port in zip("ab", ports, strict=True)}
    options = ["--keys", str(tmp_path / "me.key"), "--allow-list", str(tmp_path / "allowed.txt")]
    with (
        node_thread("a", addresses["a"], addresses, processor("Echoing"), TYPES, keys=keys["a"]),
        node_thread("b", addresses["b"], addresses, processor("Summing"), TYPES, keys=keys["b"]),
    ):
        code, out, err = invoked("status", addresses["b"], *options)
        assert code == ExitCode.OK, out + err
        assert "Echoing" in out and "Summing" in out
        code, out, _ = invoked("status", addresses["b"], "--timeout", "1")
        assert code == ExitCode.FAILED, "without a key nobody says anything"


def test_without_an_address_there_must_be_a_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = invoked("status")
    assert code == ExitCode.BAD_INPUT
    assert "there is no nodes.toml here" in err
    code, _, err = invoked("status", "soccer")
    assert code == ExitCode.BAD_INPUT
    assert "takes any free port; give the address that it has logged" in err


SCENARIO = """
name = "small"
detectors = ["watch:Peaks"]
log.format = "json"
metrics.address = "127.0.0.1:{metrics}"

[[nodes]]
name = "edge"
address = "tcp://127.0.0.1:{port}"
detectors = ["*"]
"""

CODE = """
from slackline import Detector, Event

class Reading(Event):
    value: float

class Peak(Event):
    value: float

class Peaks(Detector):
    subscribes, publishes = (Reading,), (Peak,)

    def on_event(self, reading):
        return Peak(reading.value, ts=reading.ts)
"""


def test_a_nodes_command_serves_metrics_and_logs_for_machines(tmp_path: Path) -> None:
    with closing(socket.socket()) as one, closing(socket.socket()) as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        port, metrics = (each.getsockname()[1] for each in (one, other))
    (tmp_path / "nodes.toml").write_text(SCENARIO.format(port=port, metrics=metrics))
    (tmp_path / "watch.py").write_text(CODE)
    line = [sys.executable, "-m", "middleware.cli.main"]
    node = subprocess.Popen(
        [*line, "node", ".", "edge"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:

        def is_ready() -> bool:
            assert node.poll() is None, node.communicate()[1]
            try:
                return fetched(f"127.0.0.1:{metrics}", "/readyz") == (200, "ready\n")
            except OSError:
                return False

        poll_until(is_ready, "the node serves metrics where its file says")
        (tmp_path / "rows.jsonl").write_text(
            "".join(f'{{"type": "Reading", "value": {n}, "ts": {n}, "id": {n}, "source": "s"}}\n' for n in range(1, 3))
        )
        published = [*line, "pub", f"tcp://127.0.0.1:{port}", "rows.jsonl", "--types-from", "watch"]
        done = subprocess.run(published, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        poll_until(lambda: scraped(f"127.0.0.1:{metrics}")["events_received_total{}"] == 2, "they have come")
        done = subprocess.run([*line, "status"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert "edge" in done.stdout
        second = subprocess.run(
            [*line, "node", ".", "edge", "--address", "edge=tcp://127.0.0.1:*", "--state", "other"],
            cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert second.returncode == ExitCode.BAD_INPUT
        assert f"no metrics can be served at 127.0.0.1:{metrics}" in second.stderr
    finally:
        node.send_signal(signal.SIGTERM)
        logs = [json.loads(each) for each in node.communicate(timeout=60)[1].splitlines()]
    assert node.returncode == 0
    events = [each["event"] for each in logs]
    assert events.index("metrics are served") < events.index("node runs") < events.index("publisher joined")
    left = next(each for each in logs if each["event"] == "peer left" and each["role"] == "publisher")
    assert left["why"].startswith("said goodbye")
    assert {"level", "timestamp"} <= left.keys()
