"""The late ledger: there once, there after a crash, there when the disk refuses; and what the command makes of it."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import json
from typer.testing import CliRunner

from middleware.broker.ingress.checks import RejectedEvent
from middleware.cli.questions.late import app
from middleware.link.codec import encode
from middleware.model.errors import LedgerError
from middleware.model.event import Event
from middleware.ordering.lanes.retraction import EventResults
from middleware.ordering.records import Late
from middleware.runtime.storage.late_ledger import FILE, SPILL, Ledger, Query, deleted_from, read_entry, read_ledger, summary
from middleware.runtime.storage.spill import Spill


class Hit(Event):
    peak: float


def late(number: int, ts: int = 100, final: int = 150) -> Late:
    return Late(Hit(0.5, ts=ts, id=number, source="ball"), "insert", 400, 120, final)


def rejected(number: int) -> RejectedEvent:
    event = Hit(0.5, ts=10**18, id=number, source="liar")
    return RejectedEvent("ahead", 500, "insert", "Hit", event.ts, event.id, event.source, encode(event))


def test_entries_come_back_as_they_were_listed(tmp_path: Path) -> None:
    ledger = Ledger("field", tmp_path)
    ledger.report_late("Hits", [late(1), late(2)])
    ledger.report_rejections([rejected(3)])
    ledger.commit()
    first, _, third = read_ledger(tmp_path)  # while it is open
    assert (first.number, first.node, first.detector, first.reason, first.change) == (1, "field", "Hits", "late", "insert")
    assert (first.type, first.source, first.id, first.ts, first.clk, first.k, first.bound) == (
        "Hit",
        "ball",
        1,
        100,
        400,
        120,
        150,
    )
    assert first.record == encode(late(1).event)
    assert first.lateness == 50
    assert (third.detector, third.reason, third.clk, third.lateness) == ("", "ahead", None, 10**18 - 500)
    assert read_entry(tmp_path, 3) == third
    assert summary(tmp_path) == [("Hits", "late", "Hit", 2, 50), ("", "ahead", "Hit", 1, 10**18 - 500)]
    assert [entry.id for entry in read_ledger(tmp_path / FILE, Query(source="ball"), limit=1)] == [2]
    assert read_ledger(tmp_path, Query(reason="ahead", detector="Hits")) == []
    ledger.close()


def test_what_is_listed_again_after_a_crash_stands_there_once(tmp_path: Path) -> None:
    for _ in range(2):
        ledger = Ledger("field", tmp_path)
        ledger.report_late("Hits", [late(1), late(2)])
        ledger.report_late("Passes", [late(1)])
        ledger.close()
    assert [(entry.detector, entry.id) for entry in read_ledger(tmp_path)] == [("Hits", 1), ("Hits", 2), ("Passes", 1)]


def revised(peak: float) -> Late:
    return Late(Hit(peak, ts=100, id=1, source="ball"), "revise", 400, 120, 150)


def test_late_revisions_of_one_event_are_entries_of_their_own(tmp_path: Path) -> None:
    for _ in range(2):  # again after a crash
        ledger = Ledger("field", tmp_path)
        for peak in (0.7, 0.8, 0.7):
            ledger.report_late("Hits", [revised(peak)])
            ledger.commit()
        ledger.report_rejections([rejected(3), rejected(3)])
        ledger.close()
    entries = read_ledger(tmp_path)
    assert [entry.record for entry in entries] == [
        encode(revised(0.7).event),
        encode(revised(0.8).event),
        encode(Hit(0.5, ts=10**18, id=3, source="liar")),
    ]


def test_what_was_committed_survives_a_kill(tmp_path: Path) -> None:
    code = f"""
        import os, signal
        from pathlib import Path
        from middleware.model.event import Event
        from middleware.ordering.records import Late
        from middleware.runtime.storage.late_ledger import Ledger

        class Hit(Event):
            peak: float

        ledger = Ledger("field", Path({str(tmp_path)!r}))
        for number in range(100):
            ledger.report_late("Hits", [Late(Hit(0.5, ts=1, id=number, source="s"), "insert", 5, 5, 2)])
            ledger.commit()
        ledger.report_late("Hits", [Late(Hit(0.5, ts=1, id=100, source="s"), "insert", 5, 5, 2)])
        os.kill(os.getpid(), signal.SIGKILL)
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert [entry.id for entry in read_ledger(tmp_path)] == list(range(100))


