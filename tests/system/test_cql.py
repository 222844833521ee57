"""CQL over real processes and sockets: streams of one node feed a Python detector on another; files and hosts as sources."""

import os
import pty
import socket
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from middleware.cli.queries.result_view import View
from middleware.cli.queries.shell_session import ShellSession
from middleware.cli.queries.sql_feeds import RecordingFeed
from middleware.model.event import END, ORDER, type_name
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.clients.collector import Collector
from middleware.runtime.cluster import Cluster
from middleware.runtime.scenario import load_scenario
from middleware.testing.oracle import oracle
from scenarios.ticks.market import Bar

pytestmark = pytest.mark.system


def slackline(*arguments, **others):
    command = [sys.executable, "-m", "middleware.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **others)


def test_a_cql_stream_feeds_a_python_detector_across_two_nodes():
    scenario = load_scenario("ticks").lasting(12.0, None)
    assert "Bar" in scenario.placement["exchange"]
    assert "Breakouts" in scenario.placement["desk"]
    batches = list(RecordingFeed(scenario, scenario.types))
    arrived = [event for batch in batches for delta in batch.deltas.values() for event in delta.inserts]
    assert arrived != sorted(arrived, key=ORDER), "the recording is out of order"
    own = sorted(type_name(t) for detector in scenario.detectors.values() for t in detector.publishes)
    raw = sorted({type(event) for event in arrived}, key=type_name)
    with Cluster(scenario, alpha=0.0) as cluster:
        with closing(Collector(cluster.addresses["exchange"], own, scenario.types, own)) as collector:
            cluster.await_ready(collector.start)
            with Publisher(cluster.addresses["exchange"], types=raw) as publisher:
                for batch in batches:
                    publisher.publish([event for delta in batch.deltas.values() for event in delta.inserts])
                publisher.advance(raw, END)
                publisher.flush(60)
            assert collector.join(90)
            assert collector.violations == {}
            finals = collector.finals
        cluster.end()
    assert {unit.late for report in cluster.reports.values() for unit in report.units} == {0}
    expected = oracle(arrived, scenario.detectors)
    assert sorted(finals, key=ORDER) == sorted((event for results in expected.values() for event in results), key=ORDER)
    assert any(type_name(type(event)) == "Breakout" for event in finals)


def test_a_query_over_a_running_mesh():
    """What a session finds over the early changes of a mesh is what the oracle finds over all that was published."""
    scenario = load_scenario("ticks").lasting(8.0, None)
    batches = list(RecordingFeed(scenario, scenario.types))
    raw = sorted({event_type for batch in batches for n in batch.deltas for event_type in [scenario.types[n]]}, key=type_name)
    with Cluster(scenario, alpha=0.0) as cluster:
        address = cluster.addresses["desk"]
        cluster.await_ready(lambda timeout: Subscriber(address, [Bar]).wait_ready(timeout))
        session = ShellSession([Bar], address=address)
        (stream,) = session.add("SELECT symbol, max(high) AS top FROM Bar [SIZE 3 seconds] GROUP BY symbol INTO Top")
        view = View(stream)
        changes = session.run(stream)
        view.take(next(changes))  # subscribed
        with Publisher(cluster.addresses["exchange"], types=raw) as publisher:
            for batch in batches:
                publisher.publish([event for delta in batch.deltas.values() for event in delta.inserts])
            publisher.advance(raw, END)
            publisher.flush(60)
        finals = [event for batch in changes for event in view.take(batch)[1]]
    arrived = [event for batch in batches for delta in batch.deltas.values() for event in delta.inserts]
    bars = oracle(arrived, scenario.detectors)["Bar"]
    expected = oracle(bars, session.script.operators)["Top"]
    assert [(e.ts, e.symbol, e.top) for e in finals] == [(e.ts, e.symbol, e.top) for e in expected]
    assert view.counts["final"] == len(expected) > 0


def test_a_file_of_statements_over_a_file(tmp_path):
    (tmp_path / "ticks.csv").write_text("symbol,time,price\nIBM,3,81.5\nGE,oops,1\nIBM,1,80.5\nIBM,7,99.0\nGE,2,27.0,9\n")
    (tmp_path / "queries.cql").write_text(
        """CREATE STREAM Tick (time Long NOT NULL, symbol String NOT NULL, price Double) TIMESTAMP time
           SOURCE FILE ("ticks.csv", ",");
           SELECT symbol, avg(price) AS mean FROM Tick [SIZE 5 ON time] GROUP BY symbol;"""
    )
    done = slackline("sql", tmp_path / "queries.cql", "--final", "--lateness", "10s")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["4", "symbol=IBM", "mean=81"]
    assert lines[1].split() == ["9", "symbol=IBM", "mean=99"]
    assert "ticks.csv: 1 lines not taken: time is no Long" in done.stdout
    assert "ticks.csv: 1 lines not taken: 4 fields, not 3" in done.stdout


def test_lines_from_a_host():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                for part in (b"IBM,81", b".5,100\nGE,27.", b"0,7\nbad line\nIBM,82.0,1"):
                    connection.sendall(part)

        thread = threading.Thread(target=serve)
        thread.start()
        port = server.getsockname()[1]
        stream = f'CREATE STREAM Tick (symbol String, price Double, quantity Int) SOURCE HOST ("127.0.0.1", {port})'
        done = slackline(
            "sql", "--final", "-e", stream, "-e", "SELECT count(*) AS n, sum(quantity) AS total FROM Tick [SIZE 3]"
        )
        thread.join(60)
    assert done.returncode == 0, done.stderr
    assert "n=3  total=108" in done.stdout
    assert "1 lines not taken: 1 fields, not 3" in done.stdout


def test_errors_point_at_the_text():
    done = slackline("sql", "--scenario", "ticks", "-e", "SELECT symbl FROM StockTick")
    assert done.returncode == 2
    assert "line 1, column 8: unknown attribute 'symbl'; did you mean 'symbol'?" in done.stderr
    assert "^^^^^" in done.stderr
    done = slackline("sql", "-e", "CREATE STREAM S (a Int); SELECT a FROM S")
    assert done.returncode == 2
    assert "nothing feeds S: give the stream a source" in done.stderr


def test_the_prompt_on_a_terminal(tmp_path):
    """Typed into a real terminal: an error is shown and survived, EXPLAIN answers, history is kept, quit ends."""
    typed = b"SELECT nonsense FROM StockTick;\rEXPLAIN SELECT max(price) FROM StockTick [SIZE 5];\rquit\r"
    history = tmp_path / "history"
    primary, secondary = pty.openpty()
    environment = {**os.environ, "SLACKLINE_SQL_HISTORY": str(history), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "middleware.cli.main", "sql", "--scenario", "ticks"],
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
        env=environment,
        start_new_session=True,
    )
    os.close(secondary)
    shown = bytearray()

    def read():
        try:
            while data := os.read(primary, 4096):
                shown.extend(data)
                if b"sql>" in shown and not read.typed:
                    read.typed = True
                    os.write(primary, typed)
        except OSError:  # the other end is closed
            pass

    read.typed = False
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert process.wait(90) == 0
    finally:
        process.kill()
        reader.join(10)
        os.close(primary)
    text = shown.decode(errors="replace")
    assert "nonsense" in text
    assert "unknown attribute" in text
    assert "tumbling, 5 tuples" in text
    assert "EXPLAIN SELECT max(price)" in history.read_text()
