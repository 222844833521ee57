"""The store: what it was given, it gives back, in order, to another process, and only once it is safe."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from middleware.durability.core import Write
from middleware.errors import StateError
from middleware.pubsub.codec import BlockHead
from middleware.pubsub.journal import Made, Record
from middleware.runtime import store as stores
from middleware.runtime.store import Retention, Store


def record(number: int, blocks: int = 2, size: int = 10) -> Record:
    entries = [Made(BlockHead("Ping", 1), bytes([number % 256]) * size) for _ in range(blocks)]
    return Record(number, (number - 1) * blocks, list(entries), True, None, {"Unit": number})


def poll_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def fill(store: Store, first: int, last: int, checkpoints: dict[int, bytes] | None = None, **options: int) -> None:
    for number in range(first, last + 1):
        data = (checkpoints or {}).get(number)
        store.write(Write(record(number), (lambda data=data: data) if data is not None else None, **options))
    reached = 0

    def done() -> bool:
        nonlocal reached
        reached = store.stored() or reached
        return reached == last

    poll_until(done)


def test_what_is_stored_is_there_in_the_next_life(tmp_path: Path) -> None:
    store = Store(tmp_path, "a")
    line, epoch = store.line, store.epoch
    assert store.checkpoint() is None
    fill(store, 1, 5)
    assert list(store.behind_checkpoint()) == [record(number) for number in range(1, 6)]
    store.close()
    again = Store(tmp_path, "a")
    assert again.line == line > 0
    assert again.epoch > epoch
    assert list(again.behind_checkpoint()) == [record(number) for number in range(1, 6)]
    fill(again, 6, 8, {7: b"state"})
    assert again.checkpoint() == b"state"
    assert [each.number for each in again.behind_checkpoint()] == [8]
    again.close()


def test_the_log_is_read_from_a_position(tmp_path: Path) -> None:
    store = Store(tmp_path, "a")
    fill(store, 1, 50)
    assert [each.number for each in store.read(10, 0)] == [6]
    assert [each.number for each in store.read(11, 10**6)] == list(range(6, 51))
    assert list(store.read(100, 10)) == []
    store.close()


def test_a_write_is_told_only_when_another_process_could_read_it(tmp_path: Path) -> None:
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
    kept = [each.number for each in store.read(0, 10**9)]
    assert kept[-1] == 100
    assert kept[0] == 61, "those not passed yet are kept up to four times the size"
    assert store.oldest == 120
    fill(store, 101, 140, {140: b"two"}, needed=280)
    assert store.oldest > 200
    assert [each.number for each in store.read(store.oldest, 10**9)][-1] == 140
    store.close()
    again = Store(tmp_path, "a")
    assert again.oldest > 200
    again.close()


def test_a_disk_that_refuses_is_tried_again_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, refusals = Store._commit, iter([True, True, False])

    def full(self: Store, connection: sqlite3.Connection, batch: list[object]) -> None:
        if next(refusals, False):
            connection.execute("BEGIN")
            connection.execute("INSERT INTO log VALUES (999, 0, 0, x'')")
            raise sqlite3.OperationalError("database or disk is full")
        commit(self, connection, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "_commit", full)
    monkeypatch.setattr(stores, "_RETRY", 0.01)
    store = Store(tmp_path, "a")
    fill(store, 1, 3)
    assert [each.number for each in store.read(0, 10**6)] == [1, 2, 3]
    store.close()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    store = Store(tmp_path, "a")
    with pytest.raises(StateError, match="another process runs this node"):
        Store(tmp_path, "a")
    store.close()
    Store(tmp_path, "a").close()


def test_a_torn_tail_of_the_wal_costs_only_what_was_not_told(tmp_path: Path) -> None:
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
