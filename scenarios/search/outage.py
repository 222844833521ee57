"""``python -m scenarios.search.outage``: nodes are killed while they index, and three sinks get every result once.

A file, a SQLite table and an HTTP endpoint each follow the index behind a barrier of their own, on a subscription that lasts;
each is let go of half-way and taken up again. Meanwhile every node is killed (SIGKILL) and started anew. What the sinks have
in the end is held against the sequential run.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from middleware.model.errors import SlacklineError
from middleware.model.event import END, Event, EventType, Value, type_name
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.cluster import Cluster
from middleware.runtime.scenario import load_scenario
from middleware.runtime.sinks.sink import FileSink, HttpSink, Sink, SqliteSink, deliver
from middleware.testing.flows import sequential
from scenarios.search.index import Indexed, Page, Posted, flow
from scenarios.search.pages import pages

_PATIENCE = 90.0
_BATCH = 10
"""Pages published at once, the last first."""


Record = dict[str, Any]
"""What a sink has kept of a result, by the name of the field."""


class Delivered(NamedTuple):
    """What a sink has in the end: results, those twice, those that are missing, and those that never were."""

    sink: str
    results: int
    twice: int
    missing: int
    stray: int


class Endpoint:
    """An HTTP endpoint that keeps the first of each identity, as a receiver of such a sink has to. ``repeats``: the others."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, int], Record] = {}
        self.repeats = 0
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                for record in json.loads(self.rfile.read(int(self.headers["Content-Length"]))):
                    endpoint.repeats += endpoint.records.setdefault((record["source"], record["id"]), record) is not record
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/results"
        threading.Thread(target=self._server.serve_forever, name="endpoint", daemon=True).start()

    def close(self) -> None:
        """Serve no longer."""
        self._server.shutdown()
        self._server.server_close()


class Follower(threading.Thread):
    """Delivers finals to a sink up to ``half``, lets go of everything, opens it anew, and delivers the rest."""

    def __init__(self, name: str, cluster: Cluster, opened: Callable[[], Sink], half: int) -> None:
        super().__init__(name=name, daemon=True)
        self.ready = threading.Event()
        self.failure: str | None = None
        self._cluster, self._opened, self._half = cluster, opened, half

    def run(self) -> None:
        try:
            for until in (self._half, END):
                self._follow(until)
        except SlacklineError as error:
            self.failure = f"{self.name}: {error}"
        self.ready.set()

    def _follow(self, until: int) -> None:
        cluster = self._cluster
        address = cluster.addresses[list(cluster.scenario.placement)[-1]]
        results: list[EventType] = [Posted, Indexed]
        sink = self._opened()
        lasting: dict[str, Any] = {"resume": self.name, "after": sink.position, "patience": _PATIENCE}
        with closing(sink), Subscriber(address, results, consistency="final", **lasting) as subscriber:
            if not self.ready.is_set():
                cluster.await_ready(subscriber.wait_ready)
                self.ready.set()
            deliver(subscriber, sink, until)


def outage(
    folder: Path, seconds: float = 5.0, rate: float = 40.0, workers: int = 2, say: Callable[[str], None] = print
) -> list[Delivered]:
    """Index generated pages while nodes are killed; what each sink has in the end. Files go into ``folder``."""
    given = [Page(**row) for row in pages(5, seconds, rate)["search.Page"].to_pylist()]
    scenario = load_scenario("search").with_workers(workers)
    endpoint = Endpoint()
    opened: dict[str, Callable[[], Sink]] = {
        "file": lambda: FileSink(folder / "results.jsonl"),
        "sqlite": lambda: SqliteSink(folder / "results.db"),
        "http": lambda: HttpSink(endpoint.url),
    }
    with Cluster(scenario, durability="disk") as cluster:
        followers = [Follower(name, cluster, sink, given[len(given) // 2].ts) for name, sink in opened.items()]
        for follower in followers:
            follower.start()
        for follower in followers:
            follower.ready.wait(_PATIENCE)
        _publish(given, cluster, say)
        for follower in followers:
            follower.join(_PATIENCE)
    endpoint.close()
    if failed := [
        follower.failure or f"{follower.name} never ended" for follower in followers if follower.failure or follower.is_alive()
    ]:
        raise SlacklineError("; ".join(failed))
    found = {"file": _in_file(folder), "sqlite": _in_table(folder), "http": list(endpoint.records.values())}
    expected = Counter(_shown(type_name(each.event_type), each.ts, each.fields) for each in sequential(flow().nodes, given))
    say(f"the endpoint was sent {endpoint.repeats} results again, and knew them by their identity")
    return [_compared(name, records, expected) for name, records in found.items()]


def _publish(given: Sequence[Event], cluster: Cluster, say: Callable[[str], None]) -> None:
    """Publish all pages, and kill one node after the other meanwhile."""
    names = list(cluster.scenario.placement)
    starts = range(0, len(given), _BATCH)
    kills = {starts[len(starts) * (place + 1) // (len(names) + 1)]: name for place, name in enumerate(names)}
    with Publisher(cluster.addresses[cluster.scenario.entry], types=[Page], patience=_PATIENCE) as publisher:
        for start in starts:
            batch = given[start : start + _BATCH]
            publisher.publish(batch[::-1])
            if rest := given[start + _BATCH :]:  # a promise includes its own time, which the next page may share
                publisher.advance(Page, rest[0].ts - 1)
            if start in kills:
                say(f"kill -9 {kills[start]} after {start + len(batch)} pages")
                cluster.kill(kills[start], signal.SIGKILL)
                cluster.start(kills[start])
        publisher.advance(Page, END)
        publisher.flush(_PATIENCE)


def _in_file(folder: Path) -> list[Record]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def _in_table(folder: Path) -> list[Record]:
    connection = sqlite3.connect(folder / "results.db")
    try:
        return [json.loads(record) for (record,) in connection.execute("SELECT record FROM finals")]
    finally:
        connection.close()


_STAMP = ("type", "ts", "id", "source", "level", "cause")


def _compared(name: str, records: Sequence[Record], expected: Counter[str]) -> Delivered:
    got = Counter(
        _shown(each["type"], each["ts"], [value for field, value in each.items() if field not in _STAMP]) for each in records
    )
    identities = Counter((each["source"], each["id"]) for each in records)
    twice = sum(count - 1 for count in identities.values())
    return Delivered(name, len(records), twice, (expected - got).total(), (got - expected).total())


def _shown(kind: str, ts: int, fields: Sequence[Value]) -> str:
    return json.dumps([kind, ts, list(fields)])


def main() -> None:
    """Run it and print what came of it."""
    from rich.console import Console
    from rich.table import Table

    screen = Console(highlight=False)
    with TemporaryDirectory(prefix="slackline-outage-") as folder:
        delivered = outage(Path(folder), say=screen.print)
    table = Table(title="three sinks, every node killed once, every sink taken up anew half-way")
    for heading in ("sink", "results", "twice", "missing", "never were"):
        table.add_column(heading, justify="left" if heading == "sink" else "right")
    for each in delivered:
        table.add_row(each.sink, *(f"{count:,}" for count in each[1:]))
    screen.print(table)
    if any(each.twice or each.missing or each.stray for each in delivered):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
