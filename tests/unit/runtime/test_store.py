"""The store: what it was given, it gives back, in order, to another process, and only once it is safe."""

from __future__ import annotations

import errno
import os
import select
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from middleware.broker.log.log_records import LocalBlock, Record
from middleware.durability.checkpoint import Piece, bodies, whole
from middleware.durability.durable_core import Write
from middleware.link.codec import BlockHead
from middleware.model.errors import StateError
from middleware.runtime.storage.checkpoints import ROW
from middleware.runtime.storage.number_pipe import NumberPipe
from middleware.runtime.storage.store import Retention, Store
from middleware.runtime.storage.witness import LogEnd, Witness

from .disks import disk_where, limited


def record(number: int, blocks: int = 2, size: int = 10) -> Record:
    entries = [LocalBlock(BlockHead("Ping", 1), bytes([number % 256]) * size) for _ in range(blocks)]
    return Record(number, (number - 1) * blocks, list(entries), True, None, {"Unit": number})


def checkpoint(store: Store) -> bytes | None:
    """What the complete checkpoint holds."""
    pieces = store.checkpoint()
    if pieces is None:
        return None
    return b"".join(bodies(pieces))


def refused(code: int, why: str = "database or disk is full") -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(why)
    error.sqlite_errorcode = code
    return error


def poll_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def fill(
    store: Store, first: int, last: int, checkpoints: dict[int, bytes] | None = None, size: int = 10, **options: int
) -> None:
    for number in range(first, last + 1):
        data = (checkpoints or {}).get(number)
        pieces = [Piece(number, part, piece) for part, piece in enumerate(whole(data))] if data is not None else []
        store.write(Write(record(number, size=size), pieces, **options))
    reached = 0

    def done() -> bool:
        nonlocal reached
        reached = store.stored() or reached
        return reached == last

    poll_until(done)


def test_what_is_stored_is_there_in_the_next_life(tmp_path: Path) -> None:
    store = Store(tmp_path, "a")
    line, epoch = store.line, store.epoch
    assert checkpoint(store) is None
    fill(store, 1, 5)
    assert list(store.behind_checkpoint()) == [record(number) for number in range(1, 6)]
    store.close()
    again = Store(tmp_path, "a")
    assert again.line == line > 0
    assert again.epoch > epoch
    assert list(again.behind_checkpoint()) == [record(number) for number in range(1, 6)]
    fill(again, 6, 8, {7: b"state"})
    assert checkpoint(again) == b"state"
    assert [each.number for each in again.behind_checkpoint()] == [8]
    again.close()


def test_the_log_is_read_from_a_position(tmp_path: Path) -> None:
    store = Store(tmp_path, "a")
    fill(store, 1, 50)
    assert [each.number for each in store.read(10, 0)] == [6]
    assert [each.number for each in store.read(11, 10**6)] == list(range(6, 51))
    assert list(store.read(100, 10)) == []
    store.close()


def test_a_write_is_acknowledged_only_when_another_process_could_read_it(tmp_path: Path) -> None:
    store = Store(tmp_path, "a")
    for number in range(1, 40):
        store.write(Write(record(number)))
        if (reached := store.stored()) is not None:
            other = sqlite3.connect(tmp_path / "log.sqlite")
            assert other.execute("SELECT max(number) FROM log").fetchone()[0] >= reached
            other.close()
    store.close()


def test_retention_spares_the_checkpoint_and_those_who_have_not_passed(tmp_path: Path) -> None:
    store = Store(tmp_path, "a", Retention(size=1_000))
    fill(store, 1, 100, {100: b"one"}, needed=120)
    poll_until(lambda: store.oldest == 120)
    kept = [each.number for each in store.read(0, 10**9)]
    assert kept[-1] == 100
    assert kept[0] == 61, "those not passed yet are kept up to four times the size"
    fill(store, 101, 140, {140: b"two"}, needed=280)
    poll_until(lambda: store.oldest > 200)
    assert [each.number for each in store.read(store.oldest, 10**9)][-1] == 140
    store.close()
    again = Store(tmp_path, "a")
    assert again.oldest > 200
    again.close()


