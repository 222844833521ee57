"""``slackline sub --to``: finals are kept once each, though the program is killed and begins again."""

from __future__ import annotations

import json
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from test_network import DEADLINE, TYPES, hits, node_thread, poll_until
from test_network_cli import finished, slackline

from middleware.model.event import END
from middleware.runtime.clients import Publisher
from middleware.runtime.node import Node
from middleware.runtime.storage.store import Store

pytestmark = pytest.mark.system

Kept = Callable[[], list[int]]


@contextmanager
def endpoint() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An HTTP endpoint, and what it has been sent."""
    received: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hits", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def target(kind: str, folder: Path) -> Iterator[tuple[str, Kept]]:
    """Where events are to be kept, and how to see the ids of those that are."""
    if kind == "http":
        with endpoint() as (url, received):
            yield url, lambda: list(dict.fromkeys(record["id"] for record in received))  # the receiver keeps the first
        return
    file = folder / f"hits.{kind}"

    def in_table() -> list[int]:
        with closing(sqlite3.connect(file)) as database:
            try:
                return [number for (number,) in database.execute("SELECT id FROM finals ORDER BY ts")]
            except sqlite3.OperationalError:  # there is no table yet
                return []

    def in_file() -> list[int]:
        whole = file.read_bytes().rpartition(b"\n")[0] if file.exists() else b""
        return [json.loads(line)["id"] for line in whole.splitlines()]

    yield str(file), in_file if kind == "jsonl" else in_table


def attached(node: Node, name: str) -> bool:
    """Whether a subscriber has sent its interest: before that it is sent nothing."""
    return any(peer.name == name and peer.link.bytes_in > 0 for peer in node.statistics().peers)


@pytest.mark.parametrize("kind", ["jsonl", "sqlite", "db", "http"])
def test_each_final_is_kept_once_though_the_program_is_killed(tmp_path: Path, kind: str) -> None:
    with (
        target(kind, tmp_path) as (to, kept),
        node_thread("a", "tcp://127.0.0.1:*", types=TYPES, store=Store(tmp_path / "state", "a")) as node,
        Publisher(node.address, types=["Hit"]) as publisher,
    ):
        arguments = ["sub", node.address, "Hit", "--types-from", "test_network", "--to", to, "--resume", "billing"]
        first = slackline(tmp_path, *arguments)
        poll_until(lambda: attached(node, "billing"), "sub has attached")
        publisher.publish(hits(1, 50)[::-1])
        publisher.publish(hits(52, 10))
        publisher.advance(["Hit"], 1_050)
        poll_until(lambda: len(kept()) == 50, "the first events are kept")
        first.send_signal(signal.SIGKILL)
        first.communicate(timeout=DEADLINE)
        publisher.publish(hits(51, 1))
        publisher.publish(hits(62, 38))
        publisher.advance(["Hit"], 1_090)
        cut = slackline(tmp_path, *arguments, "--count", "7", "--json", "-")
        assert json.loads(finished(cut)) == {"events": 7, "missing": {}}
        if kind != "http":  # what an endpoint has taken may come again, if the program died before it could say so
            assert kept() == list(range(1, 58))
        last = slackline(tmp_path, *arguments)
        poll_until(lambda: len(kept()) == 90, "what came meanwhile is kept")
        publisher.publish(hits(100, 1))
        publisher.advance(["Hit"], END)
        errors = finished(last)
        assert "kept 43 events" in errors or kind == "http"
        assert kept() == list(range(1, 101))


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_without_a_name_it_adds_what_comes_from_then_on(tmp_path: Path, kind: str) -> None:
    with (
        target(kind, tmp_path) as (to, kept),
        node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node,
        Publisher(node.address, types=["Hit"]) as publisher,
    ):
        for first in (1, 21):
            sub = slackline(tmp_path, "sub", node.address, "Hit", "--types-from", "test_network", "--to", to, "--count", "10")
            poll_until(
                lambda: any(peer.role == "subscriber" and peer.link.bytes_in for peer in node.statistics().peers),
                "sub has attached",
            )
            publisher.publish(hits(first, 10))
            publisher.advance(["Hit"], 1_000 + first + 9)
            assert "kept 10 events" in finished(sub)
            poll_until(lambda: all(peer.role != "subscriber" for peer in node.statistics().peers), "it has gone")
            publisher.publish(hits(first + 10, 10))
            publisher.advance(["Hit"], 1_000 + first + 19)
            publisher.flush(DEADLINE)
        assert kept() == [*range(1, 11), *range(21, 31)]


def test_to_a_file_restored_from_an_older_copy_the_rest_is_sent_again(tmp_path: Path) -> None:
    with (
        target("jsonl", tmp_path) as (to, kept),
        node_thread("a", "tcp://127.0.0.1:*", types=TYPES, store=Store(tmp_path / "state", "a")) as node,
        Publisher(node.address, types=["Hit"]) as publisher,
    ):
        arguments = ["sub", node.address, "Hit", "--types-from", "test_network", "--to", to, "--resume", "billing"]
        first = slackline(tmp_path, *arguments)
        poll_until(lambda: attached(node, "billing"), "sub has attached")
        for start in range(1, 101, 10):
            publisher.publish(hits(start, 10)[::-1])
            publisher.advance(["Hit"], 1_000 + start + 9)
            poll_until(lambda end=start + 9: len(kept()) == end, "they are kept")
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=DEADLINE)
        lines = Path(to).read_text().splitlines(keepends=True)
        Path(to).write_text("".join(lines[:35]))
        publisher.publish(hits(101, 5))
        publisher.advance(["Hit"], END)
        errors = finished(slackline(tmp_path, *arguments))
        assert "kept 70 events" in errors and "missing" not in errors
        assert kept() == list(range(1, 106))


def test_a_file_that_knows_more_than_a_new_log_is_reported(tmp_path: Path) -> None:
    with target("jsonl", tmp_path) as (to, kept):
        arguments = ["Hit", "--types-from", "test_network", "--to", to, "--resume", "billing"]
        for log, first, code in (("before", 1, 0), ("after its disk was lost", 11, 1)):
            with (
                node_thread("a", "tcp://127.0.0.1:*", types=TYPES, store=Store(tmp_path / log, "a")) as node,
                Publisher(node.address, types=["Hit"]) as publisher,
            ):
                sub = slackline(tmp_path, "sub", node.address, *arguments)
                poll_until(lambda node=node: attached(node, "billing"), "sub has attached")
                publisher.publish(hits(first, 10))
                publisher.advance(["Hit"], END)
                _, errors = sub.communicate(timeout=DEADLINE)
                assert sub.returncode == code, errors
        assert kept() == list(range(1, 21))


def of_the_first_five(folder: Path, node: Node, publisher: Publisher, arguments: list[str]) -> str:
    """What a subscription prints of five events; five more come then, and no others."""
    sub = slackline(folder, *arguments, "--count", "5")
    poll_until(lambda: attached(node, "eye"), "sub has attached")
    publisher.publish(hits(1, 5))
    printed = finished(sub)
    publisher.publish(hits(6, 5))
    publisher.advance(["Hit"], END)
    return printed


def test_resume_without_a_sink_prints_on(tmp_path: Path) -> None:
    store = Store(tmp_path / "state", "a")
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES, store=store) as node, Publisher(node.address) as publisher:
        arguments = ["sub", node.address, "Hit", "--types-from", "test_network", "--resume", "eye", "--json", "-"]
        printed = of_the_first_five(tmp_path, node, publisher, arguments)
        assert [json.loads(line)["id"] for line in printed.splitlines()] == [1, 2, 3, 4, 5]
        for there in ({6, 7, 8, 9, 10}, set()):
            lines = [json.loads(line) for line in finished(slackline(tmp_path, *arguments)).splitlines()]
            assert {line["id"] for line in lines if line["change"] == "insert"} == there
        other = slackline(tmp_path, *arguments, "--consistency", "final")  # what was not final then would be missing
        _, errors = other.communicate(timeout=DEADLINE)
        assert other.returncode == 1 and "'eye' is the name of a subscription that has read early results" in errors


def test_finals_are_printed_a_few_at_a_time_each_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "state", "a")
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES, store=store) as node, Publisher(node.address) as publisher:
        arguments = ["sub", node.address, "Hit", "--types-from", "test_network", "--resume", "eye", "--consistency", "final"]
        sub = slackline(tmp_path, *arguments, "--json", "-", "--count", "1")
        poll_until(lambda: attached(node, "eye"), "sub has attached")
        publisher.publish(hits(1, 7))
        publisher.advance(["Hit"], END)
        printed = [finished(sub)]
        printed += [finished(slackline(tmp_path, *arguments, "--json", "-", "--count", "2")) for _ in range(3)]
        ids = [[line["id"] for line in map(json.loads, some.splitlines()) if line["change"] == "insert"] for some in printed]
        assert ids == [[1], [2, 3], [4, 5], [6, 7]]


def test_an_endpoint_is_sent_a_few_at_a_time_each_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "state", "a")
    with (
        target("http", tmp_path) as (to, kept),
        node_thread("a", "tcp://127.0.0.1:*", types=TYPES, store=store) as node,
        Publisher(node.address, types=["Hit"]) as publisher,
    ):
        arguments = ["sub", node.address, "Hit", "--types-from", "test_network", "--resume", "desk", "--to", to, "--count", "3"]
        sub = slackline(tmp_path, *arguments)
        poll_until(lambda: attached(node, "desk"), "sub has attached")
        publisher.publish(hits(1, 8))
        publisher.advance(["Hit"], END)
        finished(sub)
        for _ in range(2):
            finished(slackline(tmp_path, *arguments))
        assert kept() == list(range(1, 9))


def test_what_a_file_of_changes_has_stays_there_when_the_subscription_is_resumed(tmp_path: Path) -> None:
    store = Store(tmp_path / "state", "a")
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES, store=store) as node, Publisher(node.address) as publisher:
        arguments = ["sub", node.address, "Hit", "--types-from", "test_network", "--resume", "eye", "--json", "hits.json"]
        of_the_first_five(tmp_path, node, publisher, arguments)
        finished(slackline(tmp_path, *arguments))
    lines = map(json.loads, (tmp_path / "hits.json").read_text().splitlines())
    assert [line["id"] for line in lines if line["change"] == "insert"] == list(range(1, 11))


def test_who_prints_finals_hears_that_the_node_left_with_some_held_back(tmp_path: Path) -> None:
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node:
        arguments = ["sub", node.address, "Hit", "--types-from", "test_network", "--consistency", "final", "--json", "-"]
        sub = slackline(tmp_path, *arguments)
        poll_until(lambda: any(peer.link.bytes_in > 0 for peer in node.statistics().peers), "sub has attached")
        with Publisher(node.address) as publisher:
            publisher.publish(hits(1, 5))
            publisher.flush()
    printed, errors = sub.communicate(timeout=DEADLINE)
    assert (sub.returncode, printed.strip()) == (1, "")
    assert "not shown: 5 x event that was not final when the node left" in errors


def test_what_was_not_asked_for_is_not_missing(tmp_path: Path) -> None:
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node:
        arguments = ["sub", node.address, "Hit", "--types-from", "test_network", "--consistency", "final", "--json", "-"]
        sub = slackline(tmp_path, *arguments, "--count", "2")
        poll_until(lambda: any(peer.link.bytes_in > 0 for peer in node.statistics().peers), "sub has attached")
        with Publisher(node.address, types=["Hit"]) as publisher:
            publisher.publish(hits(1, 10))
            publisher.advance(["Hit"], hits(1, 10)[4].ts)
            publisher.flush()
            printed, errors = sub.communicate(timeout=DEADLINE)
    assert (sub.returncode, len(printed.splitlines())) == (0, 2), errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "hits.txt"], "'hits.txt' is no sink: give FILE.jsonl"),
        (["--to", "ftp://host/x"], "there is no connector ftp"),
        (["--to", "foreign.jsonl"], "foreign.jsonl is no file of this kind"),
        (["--to", "no/such/folder/x.jsonl"], "cannot be written: No such file or directory"),
        (["--to", "x.jsonl", "--consistency", "early"], "a sink takes final events only"),
    ],
)
def test_what_will_not_do_is_reported_at_once(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "foreign.jsonl").write_text("Dear Sir,\n")
    done = slackline(tmp_path, "sub", "tcp://127.0.0.1:1", "Hit", "--types-from", "test_network", *arguments)
    _, errors = done.communicate(timeout=DEADLINE)
    assert done.returncode == 2
    assert message in " ".join(errors.replace("│", " ").split())
