"""Metrics pushed to a collector: a real HTTP server, which decodes what comes by OpenTelemetry's own definitions."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from structlog.testing import capture_logs
from test_metrics import DETECTORS, TYPES, hits, observed, scraped
from test_network import DEADLINE, Hit, node_thread, poll_until
from test_status import CODE

from middleware.model.event import END
from middleware.model.time import SECOND
from middleware.observe.otlp import Pusher
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies
from middleware.runtime.clients import Publisher
from middleware.runtime.report import Reporter

pytestmark = pytest.mark.system


class Collector(ThreadingHTTPServer):
    """Answers with ``code``, or not at all while ``stalls`` is clear; ``pushes`` are those that it took."""

    def __init__(self, port: int = 0) -> None:
        self.pushes: list[ExportMetricsServiceRequest] = []
        self.asked, self.code, self.stalls = 0, 200, threading.Event()
        self.stalls.set()
        super().__init__(("127.0.0.1", port), Answer)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def metrics(self) -> dict[str, Metric]:
        """Those of the last push, by name."""
        scopes = self.pushes[-1].resource_metrics[0].scope_metrics if self.pushes else []
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def received(self) -> float:
        metric = self.metrics().get("slackline_events_received_total", Metric())
        return sum(point.as_double for point in metric.sum.data_points)


class Answer(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1
        self.server.stalls.wait(DEADLINE)
        if self.server.code == 200:
            assert (self.path, self.headers["Content-Type"]) == ("/v1/metrics", "application/x-protobuf")
            self.server.pushes.append(ExportMetricsServiceRequest.FromString(body))
        self.send_response(self.server.code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@contextmanager
def collecting(port: int = 0) -> Iterator[Collector]:
    with Collector(port) as collector:
        thread = threading.Thread(target=collector.serve_forever, args=[0.01])
        thread.start()
        try:
            yield collector
        finally:
            collector.stalls.set()
            collector.shutdown()
            thread.join()


def as_scraped(metrics: dict[str, Metric]) -> dict[str, float]:
    """What was pushed, as ``scraped`` has it."""
    found = {}

    def add(name: str, point: object, value: float, **more: str) -> None:
        labels = {each.key: each.value.string_value for each in point.attributes} | more  # type: ignore[attr-defined]
        text = ",".join(value for key, value in sorted(labels.items()) if key != "node")
        found[f"{name.removeprefix('slackline_')}{{{text}}}"] = value

    for name, metric in metrics.items():
        for number in (*metric.gauge.data_points, *metric.sum.data_points):
            add(name, number, number.as_double)
        for point in metric.histogram.data_points:
            bounds = [*map(str, point.explicit_bounds), "+Inf"]
            for bound, total in zip(bounds, accumulate(point.bucket_counts), strict=True):
                add(f"{name}_bucket", point, total, le=bound)
            add(f"{name}_count", point, point.count)
            add(f"{name}_sum", point, point.sum)
    return found


def test_what_is_pushed_is_what_is_scraped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    with collecting() as collector, ExitStack() as observers:
        with node_thread(
            "a", "tcp://127.0.0.1:*", None, Reporter(Hierarchy(DETECTORS, policies=Policies(alpha=0.0))), TYPES
        ) as node:
            address = observers.enter_context(observed(node))
            pusher = observers.enter_context(Pusher(collector.url, node, period=0.05))
            with Publisher(node.address, name="p", types=[Hit]) as publisher:
                publisher.publish(hits(0, 1_000))
                publisher.publish(hits(0, 10))
                publisher.flush(DEADLINE)
                poll_until(lambda: collector.received() == 1_010, "while it runs")
                publisher.publish(hits(1_000, 500))
                publisher.advance(Hit, END)
                publisher.flush(DEADLINE)
        pusher.close()
        assert collector.received() == 1_510, "the last push has all"
        metrics = collector.metrics()
        pushed, found = as_scraped(metrics), scraped(address)
        ours = {name: value for name, value in found.items() if not name.startswith("process_")}
        assert len(ours) > 100
        assert {name: value for name, value in pushed.items() if not name.startswith("process_")} == ours
        assert pushed.keys() == found.keys()
        assert pushed["result_latency_seconds_count{final,Sum}"] == 1_500

    units = {name: metric.unit for name, metric in metrics.items()}
    assert units["slackline_unit_slack_seconds"] == units["slackline_unit_busy_seconds_total"] == "s"
    assert units["slackline_result_latency_seconds"] == "s"
    assert (units["slackline_queued_bytes"], units["slackline_busy_ratio"]) == ("By", "1")
    assert units["slackline_events_received_total"] == ""
    counter = metrics["slackline_events_received_total"]
    assert counter.sum.is_monotonic
    cumulative = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    assert counter.sum.aggregation_temporality == cumulative
    assert metrics["slackline_result_latency_seconds"].histogram.aggregation_temporality == cumulative
    (point,) = counter.sum.data_points
    started = pushed["start_time_seconds{}"]
    assert point.start_time_unix_nano / SECOND == pytest.approx(started, rel=0, abs=0.001)
    assert point.time_unix_nano > point.start_time_unix_nano
    resource = {each.key: each.value.string_value for each in collector.pushes[-1].resource_metrics[0].resource.attributes}
    assert (resource["service.name"], resource["service.instance.id"]) == ("slackline", "a")
    assert resource["deployment.environment"] == "test"


def test_a_collector_that_is_away_or_slow_is_reported_once_and_costs_the_node_nothing() -> None:
    with collecting() as gone:
        port = gone.server_port
    with (
        capture_logs() as logs,
        node_thread("a", "tcp://127.0.0.1:*", None, None, TYPES) as node,
        Publisher(node.address, name="p", types=[Hit]) as publisher,
        Pusher(f"http://127.0.0.1:{port}", node, period=0.02, limit=2.0),
    ):

        def logged() -> list[tuple[str, str]]:
            return [(each["log_level"], each["event"]) for each in logs if "metrics" in each["event"]]

        def why() -> str:
            return next(str(each["why"]) for each in reversed(logs) if "why" in each)

        away, back = ("warning", "metrics cannot be pushed for now"), ("info", "metrics are pushed")
        poll_until(lambda: logged() == [away], "nobody is there")
        assert "refused" in why()
        with collecting(port) as collector:
            collector.code = 503
            poll_until(lambda: collector.asked > 3, "it is there, and does not want them")
            assert logged() == [away], "reported already"
            collector.code = 200
            poll_until(lambda: len(collector.pushes) > 3, "it takes them")
            assert logged() == [away, back]
            collector.code = 307
            poll_until(lambda: logged() == [away, back, away], "elsewhere is not here")
            assert "307" in why()
            collector.code = 200
            poll_until(lambda: logged() == [away, back, away, back], "again")
            collector.stalls.clear()
            asked = collector.asked
            poll_until(lambda: collector.asked > asked, "it keeps a push waiting")
            publisher.publish(hits(0, 100))
            publisher.flush(DEADLINE)
            poll_until(lambda: logged()[-1] == away, "it is too slow")
            assert "timed out" in why()
            collector.stalls.set()
            poll_until(lambda: collector.received() == 100, "and what came meanwhile is not lost")
            poll_until(lambda: logged() == [away, back] * 3, "it is fast again")


def test_a_nodes_command_pushes_and_ends_with_a_last_push(tmp_path: Path) -> None:
    (tmp_path / "nodes.toml").write_text(SCENARIO)
    (tmp_path / "watch.py").write_text(CODE)
    command = [sys.executable, "-m", "middleware.cli.main", "node", ".", "edge", "--otlp"]

    def started(url: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*command, url], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    with collecting() as collector, started(collector.url) as node:
        try:

            def has_pushed() -> bool:
                assert node.poll() is None, node.communicate()[1]
                return bool(collector.pushes)

            poll_until(has_pushed, "it has pushed")
            before = len(collector.pushes)
            node.send_signal(signal.SIGTERM)
            assert node.wait(DEADLINE) == 0
            assert len(collector.pushes) == before + 1, "at the end; the next one was 15 s away"
        finally:
            node.kill()
    with started("127.0.0.1:4318") as node:
        assert "otlp '127.0.0.1:4318': write http://HOST:PORT, such as http://127.0.0.1:4318" in node.communicate()[1]
        assert node.wait() == 2


def test_without_its_extra_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "nodes.toml").write_text(SCENARIO + '\n[metrics]\notlp = "http://127.0.0.1:4318"\n')
    (tmp_path / "watch.py").write_text(CODE)
    lacking = "import sys; sys.modules['opentelemetry'] = None; from middleware.cli.main import main; main()"
    command = [sys.executable, "-c", lacking, "node", ".", "edge"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: this needs opentelemetry")
    assert "[otlp]" in done.stderr


SCENARIO = """
name = "small"
detectors = ["watch:Peaks"]

[[nodes]]
name = "edge"
detectors = ["*"]
address = "tcp://127.0.0.1:*"
"""
