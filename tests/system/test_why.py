"""``slackline why`` from the logs of nodes that run, and from a trace."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_network import DEADLINE
from typer.testing import CliRunner

from middleware.cli.main import application
from middleware.cli.output import ExitCode
from middleware.model.change import Insert, Watermark
from middleware.model.event import END
from middleware.recordings.traces import Trace, TypeTrace
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.cluster import Cluster
from middleware.runtime.scenario import Scenario, load_scenario

pytestmark = pytest.mark.system

YARD = """
from slackline import Detector, Event


class Position(Event):
    truck: int
    x: float


class Stop(Event):
    truck: int
    x: float


class Jam(Event):
    trucks: int


class Stops(Detector):
    subscribes, publishes, key = (Position,), (Stop,), "truck"

    def __init__(self):
        self.x = None

    def on_event(self, event):
        before, self.x = self.x, event.x
        return Stop(event.truck, event.x, ts=event.ts) if before == event.x else None


class Jams(Detector):
    subscribes, publishes = (Stop,), (Jam,)

    def __init__(self):
        self.stopped = []

    def on_event(self, event):
        self.stopped = [*self.stopped[-1:], event.truck]
        return Jam(2, ts=event.ts) if len(set(self.stopped)) == 2 else None
"""

PLAN = """
name = "yard"
detectors = ["yard:Stops", "yard:Jams"]

[[nodes]]
name = "gate"
detectors = ["Stops"]