def opened_by(make: Callable[[], Ledger], monkeypatch: pytest.MonkeyPatch) -> tuple[list[sqlite3.Connection], Ledger]:
    """The connections to databases that are opened while a ledger is made, and the ledger."""
    connect, found = sqlite3.connect, []

    def connected(*args: Any, **options: Any) -> sqlite3.Connection:
        found.append(connect(*args, **options))
        return found[-1]

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", connected)
        return found, make()


def test_a_disk_that_refuses_costs_nothing_and_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (database,), ledger = opened_by(lambda: Ledger("field", tmp_path, retry=0.0), monkeypatch)
    pages = database.execute("PRAGMA page_count").fetchone()[0]
    database.execute(f"PRAGMA max_page_count = {pages + 2}")  # as a full disk: SQLITE_FULL
    for number in range(500):
        ledger.report_late("Hits", [late(number)])
        ledger.commit()
    assert 0 < ledger.listed < 500
    assert ledger.lost == 0
    assert len(read_ledger(tmp_path)) == ledger.listed
    database.execute(f"PRAGMA max_page_count = {pages + 1_000}")
    ledger.commit()
    assert ledger.listed == 500
    assert [entry.id for entry in read_ledger(tmp_path)] == list(range(500))
    ledger.close()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Another program is about to write the ledger, and does not end."""
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def test_nobody_waits_for_a_locked_database_and_nothing_is_lost_in_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (database,), ledger = opened_by(lambda: Ledger("field", tmp_path), monkeypatch)
    ledger.report_late("Hits", [late(1)])
    assert ledger.commit()
    with locked(tmp_path):
        assert database.execute("PRAGMA busy_timeout").fetchone() == (0,)
        for number in (2, 3):
            ledger.report_late("Hits", [late(number)])
            ledger.report_rejections([rejected(number + 10)])
            assert ledger.commit(), "it is on the disk"
        assert ledger.listed == 1
        assert [entry.id for entry in read_ledger(tmp_path)] == [1]
    again = Ledger("field", tmp_path)  # the first one was killed: nothing was closed
    entries = read_ledger(tmp_path)
    assert [entry.id for entry in entries] == [1, 2, 12, 3, 13]
    assert (entries[1].clk, entries[1].record, entries[2].clk) == (400, encode(late(2).event), None)
    assert not (tmp_path / SPILL).exists()
    again.close()


def test_once_the_lock_is_gone_the_database_has_what_waited(tmp_path: Path) -> None:
    ledger = Ledger("field", tmp_path, retry=0.0)
    for first in (0, 20):
        with locked(tmp_path):
            for number in range(first, first + 10):
                ledger.report_late("Hits", [late(number)])
                assert ledger.commit()
            assert (tmp_path / SPILL).read_bytes().count(b"\n") == 10, "each once"
        ledger.commit()
        assert not (tmp_path / SPILL).exists()
    assert [entry.id for entry in read_ledger(tmp_path)] == [*range(10), *range(20, 30)]
    assert (ledger.listed, ledger.lost) == (20, 0)
    ledger.close()


def test_what_was_torn_off_while_it_was_spilled_costs_that_alone(tmp_path: Path) -> None:
    ledger = Ledger("field", tmp_path)
    with locked(tmp_path):
        ledger.report_late("Hits", [late(number) for number in range(4)])
        ledger.commit()
    whole = (tmp_path / SPILL).read_bytes()
    lines = whole.splitlines(keepends=True)
    (tmp_path / SPILL).write_bytes(lines[0] + b"\0" * 9 + b"\n" + lines[2] + lines[3][:40])
    Ledger("field", tmp_path).close()
    assert [entry.id for entry in read_ledger(tmp_path)] == [0, 2]


def test_without_room_beside_it_what_is_listed_is_not_on_the_disk(tmp_path: Path) -> None:
    ledger = Ledger("field", tmp_path, retry=0.0)
    (tmp_path / SPILL).mkdir()
    with locked(tmp_path):
        ledger.report_late("Hits", [late(1)])
        assert not ledger.commit()
        assert not ledger.commit()
        (tmp_path / SPILL).rmdir()
        ledger.report_late("Hits", [late(2)])
        assert ledger.commit()
        assert (tmp_path / SPILL).read_bytes().count(b"\n") == 2
    ledger.close()
    assert [entry.id for entry in read_ledger(tmp_path)] == [1, 2]


def test_a_half_written_spill_is_cut_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Spill(tmp_path / SPILL, json.Decoder(tuple[int, bytes]), 100, retry=0.0)
    assert rows.add([(1, b"a")])
    write, cut = os.write, os.ftruncate

    def not_even_this(file: int, size: int) -> None:
        if os.fstat(file).st_size > size:
            raise OSError(5, "Input/output error")
        cut(file, size)

    def half(file: int, data: bytes) -> int:
        if len(data) < 20:
            raise OSError(28, "No space left on device")
        return write(file, bytes(data)[:-7])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        patch.setattr(os, "ftruncate", not_even_this)
        assert not rows.add([(2, b"b" * 100)])
    assert rows.add([(3, b"c")])
    rows.close()
    assert Spill(tmp_path / SPILL, json.Decoder(tuple[int, bytes]), 100).rows() == ([(1, b"a"), (3, b"c")], 0)


def test_memory_for_a_disk_that_refuses_is_bounded_and_what_goes_is_counted(tmp_path: Path) -> None:
    ledger = Ledger("field", tmp_path, most_waiting=10)
    with locked(tmp_path):
        for number in range(45):
            ledger.report_late("Hits", [late(number)])
            ledger.commit()
    assert (ledger.listed, ledger.lost) == (35, 35)
    spilled = sum(len(file.read_bytes().splitlines()) for file in tmp_path.glob(SPILL + "*"))
    assert 10 <= spilled <= 20
    copy = tmp_path / "as after a crash"
    shutil.copytree(tmp_path, copy)
    ledger.close()
    assert [entry.id for entry in read_ledger(tmp_path)] == list(range(35, 45))
    assert sum(deleted_from(tmp_path).values()) == 35
    Ledger("field", copy).close()
    assert [entry.id for entry in read_ledger(copy)][-10:] == list(range(35, 45))


def test_the_oldest_entries_go_when_there_are_too_many_and_are_counted(tmp_path: Path) -> None:
    for first in range(0, 300, 60):  # lives, each of which lists twice what the one before had listed last
        ledger = Ledger("field", tmp_path, most_kept=100, trim_every=10)
        for number in range(max(0, first - 7), first + 60, 5):
            ledger.report_late("Hits", [late(each) for each in range(number, min(number + 5, first + 60))])
            ledger.commit()
            entries = [entry.id for entry in read_ledger(tmp_path)]
            last = entries[-1] + 1
            assert entries == list(range(last - len(entries), last))
            assert len(entries) < 110 and (last <= 100 or len(entries) >= 100)
            assert sum(deleted_from(tmp_path).values()) == last - len(entries)
        ledger.close()
    gone = sum(deleted_from(tmp_path).values())
    assert gone > 0
    listed = CliRunner().invoke(app, ["list", str(tmp_path)])
    assert f"{gone} older entries" in listed.stdout


def test_of_many_sources_with_few_entries_each_the_oldest_go_and_are_counted_together(tmp_path: Path) -> None:
    ledger = Ledger("field", tmp_path, most_kept=200, trim_every=20)
    for first in range(0, 500, 50):
        hits = [Hit(0.5, ts=100, id=number, source=f"ball {number}") for number in range(first, first + 50)]
        ledger.report_late("Hits", [Late(hit, "insert", 400, 120, 150) for hit in hits])
        ledger.commit()
    ledger.close()
    kept = [entry.id for entry in read_ledger(tmp_path)]
    assert kept == list(range(500 - len(kept), 500)) and 200 <= len(kept) < 220
    assert deleted_from(tmp_path) == {None: 500 - len(kept)}


def test_a_source_that_fills_the_ledger_pushes_out_its_own_entries_and_they_are_counted(tmp_path: Path) -> None:
    ledger = Ledger("field", tmp_path, most_kept=200, trim_every=20)
    ledger.report_late("Hits", [late(number) for number in range(20)])
    for first in range(0, 1_000, 50):
        ledger.report_rejections([rejected(number) for number in range(first, first + 50)])
        ledger.commit()
    ledger.close()
    kept = [(entry.source, entry.id) for entry in read_ledger(tmp_path)]
    assert [number for source, number in kept if source == "ball"] == list(range(20)), "what an honest source has listed"
    flood = [number for source, number in kept if source == "liar"]
    assert flood == list(range(1_000 - len(flood), 1_000)) and 180 <= len(flood) < 200
    assert deleted_from(tmp_path) == {"liar": 1_000 - len(flood)}
    assert f"{1_000 - len(flood)} of liar" in CliRunner().invoke(app, ["list", str(tmp_path)]).stdout


def test_without_a_folder_it_only_counts() -> None:
    ledger = Ledger("field")
    ledger.report_late("Hits", [late(1)])
    ledger.commit()
    ledger.close()
    assert (ledger.listed, ledger.lost) == (1, 0)


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="give a node's state folder"):
        read_ledger(tmp_path)
    (tmp_path / FILE).write_text("no database at all, though it is long enough to be looked at")
    with pytest.raises(LedgerError, match="is no late ledger"):
        read_ledger(tmp_path)
    with pytest.raises(LedgerError, match="must be this node's own"):
        Ledger("field", tmp_path)
    Ledger("field", tmp_path / "new" / "folder").close()
    with pytest.raises(LedgerError, match="late list"):
        read_entry(tmp_path / "new" / "folder", 7)


def test_the_command_lists_and_shows(tmp_path: Path) -> None:
    ledger = Ledger("field", tmp_path)
    ledger.report_late("Hits", [late(1), late(2)])
    ledger.report_rejections([rejected(3)])
    ledger.close()
    listed = CliRunner().invoke(app, ["list", str(tmp_path)])
    assert listed.exit_code == 0
    assert "(all of the node)" in listed.stdout and "50ns" in listed.stdout
    only = CliRunner().invoke(app, ["list", str(tmp_path), "--reason", "late", "--last", "1", "--json", "-"])
    assert '"id": 2' in only.stdout and '"id": 1' not in only.stdout and '"events": 2' in only.stdout
    shown = CliRunner().invoke(app, ["show", str(tmp_path), "1"])
    assert "late: 50ns below 150, up to which its results were final" in shown.stdout
    assert "clk 400, K 120ns, final up to 150 (250ns behind clk)" in shown.stdout
    assert "[0.5, 100, 1, 'ball', 0]" in shown.stdout
    assert "beyond 500" in CliRunner().invoke(app, ["show", str(tmp_path), "3"]).stdout
    Ledger("field", tmp_path / "empty").close()
    assert "nothing is reported" in CliRunner().invoke(app, ["list", str(tmp_path / "empty")]).stdout


def test_what_made_a_detector_raise_is_listed_with_the_end_of_its_traceback(tmp_path: Path) -> None:
    failure = 'Traceback:\n  File "x.py", line 3\nValueError: [no] peak'
    for _ in range(2):  # once more, after a crash
        ledger = Ledger("field", tmp_path)
        ledger.report_failures("Hits", [EventResults(Hit(0.5, ts=7, id=9, source="ball"), [], failure)])
        ledger.close()
    (entry,) = read_ledger(tmp_path)
    assert (entry.reason, entry.detector, entry.id, entry.ts, entry.details) == ("failed", "Hits", 9, 7, failure)
    listed = CliRunner().invoke(app, ["list", str(tmp_path)])
    assert "ValueError: [no] peak" in listed.stdout
    shown = CliRunner().invoke(app, ["show", str(tmp_path), "1"])
    assert "failed: the detector raised" in shown.stdout and 'File "x.py", line 3' in shown.stdout
    assert "that fits these options" in CliRunner().invoke(app, ["list", str(tmp_path), "--reason", "ahead"]).stdout
    refused = CliRunner().invoke(app, ["list", str(tmp_path), "--reason", "lost"])
    assert refused.exit_code == 2 and "must be one of late, ahead, clash, derived" in refused.output.replace("\n", " ").replace(
        "│ ", ""
    )


def test_a_source_is_shown_as_it_is_called(tmp_path: Path) -> None:
    ledger = Ledger("field", tmp_path)
    ledger.report_late("Hits", [Late(Hit(0.5, ts=100, id=1, source="line[/a][b]"), "insert", 400, 120, 150)])
    ledger.close()
    listed = CliRunner().invoke(app, ["list", str(tmp_path)], env={"COLUMNS": "200"})
    assert listed.exit_code == 0 and "line[/a][b]" in listed.stdout


def test_a_clash_is_listed_with_both_contents(tmp_path: Path) -> None:
    event, first = Hit(2.5, ts=120, id=7, source="ball"), Hit(0.5, ts=100, id=7, source="ball")
    about = "insert", "Hit", event.ts, event.id, event.source
    ledger = Ledger("field", tmp_path)
    ledger.report_rejections([RejectedEvent("clash", first.ts, *about, encode(event), first=("Hit", encode(first)))])
    ledger.close()
    (entry,) = read_ledger(tmp_path)
    assert (entry.reason, entry.bound, entry.record) == ("clash", 100, encode(event))
    shown = CliRunner().invoke(app, ["show", str(tmp_path), "1"]).stdout
    assert "another event came first with this source and id" in shown
    assert "Hit (0.5, 100, 7, 'ball', 0) came first" in shown and "[2.5, 120, 7, 'ball', 0]" in shown
    assert "came first" in CliRunner().invoke(app, ["list", str(tmp_path), "--reason", "clash"], env={"COLUMNS": "200"}).stdout
