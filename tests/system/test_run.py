"""The main job with real processes, real sockets and real Spark; and what is left when a node is killed."""

import itertools
import json
import subprocess
import sys
import time
from contextlib import closing

import psutil
import pytest

from middleware.model.event import END, ORDER, type_name
from middleware.runtime.clients import Publisher
from middleware.runtime.clients.collector import Collector
from middleware.runtime.cluster import Cluster
from middleware.runtime.scenario import load_scenario
from middleware.testing.oracle import oracle
from scenarios.soccer.match import events

pytestmark = pytest.mark.system


@pytest.mark.spark
def test_a_scenario_from_recording_to_finals(tmp_path):
    command = [sys.executable, "-m", "middleware.cli.main", "run", "soccer", "--seconds", "2", "--view"]
    command += ["--json", "result.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "finals equal the in-order oracle: yes" in done.stdout
    assert "see it live: http://127.0.0.1:" in done.stdout
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["oracle_equal"] is True
    assert result["events"] > 60_000
    assert result["finals"] > 1_000
    for mode in ("speculative", "buffering"):
        assert result["latency_ms"][mode].keys() >= {"mean", "p99"}
        assert result["runs"][mode]["duplicates"] > 0
        assert result["runs"][mode]["violations"] == {}


def test_a_scenario_that_is_not_there_is_bad_input():
    command = [sys.executable, "-m", "middleware.cli.main", "run", "tennis"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "there is no scenario 'tennis'" in done.stderr


def test_a_killed_node_leaves_the_others_running_and_counted():
    scenario = load_scenario("soccer")
    rows = list(itertools.islice(events(3, 1.0), 20_000))
    lower = {name: scenario.detectors[name] for name in scenario.placement["field"]}
    own = sorted({type_name(t) for detector in lower.values() for t in detector.publishes})
    with Cluster(scenario, alpha=0.0) as cluster:
        with closing(Collector(cluster.addresses["field"], own, scenario.types, own)) as collector:
            collector.start(60)
            with Publisher(cluster.addresses["field"], types=[type(rows[0])]) as publisher:
                publisher.publish(rows[:10_000])
                deadline = time.monotonic() + 60
                while not collector.changes and time.monotonic() < deadline:
                    time.sleep(0.01)  # until the first results are out
                cluster.kill("match")
                publisher.publish(rows[10_000:])
                publisher.advance([type(rows[0])], END)
                publisher.flush(60)
            assert collector.join(60)
            deadline = time.monotonic() + 60
            while not cluster.dead() and time.monotonic() < deadline:
                time.sleep(0.01)  # on a busy machine a killed process takes a while to be gone
            assert cluster.dead() == {"match": -9}
            finals = collector.finals
        gone = time.monotonic() + 60
        while b"role=node" not in cluster.log("field").read_bytes() and time.monotonic() < gone:
            time.sleep(0.1)  # until the node has given the killed one up, which it counts
        cluster.end()
        assert set(cluster.reports) == {"field"}
    expected = oracle(rows, lower)
    assert sorted(finals, key=ORDER) == sorted(itertools.chain(*expected.values()), key=ORDER)
    assert any(reason.startswith("node") for reason in cluster.reports["field"].broker.left)


def test_nodes_end_with_the_process_that_started_them_even_if_it_is_killed():
    text = (
        "import sys, time\n"
        "from middleware.runtime.cluster import Cluster\n"
        "from middleware.runtime.scenario import load_scenario\n"
        "with Cluster(load_scenario('soccer')) as cluster:\n"
        "    print(*(process.pid for process in cluster._processes.values()), flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        nodes = [psutil.Process(int(number)) for number in starter.stdout.readline().split()]
        starter.kill()
    assert len(nodes) == 2
    _, left = psutil.wait_procs(nodes, timeout=60)
    for process in left:
        process.kill()
    assert not left