[[nodes]]
name = "office"
detectors = ["Jams"]
"""

SECOND = 10**9
ARRIVALS = [(1, 1, 5.0), (2, 2, 7.0), (3, 1, 5.0), (5, 2, 7.0), (6, 1, 9.0), (4, 2, 8.0), (7, 2, 7.0)]
"""(seconds, truck, x). Truck 1 stops at 3. What comes late of truck 2, at 4, withdraws its stop at 5; it stops at 7."""

LATE = (4, 2)
"""Of these, what comes late."""


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    folder = tmp_path_factory.mktemp("yard")
    (folder / "yard.py").write_text(YARD)
    (folder / "nodes.toml").write_text(PLAN)
    return load_scenario(folder)


@pytest.fixture(scope="module")
def cluster(yard: Scenario) -> Iterator[Cluster]:
    """Both nodes with logs, after all has come, one event at a time."""
    position = yard.types["Position"]
    with Cluster(yard, alpha=0.0, durability="disk") as cluster:
        office = cluster.addresses["office"]
        with (
            Subscriber(office, ["Stop", "Jam"], event_types=yard.types) as subscriber,
            Publisher(cluster.addresses["gate"], name="truck", types=["Position"]) as publisher,
        ):
            cluster.await_ready(subscriber.wait_ready)
            changes = iter(subscriber)
            for number, (second, truck, x) in enumerate(ARRIVALS, 1):
                if (second, truck) == LATE:  # or what it withdraws may never have left the node
                    assert any(isinstance(change, Insert) and isinstance(change.event, yard.types["Jam"]) for change in changes)
                publisher.publish([position(truck, x, ts=second * SECOND // 10, id=number, source="truck")])
                publisher.flush(DEADLINE)
            publisher.advance("Position", END)
            ended = [change for change in changes if isinstance(change, Insert | Watermark)]
            assert any(isinstance(change, Watermark) and change.ts == END for change in ended)
        yield cluster


def why(*arguments: str) -> tuple[int, str, str]:
    answer = CliRunner().invoke(application(), ["why", *arguments])
    return answer.exit_code, answer.stdout, answer.stderr


def test_the_chain_goes_through_both_logs_down_to_what_came_from_outside(cluster: Cluster, tmp_path: Path) -> None:
    logs = [word for name in ("gate", "office") for word in ("--log", str(cluster.state(name)))]
    scenario = ["--scenario", str(cluster.scenario.folder)]
    code, out, _ = why("Jam", "after", "0.6", *scenario, *logs, "--json", str(tmp_path / "why.json"), "--state")
    assert code == ExitCode.OK, out
    text = json.loads((tmp_path / "why.json").read_text())
    assert text["stands"] and not text["notes"]

    assert [each["id"] for each in text["raw"]] == [1, 3, 4, 7]
    assert text["cause"]["of"][0]["event"]["type"] == "Stop"
    assert (text["before"], text["after"]) != ({}, {})


def test_a_withdrawn_result_names_the_late_event_also_from_another_nodes_log(cluster: Cluster) -> None:
    scenario = ["--scenario", str(cluster.scenario.folder)]
    gate, office = (["--log", str(cluster.state(name))] for name in ("gate", "office"))
    code, out, _ = why("Stop", "truck=2", "corrected", *scenario, *gate)
    assert code == ExitCode.OK
    assert "withdrawn" in out and "does not stand" in out
    assert "because this came late, by 200ms: Position at 0.400 s: truck 2, x 8" in out
    code, out, _ = why("Jam", "corrected", *scenario, *gate, *office)
    assert code == ExitCode.OK
    assert "because this came late, by 200ms: Position at 0.400 s: truck 2, x 8" in out


def test_what_is_not_known_is_reported(cluster: Cluster, tmp_path: Path) -> None:
    scenario = ["--scenario", str(cluster.scenario.folder)]
    code, out, _ = why("Jam", *scenario, "--log", str(cluster.state("office")))
    assert code == ExitCode.OK
    assert "Stop came from other nodes: give their logs, too" in out
    code, _, err = why("Stop", "truck=99", *scenario, "--log", str(cluster.state("gate")))
    assert code == ExitCode.FAILED
    assert "no Stop fits truck=99" in err and "Stop at 0.300 s: truck 1" in err
    for words, message in [
        (["Halt"], "is no result; there are Jam, Stop"),
        (["Stop", "speed=3"], "write FIELD=VALUE (fields: truck, x, ts"),
        (["Stop", "after", "noon"], "is no time"),
        (["Stop", "--log", str(tmp_path)], "has no log.sqlite"),
    ]:
        code, _, err = why(*words, *scenario)
        assert code == ExitCode.BAD_INPUT
        assert message in " ".join(err.replace("│", " ").split())


def test_a_damaged_log_is_read_up_to_there(cluster: Cluster, tmp_path: Path) -> None:
    gate = cluster.state("gate") / "log.sqlite"
    with closing(sqlite3.connect(gate)) as original, closing(sqlite3.connect(tmp_path / gate.name)) as copy:
        original.backup(copy)
        last = copy.execute("SELECT max(number) FROM log").fetchone()[0]
        copy.execute("UPDATE log SET data = x'00' WHERE number = ?", (last,))
        copy.commit()
    code, out, _ = why("Stop", "truck=1", "--scenario", str(cluster.scenario.folder), "--log", str(tmp_path))
    assert code == ExitCode.OK
    assert f"the log of gate is damaged: what came from record {last} on is not known" in out
    (tmp_path / "log.sqlite").write_bytes(b"no database" * 100)
    code, _, err = why("Stop", "--scenario", str(cluster.scenario.folder), "--log", str(tmp_path))
    assert code == ExitCode.BAD_INPUT and "cannot be read" in err


def test_the_same_from_a_trace(yard: Scenario, tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    rows = folder / "type=Position"
    rows.mkdir(parents=True)
    columns = {
        "arrival": list(range(len(ARRIVALS))),
        "ts": [second * SECOND // 10 for second, _, _ in ARRIVALS],
        "id": list(range(1, len(ARRIVALS) + 1)),
        "source": ["truck"] * len(ARRIVALS),
        "truck": [truck for _, truck, _ in ARRIVALS],
        "x": [x for _, _, x in ARRIVALS],
    }
    pq.write_table(pa.table(columns), rows / "part-00000.parquet")
    fields = {"truck": "int64", "x": "double"}
    one = TypeTrace(fields, 7, 0, SECOND // 10, SECOND, 0, 6, 1, SECOND // 5, {"truck": 7})
    (folder / "trace.json").write_bytes(msgspec.json.encode(Trace("hand", [], {"Position": one})))
    code, out, err = why("Stop", "truck=1", "before", "0.5", "--scenario", str(yard.folder), "--trace", str(folder))
    assert code == ExitCode.OK, err
    assert "Position at 0.300 s: truck 1, x 5 (of truck, came in step 1)" in out
