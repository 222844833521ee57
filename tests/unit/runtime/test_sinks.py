"""Sinks keep each final once: whatever was cut off, and however often they are opened again."""

from __future__ import annotations

import json
import os
import resource
import socket
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from middleware.model.errors import SinkError, UnreachableError
from middleware.model.event import ORDER, Event
from middleware.runtime.sinks.http import LARGEST_BODY
from middleware.runtime.sinks.sink import FileSink, HttpSink, SqliteSink, as_record, open_sink


class Goal(Event):
    team: str


def goals(first: int, last: int) -> list[Event]:
    return [Goal("red", ts=number, id=number, source="referee", level=1) for number in range(first, last + 1)]


@pytest.mark.parametrize("cut", [0, 1, 40, 85])
def test_a_file_that_was_cut_off_resumes_behind_its_last_whole_line(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "goals.jsonl"
    sink = FileSink(file)
    assert sink.position is None
    sink.take(goals(1, 5))
    sink.close()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) - cut])
    sink = FileSink(file)
    mark = sink.position
    assert mark == ORDER(goals(5 - (cut + 76) // 77 if cut else 5, 9)[0])
    sink.take([goal for goal in goals(1, 9) if ORDER(goal) > mark])
    sink.close()
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == list(range(1, 10))


def test_a_torn_line_is_gone_once_the_file_is_opened(tmp_path: Path) -> None:
    """Also where no more finals come: who reads the file finds whole lines."""
    file = tmp_path / "goals.jsonl"
    with closing(FileSink(file)) as sink:
        sink.take(goals(1, 3))
    whole = file.read_bytes()
    for torn in (b'{"type":"Go', b"\0" * 100, b'{"type":"Goal"\0\0\n'):
        file.write_bytes(whole + torn)
        FileSink(file).close()
        assert file.read_bytes() == whole


def test_the_name_of_a_new_file_is_on_the_disk_before_anything_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut may take the file away with all that was safe."""
    synced: list[bool] = []
    fsync = os.fsync

    def noting(descriptor: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    with closing(FileSink(tmp_path / "goals.jsonl")):
        assert synced == [True]


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear Sir,\n")
    with pytest.raises(SinkError, match="last line is no event"):
        FileSink(file)
    assert file.read_text() == "Dear Sir,\n"


@pytest.mark.parametrize(
    "text",
    [
        '{"precious": "configuration, no line end"}',
        '{"type":"FeatureCollection","features":[]}',
        '{"type":"Goal","ts":1,"level":"one","source":"x","id":1}',
        "no line end",
        "[1]",
        "{",
        '{"type":"Goal"}\n{"type":"Go',
        "\0\0\0",
        "a\0",
        '{"type":1}\0',
        "Dear Sir,\n\0\0",
        "\0" + '{"type":"Goal","ts":1,"level":0,"source":"x","id":1}\n',
        "x" * 200_000,
        '{"type":"Goal","ts":1}\n' + "x" * 200_000,
    ],
)
def test_a_foreign_file_stays_as_it_is(tmp_path: Path, text: str) -> None:
    file = tmp_path / "foreign"
    file.write_text(text)
    if text == "{":  # this may be a sink's, of which one byte came to the disk
        FileSink(file).close()
        return
    with pytest.raises(SinkError, match="is no file of this kind"):
        FileSink(file)
    assert file.read_text() == text


def test_the_first_line_may_be_cut_off_anywhere(tmp_path: Path) -> None:
    file = tmp_path / "goals.jsonl"
    line = json.dumps(as_record(goals(1, 1)[0]), separators=(",", ":"))
    for cut in range(len(line) + 1):
        file.write_text(line[:cut])
        sink = FileSink(file)
        assert sink.position is None
        sink.take(goals(1, 1))
        sink.close()
        assert file.read_text() == line + "\n"


@pytest.mark.parametrize("hole", [1, 5_000])
def test_a_power_cut_leaves_holes_anywhere(tmp_path: Path, hole: int) -> None:
    file = tmp_path / "goals.jsonl"
    lines = b"".join(json.dumps(as_record(goal), separators=(",", ":")).encode() + b"\n" for goal in goals(1, 3))
    for place in range(1, len(lines) + 1, 3):
        for behind in (b"", lines[place + hole :]):  # pages come to the disk in any order
            file.write_bytes(lines[:place] + b"\0" * hole + behind)
            sink = FileSink(file)
            kept = lines[:place].count(b"\n")
            assert sink.position == (ORDER(goals(kept, kept)[0]) if kept else None)
            if kept < 3:
                sink.take(goals(kept + 1, 3))
            sink.close()
            assert file.read_bytes() == lines


def test_holes_are_looked_for_where_a_batch_can_be(tmp_path: Path) -> None:
    file = tmp_path / "goals.jsonl"
    lines = b"".join(json.dumps(as_record(goal), separators=(",", ":")).encode() + b"\n" for goal in goals(1, 100))
    file.write_bytes(lines[:-200] + b"\0" * 200)
    sink = FileSink(file, unsynced=300)
    assert sink.position == ORDER(goals(97, 97)[0])
    sink.close()


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file may grow beyond this many bytes: as on a disk that is full, what fits is written."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("truncates", [True, False])
def test_a_full_disk_costs_no_event_and_doubles_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truncates: bool) -> None:
    file = tmp_path / "goals.jsonl"
    sink = FileSink(file)
    sink.take(goals(1, 10))
    size, mark = file.stat().st_size, sink.position

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch, largest_file(size + 1_000):
        if not truncates:  # the half that was written stays in the file
            patch.setattr(os, "ftruncate", broken)
        for error in ("File too large", "File too large" if truncates else "Input/output error"):
            with pytest.raises(SinkError, match=error):
                sink.take(goals(11, 60))
            assert sink.position == mark
            assert (file.stat().st_size == size) is truncates
    sink.take(goals(11, 60))
    sink.close()
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == list(range(1, 61))


def test_a_file_is_one_sinks_alone(tmp_path: Path) -> None:
    file = tmp_path / "goals.jsonl"
    sink = FileSink(file)
    sink.take(goals(1, 2))
    held = len(os.listdir("/proc/self/fd"))
    with pytest.raises(SinkError, match="is in use: another program writes it"):
        FileSink(file)
    assert len(os.listdir("/proc/self/fd")) == held, "whoever tries again and again holds no more files"
    sink.take(goals(3, 3))
    sink.close()
    again = FileSink(file)
    assert again.position == ORDER(goals(3, 3)[0])
    again.close()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE finals (a)",
        "CREATE TABLE marks (a)",
        "CREATE TABLE marks (sink TEXT PRIMARY KEY, mark TEXT); INSERT INTO marks VALUES ('finals', 'x')",
        "CREATE VIEW finals AS SELECT 1",
    ],
)
def test_a_foreign_database_is_refused(tmp_path: Path, statement: str) -> None:
    with closing(sqlite3.connect(tmp_path / "goals.db")) as database:
        database.executescript(statement)
    with pytest.raises(SinkError, match=r"goals.db cannot be used"):
        SqliteSink(tmp_path / "goals.db")


def test_short_writes_are_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, bytes(data)[:7]))
    sink = FileSink(tmp_path / "goals.jsonl")
    sink.take(goals(1, 5))
    sink.close()
    monkeypatch.undo()
    assert [json.loads(line)["id"] for line in (tmp_path / "goals.jsonl").read_text().splitlines()] == [1, 2, 3, 4, 5]


class Odd(Event):
    type: str
    x: float


class Odder(Event):
    type: str
    type_: int


def test_a_record_always_has_its_type_name() -> None:
    odd = as_record(Odd("mine", float("nan"), ts=1, id=1, source="a"))
    assert (odd["type"], odd["type_"]) == ("Odd", "mine")
    odder = as_record(Odder("mine", 7, ts=1, id=1, source="a"))
    assert (odder["type"], odder["type_"], odder["type__"]) == ("Odder", 7, "mine")


def test_numbers_that_json_does_not_have_become_null(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "odd.jsonl")
    sink.take([Odd("mine", float("inf"), ts=1, id=1, source="a")])
    sink.close()
    assert json.loads((tmp_path / "odd.jsonl").read_text())["x"] is None


def test_a_table_keeps_events_and_mark_together(tmp_path: Path) -> None:
    file = tmp_path / "goals.sqlite"
    sink = SqliteSink(file)
    sink.take(goals(1, 3))
    with pytest.raises(SinkError, match="UNIQUE"):
        sink.take(goals(3, 6))  # a repeat that should never have come: nothing of the batch is kept
    assert sink.position == ORDER(goals(3, 3)[0])
    sink.close()
    sink = SqliteSink(file)
    assert sink.position == ORDER(goals(3, 3)[0])
    sink.take(goals(4, 4))
    sink.close()
    rows = sqlite3.connect(file).execute("SELECT id, type FROM finals ORDER BY ts").fetchall()
    assert rows == [(number, "Goal") for number in range(1, 5)]


def test_outputs_that_share_a_file_have_marks_of_their_own(tmp_path: Path) -> None:
    file = str(tmp_path / "results.sqlite")
    with closing(open_sink(file, "goals")) as fast, closing(open_sink(file, "odds")) as slow:
        fast.take(goals(5, 9))
        assert slow.position is None, "it would omit what the other has not had"
        slow.take([Odd("mine", 0.5, ts=1, id=1, source="a")])
    with closing(open_sink(file, "goals")) as fast, closing(open_sink(file, "odds")) as slow:
        assert (fast.position, slow.position) == (ORDER(goals(9, 9)[0]), (1, 0, "a", 1))


class Endpoint(BaseHTTPRequestHandler):
    answers: ClassVar[list[int]] = []
    taken: ClassVar[dict[str, list[int]]] = {}

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.taken.setdefault(self.headers["Idempotency-Key"], [event["id"] for event in body])
        self.send_response(self.answers.pop(0))
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


def test_an_endpoint_is_asked_again_under_the_same_key() -> None:
    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Endpoint.answers, Endpoint.taken = [503, 429, 204, 408, 425, 200, 400], {}
    sink = HttpSink(f"http://127.0.0.1:{server.server_port}/goals")
    sink.take(goals(1, 2))
    sink.take(goals(3, 3))
    assert list(Endpoint.taken.values()) == [[1, 2], [3]]
    with pytest.raises(SinkError, match="refuses the events: 400"):
        sink.take(goals(4, 4))
    server.shutdown()
    server.server_close()
    with pytest.raises(UnreachableError, match="has not taken 1 events"):
        HttpSink(f"http://127.0.0.1:{server.server_port}/", patience=0.1).take(goals(5, 5))


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_an_endpoint_that_has_moved_has_not_taken_anything(code: int) -> None:
    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Endpoint.answers, Endpoint.taken = [code], {}
    with pytest.raises(SinkError, match=f"answers {code} .*give the address that it names: /elsewhere"):
        HttpSink(f"http://127.0.0.1:{server.server_port}/goals").take(goals(1, 2))
    server.shutdown()
    server.server_close()


def test_an_answer_that_is_no_http_is_asked_for_again() -> None:
    answers = [b"garbage\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]

    def serve(server: socket.socket) -> None:
        for answer in answers:
            connection, _ = server.accept()
            with connection:
                received = b""
                while b'"id":2' not in received:
                    received += connection.recv(65_536)
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        HttpSink(f"http://127.0.0.1:{server.getsockname()[1]}/").take(goals(2, 2))
        thread.join(20)
        assert not thread.is_alive()
    with socket.create_server(("127.0.0.1", 0)) as server:
        answers = [b"garbage\r\n\r\n"]
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        with pytest.raises(UnreachableError, match=r"has not taken 1 events .*its answer is no HTTP"):
            HttpSink(f"http://127.0.0.1:{server.getsockname()[1]}/", patience=0).take(goals(2, 2))


@pytest.mark.parametrize("url", ["ftp://x/", "http://", "http://h:port/", "http://[::1", "http://h/a b", "http://h/\n", "x"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(SinkError, match="is no HTTP address"):
        HttpSink(url)


class Narrow(BaseHTTPRequestHandler):
    """An endpoint that takes bodies up to so many bytes, and keeps the sizes of those it has seen."""

    most: ClassVar[int] = 0
    sizes: ClassVar[list[int]] = []
    taken: ClassVar[list[tuple[str, list[int]]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.sizes.append(len(body))
        if len(body) <= self.most:
            self.taken.append((self.headers["Idempotency-Key"], [event["id"] for event in json.loads(body)]))
        self.send_response(204 if len(body) <= self.most else 413)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def narrow(most: int) -> Iterator[str]:
    Narrow.most, Narrow.sizes, Narrow.taken = most, [], []
    server = HTTPServer(("127.0.0.1", 0), Narrow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/goals"
    finally:
        server.shutdown()
        server.server_close()


def long_goals(sizes: list[int]) -> list[Event]:
    return [Goal("x" * size, ts=number, id=number, source="referee", level=1) for number, size in enumerate(sizes)]


def test_what_becomes_final_together_is_cut_into_bodies_between_events() -> None:
    sizes = [1_000] * 600 + [500_000] + [1_000] * 300
    with narrow(2**20) as url:
        HttpSink(url).take(long_goals(sizes))
    assert [number for _, ids in Narrow.taken for number in ids] == list(range(901)), "in order, each once"
    assert len({key for key, _ in Narrow.taken}) == len(Narrow.taken)
    assert [len(ids) for _, ids in Narrow.taken if 600 in ids] == [1]
    small = [size for size, (_, ids) in zip(Narrow.sizes, Narrow.taken, strict=True) if 600 not in ids]
    assert max(small) <= LARGEST_BODY < min(small[0], small[1]) * 1.1


def test_an_endpoint_with_room_for_less_gets_less() -> None:
    with narrow(20_000) as url:
        sink = HttpSink(url)
        sink.take(long_goals([1_000] * 300))
        tried = len(Narrow.sizes)
        sink.take(long_goals([1_000] * 300))
        assert [number for _, ids in Narrow.taken for number in ids] == [*range(300), *range(300)]
        assert max(Narrow.sizes[tried:]) <= 20_000, "it is not asked for more again"
        with pytest.raises(SinkError, match=r"refuses the event Goal \('referee', 1\) of 50,0.. bytes as too large"):
            sink.take(long_goals([10, 50_000, 10]))
        assert Narrow.taken[-1][1] == [0]


def test_an_answer_that_drips_is_cut_off_when_its_time_is_up() -> None:
    over = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not over.wait(0.02):
                try:
                    connection.sendall(b"a")
                except OSError:  # it was cut off
                    return

    errors: list[str] = []

    def take(port: int) -> None:
        try:
            HttpSink(f"http://127.0.0.1:{port}/", timeout=0.3, patience=0).take(goals(1, 1))
        except UnreachableError as error:
            errors.append(str(error))

    with socket.create_server(("127.0.0.1", 0)) as server:
        threads = [
            threading.Thread(target=drip, args=(server,), daemon=True),
            threading.Thread(target=take, args=(server.getsockname()[1],), daemon=True),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        over.set()
        assert errors and errors[0].endswith("it has not answered within 0.3 s")


def test_an_address_with_a_password_is_refused_without_saying_it() -> None:
    with pytest.raises(SinkError, match="cannot have a user and a password") as raised:
        HttpSink("http://user:secret@127.0.0.1:8080/x")
    assert "secret" not in str(raised.value)
    HttpSink("http://127.0.0.1:8080?mail=a@b")


def test_two_outputs_in_one_database_may_have_the_same_finals(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with closing(SqliteSink(tmp_path / "both.sqlite", name)) as sink:
            sink.take(goals(1, 2))
            assert sink.position == ORDER(goals(2, 2)[-1])
    with closing(sqlite3.connect(tmp_path / "both.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM finals").fetchone() == (2,)
