"""Sinks keep each final once: whatever was cut off, and however often they are opened again."""

from __future__ import annotations

import json
import sqlite3
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from middleware.errors import SinkError
from middleware.event import ORDER, Event
from middleware.runtime.sinks import FileSink, HttpSink, SqliteSink


class Goal(Event, frozen=True):
    team: str


def goals(first: int, last: int) -> list[Event]:
    return [Goal("red", ts=number, id=number, source="referee", level=1) for number in range(first, last + 1)]


@pytest.mark.parametrize("cut", [0, 1, 40, 85])
def test_a_file_that_was_cut_off_goes_on_behind_its_last_whole_line(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "goals.jsonl"
    sink = FileSink(file)
    assert sink.mark is None
    sink.take(goals(1, 5))
    sink.close()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) - cut])
    sink = FileSink(file)
    mark = sink.mark
    assert mark == ORDER(goals(5 - (cut + 76) // 77 if cut else 5, 9)[0])
    sink.take([goal for goal in goals(1, 9) if ORDER(goal) > mark])
    sink.close()
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == list(range(1, 10))


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear Sir,\n")
    with pytest.raises(SinkError, match="last line is no event"):
        FileSink(file)
    assert file.read_text() == "Dear Sir,\n"


def test_a_table_keeps_events_and_mark_together(tmp_path: Path) -> None:
    file = tmp_path / "goals.sqlite"
    sink = SqliteSink(file)
    sink.take(goals(1, 3))
    with pytest.raises(SinkError, match="UNIQUE"):
        sink.take(goals(3, 6))  # a repeat that should never have come: nothing of the batch is kept
    assert sink.mark == ORDER(goals(3, 3)[0])
    sink.close()
    sink = SqliteSink(file)
    assert sink.mark == ORDER(goals(3, 3)[0])
    sink.take(goals(4, 4))
    sink.close()
    rows = sqlite3.connect(file).execute("SELECT id, type FROM finals ORDER BY ts").fetchall()
    assert rows == [(number, "Goal") for number in range(1, 5)]


class Endpoint(BaseHTTPRequestHandler):
    answers: ClassVar[list[int]] = []
    taken: ClassVar[dict[str, list[int]]] = {}

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.taken.setdefault(self.headers["Idempotency-Key"], [event["id"] for event in body])
        self.send_response(self.answers.pop(0))
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


def test_an_endpoint_is_asked_again_under_the_same_key() -> None:
    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Endpoint.answers, Endpoint.taken = [503, 429, 204, 200, 400], {}
    sink = HttpSink(f"http://127.0.0.1:{server.server_port}/goals")
    sink.take(goals(1, 2))
    sink.take(goals(3, 3))
    assert list(Endpoint.taken.values()) == [[1, 2], [3]]
    with pytest.raises(SinkError, match="refuses the events: 400"):
        sink.take(goals(4, 4))
    server.shutdown()
    server.server_close()
    with pytest.raises(SinkError, match="has not taken 1 events"):
        HttpSink(f"http://127.0.0.1:{server.server_port}/", patience=0.1).take(goals(5, 5))