def test_a_disk_that_refuses_is_tried_again_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = iter([True, True])
    disk_where(
        monkeypatch,
        lambda sql: refused(sqlite3.SQLITE_FULL) if sql == "COMMIT" and next(refusals, False) else None,
    )
    store = Store(tmp_path, "a", retry=0.01)
    fill(store, 1, 3)
    assert not any(refusals)
    assert [each.number for each in store.read(0, 10**6)] == [1, 2, 3]
    store.close()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG])
def test_a_witness_that_is_refused_after_the_commit_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    refusals, write = iter([True, True]), Witness.write

    def refusing(self: Witness, seen: LogEnd) -> None:
        if next(refusals, False):
            raise OSError(code, os.strerror(code))
        write(self, seen)

    monkeypatch.setattr(Witness, "write", refusing)
    store = Store(tmp_path, "a", retry=0.01)
    fill(store, 1, 3)
    assert not any(refusals)
    assert [each.number for each in store.read(0, 10**6)] == [1, 2, 3]
    store.close()


def test_a_checkpoint_may_be_larger_than_what_sqlite_takes_in_one_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, 1_000_000)
    large = os.urandom(2_100_000)
    store = Store(tmp_path, "a")
    fill(store, 1, 3, {2: large, 3: large[::-1]})
    assert checkpoint(store) == large[::-1]
    fill(store, 4, 4, {4: b"small"})
    assert checkpoint(store) == b"small"
    fill(store, 5, 5, {5: large})
    store.close()
    again = Store(tmp_path, "a")
    assert checkpoint(again) == large
    fill(again, 6, 6, {6: b""})
    assert checkpoint(again) == b""
    again.close()


def test_a_record_may_be_larger_than_what_sqlite_takes_in_one_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 2 * ROW)
    sizes = [10, 5 * ROW, ROW // 2 - 1, ROW // 2, 30 * ROW, 10]
    records = [record(number, size=size) for number, size in enumerate(sizes, 1)]
    store = Store(tmp_path, "a", Retention(size=50 * ROW))
    for each in records:
        store.write(Write(each))
    store.close()
    again = Store(tmp_path, "a", Retention(size=50 * ROW))
    assert list(again.behind_checkpoint()) == list(again.everything()) == records
    assert list(again.read(2, 10**9)) == records[1:]
    assert list(again.read(2, 10 * ROW)) == records[1:2]
    fill(again, 7, 7, {7: b"x"}, needed=14)
    assert [each.number for each in again.everything()] == [6, 7], "the size of a record is that of all its parts"
    again.close()
    with sqlite3.connect(tmp_path / "log.sqlite") as database:
        assert database.execute("SELECT count(*) FROM log_rest").fetchone() == (0,)
    database.close()


@pytest.mark.parametrize("retention", [Retention(), Retention(size=1_000)])
def test_the_size_of_the_log_is_known_without_reading_it(tmp_path: Path, retention: Retention) -> None:
    """What a store opens with is what the rows come to, whatever was added and cut off in the lives before."""
    for first in range(1, 60, 20):
        store = Store(tmp_path, "a", retention)
        fill(store, first, first + 19, {first + 10: b"state"}, needed=2 * first)
        store.close()
    with sqlite3.connect(tmp_path / "log.sqlite") as database:
        count, size = database.execute("SELECT count(*), sum(length(data)) FROM log").fetchone()
        known = database.execute("SELECT value FROM meta WHERE key = 'bytes'").fetchone()[0]
    database.close()
    assert known == size
    assert (count < 60) == (retention.size < 10_000)


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_BUSY])
def test_a_disk_that_refuses_at_the_start_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    store = Store(tmp_path, "a")
    fill(store, 1, 3)
    store.close()
    refusals = iter([True, True])
    disk_where(monkeypatch, lambda sql: refused(code) if "FROM owner" in sql and next(refusals, False) else None)
    store = Store(tmp_path, "a", retry=0.01)
    assert not any(refusals)
    assert [each.number for each in store.everything()] == [1, 2, 3]
    fill(store, 4, 4)
    store.close()


