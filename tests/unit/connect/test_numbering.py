"""Numbers of messages: consecutive, kept, the same for a repeat; against a naive account."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from middleware.connect.messages.numbering import Numbering
from middleware.model.errors import StateError, UnreachableError
from tests.unit.runtime.disks import disk_where


def test_numbers_outlast_the_process_and_repeats_keep_theirs(tmp_path: Path) -> None:
    draw = random.Random(5)
    known: dict[bytes, tuple[int, int]] = {}
    last = 0
    for at in range(40):
        with closing(Numbering(tmp_path / "numbers")) as numbering:
            keys = [(bytes([draw.randrange(60)]), draw.random() < 0.7) for _ in range(draw.randrange(20))]
            expected = []
            for key, may_repeat in keys:
                if key not in known or not may_repeat:
                    last += 1
                    known[key] = last, at
                expected.append(known[key])
            assert numbering.numbers(keys, at) == expected


def test_two_at_a_time_would_give_one_number_twice(tmp_path: Path) -> None:
    with closing(Numbering(tmp_path / "numbers")) as numbering:
        with pytest.raises(UnreachableError, match="numbers is in use: another process serves this input"):
            Numbering(tmp_path / "numbers")
        assert numbering.numbers([(b"a", True)], 1)[0].number == 1


def test_only_so_many_are_kept(tmp_path: Path) -> None:
    with closing(Numbering(tmp_path / "numbers", kept=10)) as numbering:
        numbering.numbers([(b"%d" % number, True) for number in range(100)], 1)
        assert [each.number for each in numbering.numbers([(b"99", True), (b"0", True)], 2)] == [100, 1], "a batch as a whole"
        for number in range(12):
            numbering.numbers([(b"one by one %d" % number, True)], 3)
        assert [each.number for each in numbering.numbers([(b"99", True), (b"one by one 11", True)], 4)] == [113, 112]
    with closing(sqlite3.connect(tmp_path / "numbers")) as database:
        assert database.execute("SELECT count(*) FROM batches").fetchone()[0] <= 11


def test_a_key_may_take_several_numbers_and_is_given_the_last(tmp_path: Path) -> None:
    for _ in range(2):
        with closing(Numbering(tmp_path / "numbers")) as numbering:
            found = numbering.numbers([(b"a", True), (b"b", True), (b"a", True)], 1, [3, 2, 3])
            assert [each.number for each in found] == [3, 5, 3]


def test_a_full_disk_passes_and_gives_no_number_twice(tmp_path: Path) -> None:
    with closing(Numbering(tmp_path / "numbers")) as numbering:
        first = numbering.numbers([(b"a", True)], 1)
    with pytest.MonkeyPatch.context() as patch:
        disk_where(
            patch, lambda sql: sqlite3.OperationalError("database or disk is full") if sql.startswith("DELETE") else None
        )
        full = pytest.raises(UnreachableError, match="database or disk is full")
        with closing(Numbering(tmp_path / "numbers")) as numbering, full:
            numbering.numbers([(b"a", True), (b"b", True)], 2)
    with closing(Numbering(tmp_path / "numbers")) as numbering:
        assert [each.number for each in numbering.numbers([(b"b", True), (b"a", True)], 4)] == [2, 1]
        assert numbering.numbers([(b"a", True)], 5) == first


def test_another_file_gives_other_numbers(tmp_path: Path) -> None:
    with closing(Numbering(tmp_path / "a")) as one, closing(Numbering(tmp_path / "b")) as other:
        assert one.line != other.line
    with closing(Numbering(tmp_path / "a")) as again:
        assert again.line == one.line


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "numbers").write_text("something else, longer than the header of a database" * 10)
    with pytest.raises(StateError, match="cannot be used"):
        Numbering(tmp_path / "numbers")
