"""``slackline run`` tells what it cannot run before it starts a node; no Spark here, as the trace is there already."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

import middleware.cli.runs.run as run_module
from middleware.cli.main import application
from middleware.cli.output import ExitCode
from tests.unit.recordings.test_traces import finish, write

NODES = """
name = "yard"
detectors = ["run_yard:Stops"]
[recording]
files = ["yard.csv"]
mapping = "yard.toml"
[[nodes]]
name = "gate"
detectors = ["*"]
"""

YARD = """
from slackline import Detector, Event


class Pong(Event):
    number: int


class Stop(Event):
    pass


class Stops(Detector):
    subscribes, publishes = (Pong,), (Stop,)

    def on_event(self, event):
        return None
"""


MAPPING = """
type = "TYPE"
ts = { column = "time", unit = "UNIT" }
source = { column = "who" }
fields.number = { column = "number", type = "int" }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run_yard.py").write_text(YARD)
    (tmp_path / "nodes.toml").write_text(NODES)
    (tmp_path / "yard.csv").write_text("time,who,number\n1700000000000,a,1\n")
    (tmp_path / "yard.toml").write_text(MAPPING.replace("TYPE", "Pong").replace("UNIT", "ms"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_module, "Cluster", lambda *nodes, **options: pytest.fail("nodes are started"))
    return tmp_path


def test_a_trace_of_other_types_starts_no_node(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = folder / "trace"
    write(trace, "Ping", [1, 2, 3])
    finish(trace)
    monkeypatch.setattr("middleware.spark.session.spark_session", lambda *cores, master: nullcontext())
    monkeypatch.setattr("middleware.spark.prepare.prepared.prepared_trace", lambda plan, out, progress, **spark: trace)
    result = CliRunner().invoke(application(), ["run", ".", "--spark"])
    assert result.exit_code == ExitCode.BAD_INPUT, result.output
    assert "holds Ping, which no detector reads" in result.stderr
    assert "did you mean Pong?" in result.stderr
    assert "Spark starts ..." in result.output


@pytest.mark.parametrize(
    ("type_", "unit", "complaint"),
    [("Pogn", "ms", "type: no detector reads Pogn; they read Pong (did you mean Pong?)"), ("Pong", "s", 'write unit = "ms"')],
)
def test_a_mapping_that_cannot_be_right_does_not_even_start_spark(
    folder: Path, monkeypatch: pytest.MonkeyPatch, type_: str, unit: str, complaint: str
) -> None:
    (folder / "yard.toml").write_text(MAPPING.replace("TYPE", type_).replace("UNIT", unit))
    monkeypatch.setattr("middleware.spark.session.spark_session", lambda *cores, master: pytest.fail("Spark is started"))
    result = CliRunner().invoke(application(), ["run", "."])
    assert result.exit_code == ExitCode.BAD_INPUT, result.output
    assert complaint in " ".join(result.stderr.split())
