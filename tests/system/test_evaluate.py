"""The evaluation from end to end: real node processes, a real feed, figures, report and JSON; and Ctrl-C in the middle."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytest.importorskip("matplotlib")

pytestmark = [pytest.mark.system, pytest.mark.spark]

COMMAND = [sys.executable, "-m", "middleware.cli.main", "evaluate", "--quick", "--seconds", "2"]
DEADLINE = 240.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Where the evaluation was run, so that its trace is prepared once."""
    return tmp_path_factory.mktemp("evaluate")


def test_quick(folder):
    command = [*COMMAND, "--json", "result.json", "--out", "report"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((folder / "result.json").read_text())
    assert result["oracle_equal"] is True
    assert result["latency_ratio"].keys() >= {"all", "pass"}
    assert result["latency_ratio"]["all"] > 0
    assert result["retraction_ratio"] > 0
    assert result["real_time_factor"] > 0
    assert result["f1"].keys() == {"generated_pass", "generated_shot", "generated_goal"}
    assert result["detectors"] >= 18
    assert result["levels"] >= 8
    assert result["event_types"] >= result["detectors"]
    assert result["left_out"].keys() <= {"scores", *(f"F1 {name}" for name in result["f1"])}
    modes = {mode["mode"]["name"]: mode for mode in result["modes"]}
    assert modes.keys() == {"buffering", "dynamic", "algorithm-3", "speculation", "auto-retraction"}
    for mode in modes.values():
        assert mode["oracle_equal"] is True
        assert mode["events"] > 65_000
        assert mode["finals"] > 2_000
        if mode is not modes["buffering"]:  # it loses what is late while K grows
            assert mode["finals"] == modes["speculation"]["finals"]
        assert len(mode["intervals"]) > 2
        assert any(interval["cpu"] > 0 and interval["memory"] > 0 for interval in mode["intervals"])
    assert {interval["alpha"] for interval in modes["buffering"]["intervals"]} == {1.0}
    assert {interval["alpha"] for interval in modes["speculation"]["intervals"]} == {0.0}
    page = (folder / "report" / "report.html").read_text()
    figures = sorted(file.stem for file in (folder / "report").glob("*.png"))
    assert figures == ["algorithm-3", "alpha", "cost", "cpu", "detectors", "latency", "memory", "modes", "retraction"]
    assert page.count("data:image/png;base64,") == len(figures)
    assert "evaluate --quick --seconds 2" in page


def test_interrupted(folder):
    """Ctrl-C while nodes and feed are running: the command says so by its exit code and leaves no process behind."""
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(COMMAND, cwd=folder, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + DEADLINE
        children: list[psutil.Process] = []
        while not any("middleware.evaluation.feeder" in _line(child) for child in children):
            assert running.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.02)
            children = psutil.Process(running.pid).children(recursive=True)
        os.kill(running.pid, signal.SIGINT)
        assert running.wait(DEADLINE) == 130, (folder / "log").read_text()
        _, alive = psutil.wait_procs(children, 30)
        assert not alive
    finally:
        running.kill()
    assert "Traceback" not in (folder / "log").read_text()


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def test_a_recording_is_evaluated_as_it_is(folder):
    """Real arrival times, replayed faster than they were; a recording has no other length."""
    base = folder / "rises"
    base.mkdir()
    (base / "rises.py").write_text(SCENARIO)
    rows = [f"{at},{at + (700 if at % 7 == 0 else 20)},{at % 11}" for at in range(0, 20_000, 10)]
    (base / "ticks.csv").write_text("\n".join(["at,came,value", *rows]))
    (base / "ticks.toml").write_text(MAPPING)
    (base / "nodes.toml").write_text(PLAN)
    command = [*COMMAND[:4], "--scenario", str(base), "--quick", "--json", "rises.json", "--out", "rises-report"]
    refused = subprocess.run([*command, "--seconds", "4"], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 2
    assert "its recording is not generated" in refused.stderr
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((folder / "rises.json").read_text())
    assert result["seconds"] == pytest.approx(20.0, abs=1)
    for mode in result["modes"]:
        assert mode["oracle_equal"] is True
        late_by_700_ms = 2_000 // 7  # how many of these come before K has grown hangs on how fast the machine is
        assert mode["late"] < (late_by_700_ms // 3 if mode["mode"]["name"] == "buffering" else 1)
        assert mode["by_result"].keys() == {"rises.Rise"} and mode["by_level"].keys() == {"1"}
    plain = result["modes"][0]
    assert plain["latency"]["mean"] > 300, "in the time of the recording: buffering waits for what is 700 ms late"


SCENARIO = """
from slackline import Detector, Event


class Tick(Event):
    namespace = "rises"
    value: int


class Rise(Event):
    namespace = "rises"
    by: int


class Rises(Detector):
    subscribes, publishes = (Tick,), (Rise,)

    def __init__(self):
        self.last = 0

    def on_event(self, event):
        by, self.last = event.value - self.last, event.value
        return Rise(by, ts=event.ts) if by > 0 else None
"""
MAPPING = """
type = "rises.Tick"
ts = { column = "at", unit = "ms" }
arrival = { column = "came", unit = "ms" }
source = { value = "ticker" }
fields = { value = { column = "value", type = "int" } }
"""
PLAN = """
name = "rises"
detectors = ["rises:Rises"]
results = ["rises.Rise"]

[recording]
files = ["ticks.csv"]
mapping = "ticks.toml"
speed = "10x"

[policies]
lateness = "3s"

[[nodes]]
name = "here"
detectors = ["*"]
"""
