"""Metrics of real nodes: scraped by a real Prometheus, asked for by junk, and true to what went through."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from prometheus_client.parser import text_string_to_metric_families
from test_network import DEADLINE, Echo, Event, EventTypes, Hit, node_thread, poll_until

from middleware.installation import ROOT
from middleware.model.detector import Detector
from middleware.model.event import END
from middleware.model.time import MILLISECOND, SECOND
from middleware.observe import exposition
from middleware.observe.exposition import Exposition
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.node import Node
from middleware.runtime.report import Reporter
from middleware.runtime.storage.late_ledger import Ledger
from middleware.runtime.storage.store import Store

pytestmark = pytest.mark.system

DASHBOARD = ROOT / "middleware" / "observe" / "dashboard.json"


class Sum(Event):
    peak: float


class Echoing(Detector):
    subscribes, publishes = (Hit,), (Echo,)

    def on_event(self, event: Event) -> Event:
        if event.source == "hangs":
            HANGS.wait(DEADLINE)
        return Echo(0.5, ts=event.ts)


class Summing(Detector):
    """Its result depends on the order: so a late event corrects it."""

    subscribes, publishes = (Echo,), (Sum,)

    def __init__(self) -> None:
        self.last = 0

    def on_event(self, event: Event) -> Event:
        before, self.last = self.last, event.ts
        return Sum(float(before), ts=event.ts)


HANGS = threading.Event()
TYPES = EventTypes([Hit, Echo, Sum])
DETECTORS = {"Echoing": Echoing(), "Summing": Summing()}


def processor(name: str) -> Reporter:
    return Reporter(Hierarchy(DETECTORS, [name], Policies(alpha=0.0), timer=time.perf_counter_ns))


def hits(first: int, count: int, source: str = "gauge") -> list[Event]:
    """A millisecond apart, every tenth one 20 ms late: in order of arrival."""
    late = {n: n * MILLISECOND + (20 * MILLISECOND if n % 10 == 0 else 0) for n in range(first, first + count)}
    return [Hit(0.5, ts=1 + n * MILLISECOND, id=n, source=source) for n in sorted(late, key=lambda n: late[n])]


def fetched(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=DEADLINE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def scraped(address: str) -> dict[str, float]:
    """Values by name and labels, as they stand in the text."""
    code, text = fetched(address, "/metrics")
    assert code == 200
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(value for key, value in sorted(sample.labels.items()) if key != "node")
            found[f"{sample.name.removeprefix('slackline_')}{{{labels}}}"] = sample.value
    return found


@contextmanager
def observed(node: Node, limit: float = exposition.TIME) -> Iterator[str]:
    with Exposition("127.0.0.1:*", limit=limit) as exposed:
        exposed.watch(node)
        yield exposed.address


def test_what_is_scraped_is_what_went_through() -> None:
    with (
        node_thread(
            "a", "tcp://127.0.0.1:*", None, Reporter(Hierarchy(DETECTORS, policies=Policies(alpha=0.0))), TYPES
        ) as node,
        observed(node) as metrics,
        Subscriber(node.address, ["Sum"]) as subscriber,
        Publisher(node.address, name="p", types=[Hit]) as publisher,
    ):
        subscriber.wait_ready(DEADLINE)
        events = hits(0, 3_000)
        publisher.publish(events[:2_500] + events[2_510:])
        poll_until(lambda: scraped(metrics)["unit_received_total{Echoing}"] == 2_990, "most of it has gone through")
        publisher.publish(events[2_500:2_510])
        publisher.publish(hits(0, 10))
        publisher.advance(Hit, 2 * SECOND)
        publisher.publish(hits(100, 5, "meter"))
        publisher.flush(DEADLINE)

        poll_until(lambda: scraped(metrics)["events_received_total{}"] == 3_015, "all of it has gone through")
        found = scraped(metrics)
        assert found["events_received_total{}"] == 3_015
        assert found["events_duplicate_total{}"] == 10
        assert found["late_ledger_entries_total{}"] == 5
        assert found["unit_received_total{Echoing}"] == 3_000
        assert found["unit_results_total{insert,Summing}"] >= 3_000
        assert found["unit_results_total{revise,Summing}"] + found["unit_results_total{retract,Summing}"] > 0
        assert found["peers{publisher}"] == found["peers{subscriber}"] == 1
        assert found["unit_watermark_lag_seconds{Summing}"] == pytest.approx(0.999, abs=0.002)
        assert found["watermark_lag_seconds{Sum}"] == found["unit_watermark_lag_seconds{Summing}"]
        publisher.advance(Hit, END)
        publisher.flush(DEADLINE)
        poll_until(lambda: scraped(metrics)["watermark_lag_seconds{Sum}"] == 0, "the end has come")
        found = scraped(metrics)
        for stage in ("stayed", "final"):
            assert found[f"result_latency_seconds_count{{{stage},Sum}}"] == 3_000, "one each, however often it was corrected"
        assert found["result_latency_seconds_count{early,Sum}"] >= 3_000
        assert found["process_resident_memory_bytes{}"] > 1e6
        poll_until(lambda: scraped(metrics)["events_sent_total{}"] >= 3_000, "the subscriber has had it")


def test_however_many_ask_a_node_makes_one_status_a_second() -> None:
    with (
        node_thread("a", "tcp://127.0.0.1:*", None, None, TYPES) as node,
        observed(node) as metrics,
        ThreadPoolExecutor(20) as pool,
    ):
        started = time.monotonic()
        scrapes = [pool.submit(scraped, metrics) for _ in range(20)]
        made = {status.vitals.at for _ in range(200) if (status := node.status()) is not None}
        assert all(scrape.result() for scrape in scrapes)
        assert 1 <= len(made) <= 2 + (time.monotonic() - started)


def test_health_and_readiness_mean_it() -> None:
    HANGS.clear()
    with Exposition("127.0.0.1:*", still=0.3, patience=0.1) as exposed:
        metrics = exposed.address
        assert fetched(metrics, "/healthz") == (200, "starting\n")
        assert fetched(metrics, "/readyz")[0] == 503
        assert fetched(metrics, "/metrics")[0] == 200
        with closing(socket.socket()) as held:
            held.bind(("127.0.0.1", 0))
            other = f"tcp://127.0.0.1:{held.getsockname()[1]}"
        with node_thread("a", "tcp://127.0.0.1:*", {"b": other}, processor("Echoing"), TYPES) as node:
            exposed.watch(node)
            poll_until(lambda: fetched(metrics, "/readyz") == (503, "it waits for nodes: b\n"), "it says for whom it waits")
            assert fetched(metrics, "/healthz") == (200, "ok\n")
            with node_thread("b", other, {"a": node.address}, processor("Summing"), TYPES):
                poll_until(lambda: fetched(metrics, "/readyz") == (200, "ready\n"), "both are there")
                with Publisher(node.address, types=[Hit]) as publisher:
                    publisher.publish(hits(0, 1, "hangs"))
                    poll_until(lambda: fetched(metrics, "/healthz")[0] == 503, "the loop stands still")
                    assert "its loop has been in one step for" in fetched(metrics, "/healthz")[1]
                    assert fetched(metrics, "/readyz") == (503, "its loop does not answer\n")
                    assert fetched(metrics, "/metrics")[0] == 200, "what was known last"
                    HANGS.set()
                    poll_until(lambda: fetched(metrics, "/readyz")[0] == 200, "it continues")
            node.stop()
            poll_until(lambda: fetched(metrics, "/readyz") == (503, "it ends\n"), "it says that it ends")


def test_junk_and_slow_scrapers_are_bounded() -> None:

    def sent(data: bytes) -> bytes:
        """What comes back until the other side hangs up."""
        with socket.create_connection((host, int(port)), DEADLINE) as connection:
            back = b""
            try:
                connection.sendall(data)
                while chunk := connection.recv(65_536):
                    back += chunk
            except (ConnectionResetError, BrokenPipeError):
                pass
            return back

    with (
        node_thread("a", "tcp://127.0.0.1:*", None, None, TYPES) as node,
        observed(node, limit=1.0) as metrics,
        ExitStack() as stack,
    ):
        host, _, port = metrics.rpartition(":")
        assert sent(b"\x00\xff" * 100 + b"\r\n\r\n").startswith(b"HTTP/1.1 400 ")
        assert sent(b"GET http://evil/ HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 400 ")
        end = f"\r\nHost: {metrics}\r\n\r\n".encode()
        assert sent(b"POST /metrics HTTP/1.1" + end).startswith(b"HTTP/1.1 405 ")
        assert sent(b"GET /secret HTTP/1.1" + end).startswith(b"HTTP/1.1 404 ")
        assert sent(b"HEAD /metrics HTTP/1.1" + end).endswith(b"\r\n\r\n")
        assert sent(b"GET /metrics?name[]=x HTTP/1.0" + end).startswith(b"HTTP/1.1 200 ")
        assert sent(b"GET /metrics HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 403 "), "who names no host may be led here"
        assert sent(b"GET /" + b"x" * 100_000) == b"", "no header is as long"
        assert sent(b"GET /metrics HTT") == b"", "it does not wait for ever"
        for _ in range(3 * exposition.MOST_OPEN):  # none of them ever says anything, or reads
            stack.enter_context(socket.create_connection((host, int(port)), DEADLINE))
        assert fetched(metrics, "/metrics")[0] == 200, "the newest is served, the oldest go"
        slow = stack.enter_context(socket.socket())
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        slow.connect((host, int(port)))
        slow.sendall((b"GET /metrics HTTP/1.1" + end) * 50)
        assert fetched(metrics, "/readyz")[0] == 200


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program: the one that is installed, or Debian's package, unpacked in a folder of its own."""
    if installed := shutil.which("prometheus"):
        return Path(installed)
    folder = tmp_path_factory.mktemp("prometheus")
    commands = [["apt-get", "download", "-q", "prometheus"], ["dpkg", "-x", "PACKAGE", "."]]
    try:
        for command in commands:
            found = [str(file) for file in folder.glob("*.deb")]
            words = [found[0] if word == "PACKAGE" else word for word in command]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
            if done.returncode and words[0] == "apt-get":  # its lists may be missing, or old
                subprocess.run(["apt-get", "update", "-qq"], capture_output=True, timeout=60, check=False)
                done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
            if done.returncode:
                pytest.skip(f"no Prometheus: {' '.join(words)}: {done.stderr.strip()[-300:]}")
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"no Prometheus, and it cannot be had from Debian's packages: {error}")
    return folder / "usr" / "bin" / "prometheus"


