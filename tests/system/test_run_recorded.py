"""``slackline run`` on a CSV file of one's own: broken, missing, failing or unread parts are reported, and SIGTERM ends it
all."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.system, pytest.mark.spark]

DEADLINE = 240.0
RUN = [sys.executable, "-m", "middleware.cli.main", "run", "."]

YARD = """
from slackline import Detector, Event


class Position(Event):
    truck: int
    x: float


class Whistle(Event):
    loud: float


class Stop(Event):
    truck: int


class Alarm(Event):
    truck: int


class Stops(Detector):
    subscribes, publishes, key = (Position,), (Stop,), "truck"

    def __init__(self):
        self.x = None

    def on_event(self, event):
        if event.x == 13.0:
            raise ValueError("unlucky 13")
        stopped, self.x = event.x == self.x, event.x
        return Stop(event.truck, ts=event.ts) if stopped else None


class Alarms(Detector):
    subscribes, publishes = (Stop, Whistle), (Alarm,)

    def on_event(self, event):
        print("got", event.ts)
        return Alarm(event.truck, ts=event.ts) if isinstance(event, Stop) else None
"""

NODES = """
name = "yard"
detectors = ["yard:Stops", "yard:Alarms"]
[recording]
files = ["yard.csv"]
mapping = "yard.toml"
delay = "uniform(1ms, 80ms)"
speed = "max"
[[nodes]]
name = "gate"
detectors = ["Stops"]
[[nodes]]
name = "tower"
detectors = ["*"]
"""

MAPPING = """
type = "Position"
ts = { column = "time", unit = "s" }
source = { column = "truck", prefix = "truck-" }
[fields]
truck = { column = "truck", type = "int" }
x = { column = "x", type = "float" }
"""

ROWS = [(1_700_000_000_000_000_000 + n * 10_000_000, n % 3, float(n // 9)) for n in range(300)]
BROKEN = 2


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scenario, one for all tests, so that its trace is prepared once."""
    folder = tmp_path_factory.mktemp("yard")
    (folder / "yard.py").write_text(YARD)
    (folder / "nodes.toml").write_text(NODES)
    (folder / "yard.toml").write_text(MAPPING)
    lines = [f"{ts // 10**9}.{ts % 10**9:09},{truck},{x}" for ts, truck, x in ROWS]
    lines[100:100] = ["soon,1,2.0", "1700000000.5,1"]
    (folder / "yard.csv").write_text("\n".join(["time,truck,x", *lines]) + "\n")
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *arguments], cwd=folder, capture_output=True, text=True, timeout=DEADLINE, check=False)


def stops() -> list[tuple[int, int]]:
    """When which truck stands where it stood before, by a plain loop; at 13 the detector fails, and continues."""
    last: dict[int, float] = {}
    found = []
    for ts, truck, x in ROWS:
        if x != 13.0:
            if last.get(truck) == x:
                found.append((ts, truck))
            last[truck] = x
    return found


def test_broken_lines_missing_types_and_failures_are_reported_and_the_results_are_right(yard: Path) -> None:
    done = run(yard, "--json", "result.json", "--results", "-")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "finals equal the in-order oracle: yes" in done.stderr, "it is 1 because a detector failed"
    assert done.stderr.splitlines()[0] == "yard", "its plan says no more about it"
    assert "skipped 2 broken lines" in done.stderr
    assert "yard.csv:102: column time" in done.stderr
    assert "the recording holds nothing of Whistle, which detectors read" in done.stderr
    assert "Stops on node gate failed at 9 events, and ran on without:" in done.stderr
    assert re.search(r"9 x ValueError: unlucky 13 \(\S+\.py:\d+\)\n  first at Position\(", done.stderr)
    assert "the trace is prepared: reading" in done.stderr, "progress, where there is no terminal"
    result = json.loads((yard / "result.json").read_text())
    assert result["broken"]["count"] == BROKEN
    for mode in ("speculative", "buffering"):
        (unit,) = [unit for unit in result["runs"][mode]["units"] if unit["detector"] == "Stops"]
        assert (unit["failed"], list(unit["errors"].values())) == (9, [9])
    assert "got 17" in done.stderr, "what a detector prints is no result"
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for name in ("Stop", "Alarm"):
        assert [(line["ts"], line["truck"]) for line in lines if line["type"] == name] == stops()
    assert [line["ts"] for line in lines] == sorted(line["ts"] for line in lines)
    assert set(lines[0]) == {"type", "truck", "ts", "id", "source", "level"}


def test_wrong_arguments_are_reported_before_spark_starts(yard: Path) -> None:
    for arguments, message in [
        (["--json", "gone/result.json"], "there is no folder gone"),
        (["--results", "gone/finals.jsonl"], "there is no folder gone"),
        (["--results", "."], "it is a folder"),
        (["--json", "-", "--results", "-"], "only one of them"),
    ]:
        done = run(yard, "--out", "other", *arguments)
        assert done.returncode == 2, done.stderr
        assert message in done.stderr
    assert not (yard / "other").exists()


def test_sql_queries_the_recording_too(yard: Path) -> None:
    """The same lines that a run takes, from the trace that a run prepares, or the first query."""
    query = "SELECT truck, x, count(*) AS n FROM Position [SIZE 1 hour] GROUP BY truck, x"
    command = [sys.executable, "-m", "middleware.cli.main", "sql", "--scenario", ".", "--final", "--json", "-"]
    for more in (["-e", query], ["-e", "SELECT truck FROM Alarm"]):
        done = subprocess.run([*command, *more], cwd=yard, capture_output=True, text=True, timeout=DEADLINE, check=False)
        if more[1] == query:
            assert done.returncode == 0, done.stderr
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            counted = Counter((truck, x) for _, truck, x in ROWS)
            assert {(line["truck"], line["x"]): line["n"] for line in lines} == counted
            assert "skipped 2 broken lines" in done.stderr
        else:
            assert [json.loads(line)["truck"] for line in done.stdout.splitlines()] == [truck for _, truck in stops()]
            assert "the trace is prepared" not in done.stderr, "it is there already"
            assert "the recording holds nothing of Whistle" in done.stderr


def test_query_tells_of_a_detector_on_the_way_that_fails(yard: Path) -> None:
    command = [sys.executable, "-m", "middleware.cli.main", "query", "EVENT SEQ(Stop a, Stop b) WHERE [truck] WITHIN 1 s", "."]
    done = subprocess.run(command, cwd=yard, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 1
    printed = " ".join(done.stderr.split())
    assert "final" in done.stdout and "Stops: 9 events failed and skipped, at last by ValueError: unlucky 13" in printed


def test_sigterm_while_it_feeds_leaves_no_process_behind(yard: Path) -> None:
    with (yard / "log").open("wb") as log:
        running = subprocess.Popen([*RUN, "--mode", "speculative", "--speed", "0.01x"], cwd=yard, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + DEADLINE
        while b"events fed" not in (yard / "log").read_bytes():
            assert running.poll() is None, (yard / "log").read_text()
            assert time.monotonic() < deadline, (yard / "log").read_text()
            time.sleep(0.05)
        children = psutil.Process(running.pid).children(recursive=True)
        assert sum("node" in words(child) for child in children) == 2
        running.send_signal(signal.SIGTERM)
        assert running.wait(DEADLINE) == 143, (yard / "log").read_text()
        _, alive = psutil.wait_procs(children, 30)
        assert not alive
    finally:
        running.kill()
    assert "Traceback" not in (yard / "log").read_text()


def words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has ended meanwhile
        return []
