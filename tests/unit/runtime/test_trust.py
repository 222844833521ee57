"""State is its user's alone: from the moment it is made, and before it is believed."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from middleware.broker.ingress.checks import RejectedEvent
from middleware.broker.log.log_records import Record
from middleware.durability.checkpoint import Piece, whole
from middleware.durability.durable_core import Write
from middleware.model.errors import StateError
from middleware.runtime.sinks.sink import FileSink, SqliteSink
from middleware.runtime.storage import trust
from middleware.runtime.storage.late_ledger import FILE, SPILL, Ledger
from middleware.runtime.storage.store import Store


@pytest.fixture(autouse=True, params=[0o000, 0o022, 0o002])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_whatever_the_umask_state_is_private_from_the_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect, seen = sqlite3.connect, []

    def watched(file: Path, *arguments: object, **options: object) -> sqlite3.Connection:
        seen.append((mode(Path(file)), mode(Path(file).parent)))
        return connect(file, *arguments, **options)  # type: ignore[arg-type,call-overload,no-any-return]

    monkeypatch.setattr(sqlite3, "connect", watched)
    folder = tmp_path / "state" / "node"
    with closing(Ledger("n", folder)) as ledger, closing(Store(folder, "n")) as store:
        store.write(
            Write(Record(1, 0, [], False, None, {}), [Piece(1, part, piece) for part, piece in enumerate(whole(b"state"))])
        )
        with closing(connect(folder / FILE)) as other:
            other.execute("BEGIN EXCLUSIVE")
            ledger.report_rejections([RejectedEvent("late", 5, "insert", "Hit", 1, 1, "s", b"\x90")])
            assert ledger.commit()
            assert (folder / SPILL).exists()
            found = {path.name: mode(path) for path in folder.iterdir()}
    assert seen and set(seen) == {(0o600, 0o700)}
    assert {"log.sqlite", "log.sqlite-wal", "log.sqlite-shm", "log.lock", "log.witness", FILE, SPILL} <= found.keys()
    assert set(found.values()) == {0o600}


@pytest.mark.parametrize("name", ["log.sqlite", "log.sqlite-wal", "log.witness", "log.lock"])
def test_what_others_may_write_is_refused_and_what_they_may_read_is_closed(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "state"
    Store(folder, "n").close()
    (folder / name).touch()
    (folder / name).chmod(0o644)
    Store(folder, "n").close()
    assert not (folder / name).exists() or mode(folder / name) == 0o600
    (folder / name).touch()
    for writable in (0o660, 0o602):
        (folder / name).chmod(writable)
        with pytest.raises(StateError, match=rf"others may write .*{name} \(mode 0{writable:o}\).*'chmod 600 .*{name}'"):
            Store(folder, "n")
    (folder / name).chmod(0o600)
    folder.chmod(0o770)
    with pytest.raises(StateError, match=r"others may write .*state \(mode 0770\).*'chmod go-w "):
        Store(folder, "n")
    with pytest.raises(StateError, match="others may write"):
        Ledger("n", folder)
    folder.chmod(0o700)
    Store(folder, "n").close()


def test_what_belongs_to_another_user_is_refused_before_anything_of_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "state"
    Store(folder, "n").close()
    owner, other = os.geteuid(), os.geteuid() + 4_242
    monkeypatch.setattr(trust.os, "geteuid", lambda: other)
    if owner == 0:
        Store(folder, "n").close()  # what root owns is trusted: root can do everything anyway
        os.chown(folder / "log.sqlite", 4_243, -1)
        owner = 4_243
    with pytest.raises(
        StateError, match=rf"belongs to user {owner}, and this process runs as user {other}: .*chown -R {other} "
    ):
        Store(folder, "n")


def test_files_of_sinks_are_made_private_and_keep_what_they_are_given(tmp_path: Path) -> None:
    for path, kind in ((tmp_path / "finals.jsonl", FileSink), (tmp_path / "finals.sqlite", SqliteSink)):
        kind(path).close()
        assert mode(path) == 0o600
        path.chmod(0o644)
        kind(path).close()
        assert mode(path) == 0o644
