"""A log that was damaged, cut or put back: the fault is found and reported; no record is ever taken for another."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from middleware.durability.checkpoint import bodies
from middleware.model.errors import StateError
from middleware.runtime.storage.store import Store

from .test_store import fill, record

RECORDS, CHECKPOINT = 60, 25
WAL, FILE, WITNESS = "log.sqlite-wal", "log.sqlite", "log.witness"


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a node as a kill leaves it: some of the log in its file, the rest in the one written ahead."""
    folder = tmp_path_factory.mktemp("state")
    store = Store(folder, "a")
    fill(store, 1, CHECKPOINT, {CHECKPOINT: b"state" * 5_000}, size=300)
    with closing(sqlite3.connect(folder / FILE)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for number in range(CHECKPOINT + 1, RECORDS + 1):  # each in a transaction of its own
        fill(store, number, number, size=300)
    copied = tmp_path_factory.mktemp("killed") / "state"
    shutil.copytree(folder, copied)
    store.close()
    return copied


def copied(folder: Path, to: Path, name: str = "copy") -> Path:
    shutil.rmtree(to / name, ignore_errors=True)
    shutil.copytree(folder, to / name)
    return to / name


def refused(error: StateError) -> str:
    """It says which file is damaged, and what to do."""
    assert FILE in str(error)
    assert any(way in str(error) for way in ("move the folder away", "another state folder", "a new state folder"))
    return "refused"


def checkpoint_of(store: Store, is_needed: bool = True) -> bytes | None:
    """What the checkpoint holds. Raises StateError as a node that is started does."""
    pieces = store.checkpoint(is_needed)
    try:
        return b"".join(bodies(pieces)) if pieces is not None else None
    except StateError as error:
        raise StateError(f"{store.file}: {error}") from error


def check(folder: Path) -> str:
    """Hold a store to what it may do with a damaged log; what it did."""
    try:
        store = Store(folder, "a")
    except StateError as error:
        return refused(error)
    with closing(store):
        try:
            checkpoint = checkpoint_of(store)
            behind = list(store.behind_checkpoint())
        except StateError as error:
            return refused(error)
        first = CHECKPOINT + 1 if checkpoint is not None else 1
        assert checkpoint in (None, b"state" * 5_000)
        assert behind == [record(number, size=300) for number in range(first, first + len(behind))]
        is_all = (first + len(behind) - 1, checkpoint is not None) == (RECORDS, True)
        assert store.is_new or store.lacks or is_all, "records are missing, and nothing reports it"
        assert not (is_all and store.lacks), "a wrong alarm"
        offset, count = store.oldest, 0
        while True:  # as a reader does: it sees by the first offset whether something is missing before it
            try:
                part = list(store.read(offset, 2_000))
            except StateError as error:
                return refused(error)
            if not part:
                break
            for each in part:
                assert each == record(each.number, size=300)
                count += 1
            assert all(after.number == before.number + 1 for before, after in pairwise(part))
            offset = part[-1].first + 2
        if store.lacks or store.is_new:
            return "reported"
        return "whole" if (offset, count) == (RECORDS * 2, RECORDS) else "a reader has a gap"


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_flipped_byte_is_found_or_makes_no_difference(killed: Path, tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([FILE, WAL, WITNESS]))
    file = copied(killed, tmp_path) / name
    held = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 2))):
        held[data.draw(st.integers(0, len(held) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    file.write_bytes(held)
    check(file.parent)


def test_a_log_written_ahead_of_an_unknown_version_is_refused_with_what_to_do(killed: Path, tmp_path: Path) -> None:
    """Its checksum fits, as two flips cancel out; SQLite then says that it cannot open the file."""
    wal = copied(killed, tmp_path) / WAL
    held = bytearray(wal.read_bytes())
    for at in (7, 19):
        held[at] ^= 0x80
    wal.write_bytes(held)
    assert check(wal.parent) in ("refused", "reported")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 0.98))
def test_a_log_written_ahead_that_is_cut_is_reported(killed: Path, tmp_path: Path, share: float) -> None:
    wal = copied(killed, tmp_path) / WAL
    os.truncate(wal, round(share * wal.stat().st_size))
    assert check(wal.parent) == "reported"


@pytest.mark.parametrize(
    ("removed", "does", "says"),
    [
        ((), "whole", ""),
        ((WAL,), "reported", "it ends early"),
        ((FILE,), "reported", "this is a new beginning"),
        ((FILE, WAL), "reported", "this is a new beginning"),
        ((WITNESS,), "whole", "the witness of the log is gone"),
        ((FILE, WAL, WITNESS), "reported", ""),
    ],
)
def test_files_that_are_removed(killed: Path, tmp_path: Path, removed: tuple[str, ...], does: str, says: str) -> None:
    copy = copied(killed, tmp_path)
    for name in removed:
        (copy / name).unlink()
    with capture_logs() as logs:
        assert check(copy) == does
    assert says in str(logs)
    assert bool(logs) == bool(says)


def test_an_older_log_with_todays_witness_and_another_log_are_reported(killed: Path, tmp_path: Path) -> None:
    older = copied(killed, tmp_path, "older")
    copy = copied(killed, tmp_path)
    store = Store(copy, "a")
    fill(store, RECORDS + 1, RECORDS + 9)
    store.close()
    shutil.copy(copy / WITNESS, older / WITNESS)
    with closing(Store(older, "a")) as store:
        assert store.lacks == "end"
        line = store.line
        fill(store, RECORDS + 1, RECORDS + 9, size=5)  # the log continues with other records under the same numbers
    shutil.copy(copy / WITNESS, older / WITNESS)
    with closing(Store(older, "a")) as store:
        assert (store.lacks, store.line) == ("all", line)
    shutil.rmtree(copy)
    Store(copy, "a").close()
    shutil.copy(copy / WITNESS, older / WITNESS)
    with closing(Store(older, "a")) as store:
        assert store.lacks == "all"


def test_a_loss_is_reported_until_something_is_stored_behind_it(killed: Path, tmp_path: Path) -> None:
    copy = copied(killed, tmp_path)
    (copy / WAL).unlink()
    (copy / WITNESS).unlink()
    with closing(sqlite3.connect(copy / FILE)) as database, database:
        database.execute("DELETE FROM checkpoint")
        database.execute("DELETE FROM log WHERE number = 9")
    for _ in range(2):  # the first life ends before anything is stored
        with closing(Store(copy, "a")) as store:
            assert store.lacks == "end"
            assert [each.number for each in store.behind_checkpoint()] == list(range(1, 9))
    with closing(Store(copy, "a")) as store:
        fill(store, 9, 9)
    with closing(Store(copy, "a")) as store:
        assert not store.lacks
        assert [each.number for each in store.behind_checkpoint()] == list(range(1, 10))


def test_a_damaged_checkpoint_is_refused_unless_everything_is_built_anew(killed: Path, tmp_path: Path) -> None:
    copy = copied(killed, tmp_path)
    with closing(sqlite3.connect(copy / FILE)) as database, database:
        database.execute("UPDATE piece SET data = replace(data, 'state', 'stale')")
        database.execute("UPDATE piece SET data = CAST(data AS BLOB)")
    with closing(Store(copy, "a")) as store:
        with pytest.raises(StateError, match=r"the checkpoint is damaged in piece 1: .* start the node with --rebuild"):
            checkpoint_of(store)
        assert checkpoint_of(store, is_needed=False) is None
        assert [each.number for each in store.everything()] == list(range(1, RECORDS + 1))


def test_whose_log_it_is_cannot_change_unnoticed(killed: Path, tmp_path: Path) -> None:
    for number, change in enumerate(
        (
            "UPDATE owner SET name = 'b'",
            "UPDATE meta SET value = value + 1 WHERE key = 'line'",
        )
    ):
        copy = copied(killed, tmp_path, str(number))
        with closing(sqlite3.connect(copy / FILE)) as database, database:
            database.execute(change)
        with pytest.raises(StateError, match="is damaged: what says whose log it is has changed"):
            Store(copy, "a")