@contextmanager
def scraping(program: Path, folder: Path, targets: list[str]) -> Iterator[str]:
    """A Prometheus that scrapes these addresses each second; its own address."""
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [{"job_name": "slackline"}]}
    config["scrape_configs"][0]["static_configs"] = [{"targets": targets}]  # type: ignore[index]
    (folder / "prometheus.yml").write_text(json.dumps(config))  # which is YAML
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = [
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={address}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([str(program), *options], stdout=log, stderr=log)
        try:

            def is_ready() -> bool:
                assert process.poll() is None, (folder / "log").read_text()
                try:
                    return fetched(address, "/-/ready")[0] == 200
                except urllib.error.URLError:
                    return False

            poll_until(is_ready, "Prometheus runs")
            yield address
        finally:
            process.terminate()
            process.wait(DEADLINE)


def queried(address: str, query: str) -> list[dict[str, Any]]:
    code, text = fetched(address, f"/api/v1/query?{urllib.parse.urlencode({'query': query})}")
    answer = json.loads(text)
    assert code == 200, f"{query}: {answer['error']}"
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def dashboard_queries() -> list[str]:
    """As Grafana would send them, with its variables filled in."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    texts = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    for variable, value in {"$node": ".*", "$__rate_interval": "5s", "$__range": "5s"}.items():
        texts = [text.replace(variable, value) for text in texts]
    assert not any("$" in text for text in texts)
    return texts


def test_a_real_prometheus_answers_every_query_of_the_dashboard(tmp_path: Path, prometheus: Path) -> None:
    ledger, store = Ledger("a", tmp_path / "state"), Store(tmp_path / "state", "a")
    addresses = {name: f"ipc://{tmp_path}/{name}" for name in "ab"}
    over = threading.Event()
    with (
        patch("middleware.runtime.loop.durable_runner.TARGET", SECOND // 20),
        node_thread("a", addresses["a"], addresses, processor("Echoing"), TYPES, ledger=ledger, store=store) as first,
        node_thread("b", addresses["b"], addresses, processor("Summing"), TYPES) as second,
        observed(first) as one,
        observed(second) as other,
        Subscriber(first.address, [Echo], resume="billing") as named,
        Publisher(first.address, name="p", types=[Hit]) as publisher,
        scraping(prometheus, tmp_path, [one, other]) as address,
    ):
        named.wait_ready(DEADLINE)
        with Publisher(first.address, types=[Hit]) as passing:
            passing.publish(hits(0, 1, "passing"))
            passing.flush(DEADLINE)

        def feed() -> None:
            for number in range(100_000):
                publisher.publish(hits(50 * number, 50))
                if over.wait(0.05):
                    return

        feeder = threading.Thread(target=feed)
        feeder.start()
        try:
            open_ones = dashboard_queries()
            assert len(open_ones) > 50
            deadline = time.monotonic() + DEADLINE
            while open_ones := [query for query in open_ones if not queried(address, query)]:
                assert time.monotonic() < deadline, open_ones
                over.wait(0.2)
        finally:
            over.set()
            feeder.join()
        publisher.flush(DEADLINE)
        received = scraped(one)["events_received_total{}"]
        poll_until(
            lambda: float(queried(address, 'slackline_events_received_total{node="a"}')[0]["value"][1]) >= received,
            "Prometheus has what the node has",
        )
        assert {sample["metric"]["node"] for sample in queried(address, "slackline_node_info")} == {"a", "b"}
        linted = [str(prometheus.with_name("promtool")), "check", "metrics"]
        done = subprocess.run(
            linted, input=fetched(one, "/metrics")[1], capture_output=True, text=True, timeout=DEADLINE, check=False
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), "names are as Prometheus has them"
        lags = queried(address, "slackline_subscriber_lag_blocks")
        assert [sample["metric"]["subscriber"] for sample in lags] == ["billing"]
