"""Checkpoints in pieces in a store: which one counts, and that what they replace goes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from middleware.broker.log.log_records import Record
from middleware.durability.checkpoint import PendingCheckpoint, Piece, StoredCheckpoint
from middleware.durability.durable_core import Write
from middleware.model.event import EventTypes
from middleware.runtime.storage.store import Store

TYPES = EventTypes()


def made(number: int, parts: int) -> list[Piece]:
    left = [{"Unit": [(part, number)]} for part in range(parts)]
    begun = PendingCheckpoint(number, {"number": number}, lambda count: left.pop(0) if left else None, TYPES, {})
    pieces = [begun.next(0)]
    while not pieces[-1].is_last:
        pieces.append(begun.next(1))
    return pieces


def record(number: int) -> Record:
    return Record(number, 0, [], False, None, {"Unit": number})


def found(store: Store) -> list[object]:
    pieces = store.checkpoint()
    if pieces is None:
        return []
    stored = StoredCheckpoint(pieces, TYPES)
    return [stored.state()["number"], *stored.parts()]


def lived(folder: Path, *items: Write | Piece) -> list[object]:
    """What the checkpoint is after a life that wrote these."""
    store = Store(folder, "n")
    for item in items:
        store.write(item)
    store.close()
    again = Store(folder, "n")
    state = found(again)
    again.close()
    return state


def test_a_checkpoint_counts_when_its_last_piece_is_stored(tmp_path: Path) -> None:
    one, two = made(1, 3), made(2, 2)
    assert lived(tmp_path, Write(record(1), one[:1]), *one[1:-1]) == []
    assert lived(tmp_path, one[-1]) == [1, *({"Unit": [(part, 1)]} for part in range(3))]
    assert lived(tmp_path, Write(record(2), two[:1]), *two[1:-1])[0] == 1
    three = made(3, 0)
    assert lived(tmp_path, Write(record(3), three[:1]))[0] == 1
    assert lived(tmp_path, *three[1:]) == [3]


def test_what_a_checkpoint_replaces_is_forgotten(tmp_path: Path) -> None:
    store = Store(tmp_path, "n")
    for number in range(1, 4):
        pieces = made(number, 100)
        store.write(Write(record(number), pieces[:1]))
        for piece in pieces[1 : None if number != 2 else 50]:
            store.write(piece)
    store.close()
    for number in range(4, 30):
        lived(tmp_path, Write(record(number)))
    with sqlite3.connect(tmp_path / "log.sqlite") as connection:
        assert connection.execute("SELECT DISTINCT number FROM piece").fetchall() == [(3,)]


def test_a_checkpoint_begun_by_a_life_whose_record_was_damaged_does_not_mix_with_the_next_of_its_number(tmp_path: Path) -> None:
    whole_one, begun, again = made(1, 2), made(2, 5), made(2, 3)
    lived(tmp_path, Write(record(1), whole_one[:1]), *whole_one[1:], Write(record(2), begun[:1]), *begun[1:4])
    with sqlite3.connect(tmp_path / "log.sqlite") as connection:
        connection.execute("UPDATE log SET sum = sum + 1 WHERE number = 2")
    assert lived(tmp_path, Write(record(2), again[:1]), *again[1:]) == [2, *({"Unit": [(part, 2)]} for part in range(3))]
