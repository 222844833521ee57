"""Text in parallel: every line is read once, whatever the cuts, and a broken line costs only itself."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.connect.files import text
from middleware.connect.files.text import TextReader, blocks, existing, parse_csv, salvage, splits
from middleware.model.errors import TraceError

fewer = settings(max_examples=25)


def numbers(block: bytes):  # type: ignore[no-untyped-def]
    import pyarrow as pa

    return parse_csv(block, ("a", "b"), {"a": pa.int64(), "b": pa.int64()})


@fewer
@given(
    st.lists(
        st.sampled_from([b"1,2", b"", b"x,2", b"1", b"1,2,3", b'"1,2', b"9" * 30 + b",1", b"\xff,1", b"1,\r2"]), max_size=40
    )
)
def test_salvage_keeps_all_good_lines_and_numbers_the_broken(lines: list[bytes]) -> None:
    block = b"".join(line + b"\n" for line in lines)
    if not block:
        return
    tables, bad = salvage(block, numbers)
    good = [first + row for first, table in tables for row in range(table.num_rows)]
    assert good == [number for number, line in enumerate(lines) if line == b"1,2"]
    assert [number for number, _ in bad] == [number for number, line in enumerate(lines) if line not in (b"1,2", b"")]


def test_reasons_are_told() -> None:
    _, bad = salvage(b"1,2\nx,2\n1\n", numbers)
    assert "invalid value 'x'" in bad[0][1]
    assert "Expected 2 columns" in bad[1][1]


@fewer
@given(
    st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), min_size=1, max_size=30),
    st.integers(1, 20),
    st.booleans(),
)
def test_splits_hold_each_line_once(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], size: int, end: bool) -> None:
    file = tmp_path_factory.mktemp("text") / "lines.csv"
    file.write_bytes(b"\n".join(lines) + (b"\n" if end else b""))
    content = file.read_bytes()
    read = [list(blocks(split, max(1, size // 2))) for split in splits([file], header=False, size=size)]
    assert b"".join(block for some in read for block in some) == content
    for some in read:
        assert all(block.endswith(b"\n") for block in some[:-1])


def test_header_is_left_out_and_gzip_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.csv.gz"
    file.write_bytes(gzip.compress(b"a,b\n1,2\n3,4\n"))
    assert b"".join(block for split in splits([file], header=True) for block in blocks(split)) == b"1,2\n3,4\n"


def test_a_broken_gzip_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "a.csv.gz"
    file.write_bytes(gzip.compress(b"1,2\n" * 10_000)[:-20])
    with pytest.raises(TraceError, match=r"a\.csv\.gz cannot be read"):
        [list(blocks(split)) for split in splits([file], header=False)]


def test_a_file_of_another_format_is_told_after_a_few_lines_of_it(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"this is prose\n\n" * 200_000)
    parsed: list[bytes] = []

    def counted(block: bytes):  # type: ignore[no-untyped-def]
        parsed.append(block)
        return numbers(block)

    with pytest.raises(TraceError, match=r"not one good line among 1000 spread over its first \d+: CSV parse error"):
        list(TextReader("T", counted)(splits([file], header=False)[0]))
    assert parsed == [b"this is prose\n"] * text.HOPELESS


def test_long_lines_of_another_format_are_counted_over_blocks(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"this is prose\n" * 2 * text.HOPELESS)
    with pytest.raises(TraceError, match="not one good line among its first 1002: CSV parse error"):
        list(TextReader("T", numbers, block=80)(splits([file], header=False)[0]))


def test_a_recording_that_begins_with_many_broken_lines_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"not yet,0\n" * 1_500 + b"1,2\n" * 200)
    parts = list(TextReader("T", numbers)(splits([file], header=False)[0]))
    assert sum(part.tables["T"].num_rows for part in parts if part.tables) == 200
    assert sum(len(part.bad) for part in parts) == 1_500


def test_positions_rise_over_blocks_and_splits(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"".join(b"%d,0\n" % n if n % 7 else b"bad\n" for n in range(100)))
    parts = [part for split in splits([file], header=False, size=50) for part in TextReader("T", numbers, block=16)(split)]
    tables = [part.tables["T"] for part in parts if part.tables]
    positions = [p for table in tables for p in table["_position"].to_pylist()]
    assert positions == sorted(set(positions))
    assert [a for table in tables for a in table["a"].to_pylist()] == [n for n in range(100) if n % 7]
    assert sum(part.lines for part in parts) == 100
    assert sum(len(part.bad) for part in parts) == 15


@pytest.mark.parametrize("name", ["gone.csv", "../gone.csv", "."])
def test_missing_files_and_folders_are_told_with_their_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceError, match=str((tmp_path / name).resolve())):
        existing([tmp_path / name])


def test_empty_and_no_files_are_told(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    with pytest.raises(TraceError, match="is empty"):
        existing([tmp_path / "empty.csv"])
    with pytest.raises(TraceError, match="no recording given"):
        existing([])