def test_advice_fits_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk_where(monkeypatch, lambda sql: refused(sqlite3.SQLITE_CANTOPEN, "unable to open database file"))
    with pytest.raises(StateError, match=r"cannot be used: unable to open.*room, memory and a file") as held:
        Store(tmp_path, "a")
    assert "away" not in str(held.value)
    monkeypatch.undo()
    Store(tmp_path, "a").close()
    (tmp_path / "log.sqlite").write_bytes(b"no database" * 1_000)
    with pytest.raises(StateError, match=r"move the folder away: the node begins anew.*Put back no older copy"):
        Store(tmp_path, "a")


def test_a_file_of_another_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    Store(tmp_path, "a").close()
    with sqlite3.connect(tmp_path / "log.sqlite") as database:
        database.execute("UPDATE meta SET value = 1 WHERE key = 'format'")
        database.execute("DROP TABLE log_rest")
    database.close()
    with pytest.raises(StateError, match="is of format 1, this is 3: use the version that wrote it, or another state folder"):
        Store(tmp_path, "a")
    with sqlite3.connect(tmp_path / "log.sqlite") as database:
        assert not database.execute("SELECT * FROM sqlite_master WHERE name = 'log_rest'").fetchall()
    database.close()


@pytest.mark.parametrize("kind", ["record too large", "thread dies", "cannot open"])
def test_what_will_never_be_stored_is_an_error_of_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    here = threading.current_thread()

    def fault(sql: str) -> Exception | None:
        if threading.current_thread() is here:
            return None
        if kind == "cannot open" and sql.startswith("PRAGMA"):
            return sqlite3.OperationalError("unable to open database file")
        return MemoryError("no more") if kind == "thread dies" and sql.startswith("BEGIN") else None

    if kind == "record too large":
        limited(monkeypatch, ROW // 2)  # so that not even its parts fit
    else:
        disk_where(monkeypatch, fault)
    store = Store(tmp_path, "a")
    with suppress(StateError):  # the thread that cannot even open has ended by now, or has not
        store.write(Write(record(1, 1, 1_100_000)))
    poller = select.poll()
    poller.register(store.wakes, select.POLLIN)
    assert poller.poll(20_000), "the node is woken"
    for _ in range(2):
        with pytest.raises(StateError, match=r"cannot be written, now or later: .*move the folder away"):
            store.stored()
    with pytest.raises(StateError, match="cannot be written"):
        store.write(Write(record(2)))
    store.close()
    monkeypatch.undo()
    Store(tmp_path, "a").close()


def test_the_folder_of_another_node_is_refused(tmp_path: Path) -> None:
    Store(tmp_path, "a").close()
    with pytest.raises(StateError, match="is the log of node 'a', and this is 'b': give each node a state folder of its own"):
        Store(tmp_path, "b")
    Store(tmp_path, "a").close()  # and it has been let go of


def test_a_node_is_not_woken_for_what_it_already_knows() -> None:
    pipe = NumberPipe()
    poller = select.poll()
    poller.register(pipe.wakes, select.POLLIN)
    for number in range(1, 4):
        pipe.put([number - 1, number])
        assert pipe.pending and pipe.take() == number  # before the writer's thread has come to write to the pipe
        pipe.wake()
        assert poller.poll(0) and pipe.take() is None
        assert not pipe.pending and not poller.poll(0)
    pipe.close()


def test_a_node_that_does_not_look_for_long_does_not_stop_the_writer() -> None:
    pipe = NumberPipe()
    for _ in range(100_000):  # more than a pipe holds
        pipe.wake()
    pipe.put([1])
    pipe.wake()
    assert pipe.take() == 1
    pipe.close()


def test_retention_counts_the_time_for_which_the_node_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    day, running, wall = 24 * 3600 * 10**9, 5, 10**18
    monkeypatch.setattr(time, "time_ns", lambda: wall)
    store = Store(tmp_path, "a", running=lambda: running)
    fill(store, 1, 5)
    wall += 50 * 365 * day  # the machine finds its time
    fill(store, 6, 6, {6: b"one"}, needed=4)
    assert store.oldest == 0
    running += day - 10
    fill(store, 7, 7, {7: b"two"}, needed=4)
    assert store.oldest == 0
    store.close()
    running = 3  # another boot: it counts from anew
    store = Store(tmp_path, "a", running=lambda: running)
    fill(store, 8, 8, {8: b"three"}, needed=4)
    assert store.oldest == 0
    running += 11
    fill(store, 9, 9, {9: b"four"}, needed=4)
    assert store.oldest == 4, "what all have passed goes after a day"
    running += 3 * day
    fill(store, 10, 10, {10: b"five"}, needed=4)
    assert store.oldest == 12, "the others' after four: records 3 to 6 were stored before, 7 a day later"
    store.close()


def test_a_log_knows_whether_it_reaches_back_to_its_beginning(tmp_path: Path) -> None:
    running = 0
    store = Store(tmp_path, "a", Retention(age=1), running=lambda: running)
    assert store.is_whole
    store.write(Write(Record(1, 0, [], False, None, {})))  # no blocks: cut off, it leaves the oldest offset at 0
    fill(store, 2, 2, {2: b"one"})
    assert store.is_whole
    running = 10
    fill(store, 3, 3, {3: b"two"})
    assert not store.is_whole
    store.close()
    again = Store(tmp_path, "a", Retention(age=1))
    assert not again.is_whole
    again.close()


def test_a_damaged_log_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    store = Store(tmp_path, "a")
    for first in range(1, 200, 10):
        fill(store, first, first + 9, size=3_000)
    store.close()
    file = tmp_path / "log.sqlite"
    whole = file.read_bytes()
    file.write_bytes(whole[:40_960] + os.urandom(45_056) + whole[86_016:])
    with pytest.raises(StateError, match=r"log.sqlite .*move the folder away"):  # noqa: PT012
        store = Store(tmp_path, "a")
        list(store.behind_checkpoint())
    file.write_bytes(whole[:60] + os.urandom(4_000) + whole[4_060:])
    with pytest.raises(StateError, match=r"log.sqlite cannot be used: .*move the folder away") as held:
        Store(tmp_path, "a")
    file.write_bytes(whole)
    assert held.tb is not None
    file.unlink()
    Store(tmp_path, "a").close()  # not locked by those that could not be used


def test_one_process_at_a_time(tmp_path: Path) -> None:
    store = Store(tmp_path, "a")
    with pytest.raises(StateError, match="another process runs this node"):
        Store(tmp_path, "a")
    store.close()
    Store(tmp_path, "a").close()


def test_a_torn_tail_of_the_wal_costs_only_what_was_not_acknowledged(tmp_path: Path) -> None:
    """The WAL is cut, as by a power failure: a prefix of the records is there, whole, and it can be written on."""
    store = Store(tmp_path, "a")
    fill(store, 1, 30)
    wal = tmp_path / "log.sqlite-wal"
    copy, size = tmp_path / "copy", os.path.getsize(wal)
    for cut in (size // 4, size // 2 + 7, size - 1):
        copy.mkdir(exist_ok=True)
        (copy / "log.sqlite").write_bytes((tmp_path / "log.sqlite").read_bytes())
        (copy / "log.sqlite-wal").write_bytes(wal.read_bytes()[:cut])
        (copy / "log.sqlite-shm").unlink(missing_ok=True)
        torn = Store(copy, "a")
        found = list(torn.read(0, 10**6))
        assert found == [record(number) for number in range(1, len(found) + 1)]
        assert len(found) < 30
        fill(torn, len(found) + 1, len(found) + 2)
        torn.close()
    store.close()
