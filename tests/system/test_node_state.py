"""A node finds its state again from wherever it is started, and says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_node_refuses import PLAN

pytestmark = pytest.mark.system


def test_a_node_resumes_where_it_ended_from_another_folder(tmp_path: Path) -> None:
    scenario, elsewhere = tmp_path / "small", tmp_path / "elsewhere"
    for folder in (scenario, elsewhere):
        folder.mkdir()
    (scenario / "nodes.toml").write_text(PLAN)
    (scenario / "watch.py").write_text("def none():\n    return []\n")
    outputs = [begun(scenario, place) for place in (scenario, elsewhere)]
    assert ["anew" in line for line in outputs] == [True, False]
    assert "where it ended" in outputs[1]
    assert all(str(scenario / ".slackline" / "small" / "edge") in line for line in outputs)
    assert not list(elsewhere.iterdir())


def begun(scenario: Path, place: Path) -> str:
    """What a node says of its state, started in a place, and then stopped."""
    command = [sys.executable, "-m", "middleware.cli.main", "node", str(scenario), "edge"]
    environment = {name: value for name, value in os.environ.items() if name != "SLACKLINE_STATE"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    with subprocess.Popen(command, cwd=place, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "node runs" in line:
                process.send_signal(signal.SIGTERM)
    (found,) = [line for line in lines if "state folder" in line]
    return found
