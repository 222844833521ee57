"""Lines of servers and files as a source: whole ones only, numbered, kept until they are acknowledged."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path

import pytest
from slackline_benchmarks.servers import until

from detectors.cql import compile_cql
from middleware.connect.lines import LONGEST, LineEvents, Lines, opener
from middleware.connect.messages.source import Message, Messages
from middleware.model.errors import SourceError, UnreachableError

HOST = "CREATE STREAM Tick (symbol String NOT NULL, n Int NOT NULL) SOURCE HOST ('127.0.0.1', {port});"
FILE = "CREATE STREAM Tick (symbol String NOT NULL, n Int NOT NULL) SOURCE FILE ('ticks.csv', ';');"
QUERY = "SELECT n FROM Tick INTO Found"


def source(text: str, folder: Path | None = None):
    (operator,) = compile_cql(text + QUERY, folder=folder).operators
    (plan,) = operator.sources
    return plan


def received(lines: Lines, count: int) -> list[Message]:
    found: list[Message] = []

    def enough() -> bool:
        found.extend(lines.receive(0.05))
        return len(found) >= count

    until(enough, f"{count} lines", 10)
    assert len(found) == count
    return found


def test_a_file_is_followed_and_only_whole_lines_count(tmp_path: Path) -> None:
    file = tmp_path / "ticks.csv"
    plan = source(FILE, tmp_path)
    assert plan.source == "Tick:ticks.csv"
    make = opener(plan)
    with pytest.raises(UnreachableError, match=r"ticks\.csv cannot be read"):
        make()
    file.write_bytes(b"symbol;n\nIBM;1\nGE;x\n\xff;2\nMS;")
    with closing(make()) as lines:
        first = received(lines, 4)
        assert not lines.receive(0.0)
        with file.open("ab") as more:
            more.write(b"5\n")
        first += received(lines, 1)
    events, unread = LineEvents(plan).read(first)
    assert [(event.symbol, event.n, event.id, event.source) for event in events] == [
        ("IBM", 1, 2, plan.source),
        ("MS", 5, 5, plan.source),
    ]
    assert [(each.message.id, each.type) for each in unread] == [(3, "Tick"), (4, "Tick")]
    assert unread[0].reason == "n is no Int"
    assert "decode" in unread[1].reason


def test_what_was_not_acknowledged_comes_again(tmp_path: Path) -> None:
    file = tmp_path / "ticks.csv"
    file.write_bytes(b"IBM;1\nGE;2\nMS;3\n")
    make = opener(source(FILE, tmp_path))
    lines = make()
    found = received(lines, 3)
    lines.acknowledge(Messages.of(found[:1]))
    lines.close()
    with closing(make()) as lines:
        assert list(lines.receive(0.0)) == found[1:]
        assert not lines.receive(0.0)
        with file.open("ab") as more:
            more.write(b"GE;4\n")
        (fourth,) = received(lines, 1)
        assert (fourth.id, fourth.body) == (4, b"GE;4")
        lines.acknowledge(Messages.of([*found[1:], fourth]))
    with closing(make()) as lines:
        assert not lines.receive(0.0)


def test_a_file_must_stay_the_one_that_it_was(tmp_path: Path) -> None:
    file = tmp_path / "ticks.csv"
    file.write_bytes(b"IBM;1\nGE;2\n")
    with closing(opener(source(FILE, tmp_path))()) as lines:
        received(lines, 2)
        file.write_bytes(b"IBM;9\n")
        with pytest.raises(SourceError, match="replaced or cut short"):
            lines.receive(0.0)


def test_a_server_is_reached_again_and_what_it_cut_off_is_listed() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        plan = source(HOST.format(port=server.getsockname()[1]))
        make, reader = opener(plan), LineEvents(plan)
        with closing(make()) as lines:
            connection, _ = server.accept()
            connection.sendall(b"symbol,n\nIBM,1\nGE,2")
            found = received(lines, 2)
            connection.close()
            found += received(lines, 1)
            with pytest.raises(UnreachableError, match="has closed the connection"):
                lines.receive(1.0)
            lines.acknowledge(Messages.of(found))
        with closing(make()) as lines:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"symbol,n\nGE,22\r\n")
                found += received(lines, 2)
        events, unread = reader.read(found)
    assert [(event.symbol, event.n, event.id) for event in events] == [("IBM", 1, 2), ("GE", 22, 5)]
    assert [(each.message.body, each.reason) for each in unread] == [
        (b"GE,2", "the connection ended in the middle of this line")
    ]
    with pytest.raises(UnreachableError, match="cannot reach"):
        make()


def test_a_line_without_an_end_costs_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "ticks.csv"
    file.write_bytes(b"IBM;1\nGE;" + b"7" * (3 * LONGEST) + b"\nMS;3\n")
    plan = source(FILE, tmp_path)
    with closing(opener(plan)()) as lines:
        events, unread = LineEvents(plan).read(received(lines, 3))
    assert [(event.symbol, event.id) for event in events] == [("IBM", 1), ("MS", 3)]
    assert [each.reason for each in unread] == [f"the line has more than {LONGEST:,} bytes"]
    assert len(unread[0].message.body) == LONGEST


STAMPED = "CREATE STREAM Tick (n Int NOT NULL, came Long) SYSTEM TIME came SOURCE FILE ('ticks.csv', ';');"


def test_a_line_that_is_read_again_arrived_when_it_first_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ticks.csv"
    plan = source(STAMPED, tmp_path)
    assert plan.by_arrival and not source(FILE.replace("symbol String NOT NULL", "ts Long"), tmp_path).by_arrival

    def lives(count: int) -> list[object]:
        with closing(opener(plan, tmp_path / "state")()) as lines:
            return LineEvents(plan).read(received(lines, count))[0]

    file.write_bytes(b"1\n2\n")
    first = lives(2)
    file.write_bytes(b"1\n2\n3\n4\n")
    second = lives(4)
    assert second[:2] == first == lives(4)[:2]
    times = [event.came for event in second]  # type: ignore[attr-defined]
    assert times == sorted(set(times)) == [event.ts for event in second]  # type: ignore[attr-defined]
    with monkeypatch.context() as full, closing(opener(plan, tmp_path / "other")()) as lines:
        full.setattr(os, "pwrite", lambda *_: 0)
        with pytest.raises(UnreachableError, match="cannot be written now"):
            lines.receive(0.0)
        full.undo()
        assert [each.id for each in received(lines, 4)] == [1, 2, 3, 4]
