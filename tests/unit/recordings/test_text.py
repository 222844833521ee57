"""Text in parallel: every line is read once, whatever the cuts, and a broken line costs only itself."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.model.errors import TraceError
from middleware.recordings.files.formats import head
from middleware.recordings.files.recording_reading import read
from middleware.recordings.files.salvage.fitted_rows import ConversionOfRows
from middleware.recordings.files.salvage.line_parsers import ParserOfCsv
from middleware.recordings.files.text import (
    BOM,
    HOPELESS,
    MAX_LINE_BYTES,
    TextReader,
    blocks,
    existing,
    header_line,
    hopeless,
    salvage,
    splits,
    text_recording,
)

fewer = settings(max_examples=25)


def csv_parser(*kinds: pa.DataType) -> ParserOfCsv:
    names = ("a", "b", "c")[: len(kinds)]
    return ParserOfCsv(names, dict(zip(names, kinds, strict=True)), ConversionOfRows(lambda cells: cells))


numbers = csv_parser(pa.int64(), pa.int64())


@fewer
@given(
    st.lists(
        st.sampled_from([b"1,2", b"", b"x,2", b"1", b"1,2,3", b'"1,2', b"9" * 30 + b",1", b"\xff,1", b"1,\r2", b"1,2\r1,2"]),
        max_size=40,
    )
)
def test_salvage_keeps_all_good_lines_and_numbers_the_broken(lines: list[bytes]) -> None:
    block = b"".join(line + b"\n" for line in lines)
    if not block:
        return
    table, rows, bad, _ = salvage(block, numbers)
    assert table.num_rows == len(rows)
    assert rows.tolist() == [number for number, line in enumerate(lines) if line == b"1,2"]
    assert [number for number, _ in bad] == [number for number, line in enumerate(lines) if line not in (b"1,2", b"")]


def test_reasons_are_reported() -> None:
    bad = salvage(b"1,2\nx,2\n1\n", numbers).bad
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
    assert b"".join(block for some in read for block in some) == content.removeprefix(BOM)
    for some in read:
        assert all(block.endswith(b"\n") for block in some[:-1])


def test_a_blank_line_does_not_hide_a_line_of_two_rows() -> None:
    table, _, bad, _ = salvage(b"1,2\n1,2\r9,9\n\n3,4\n", numbers)
    assert table["a"].to_pylist() == [1, 3]
    assert [line for line, _ in bad] == [1]


LENGTHS = st.one_of(st.integers(0, 40), st.integers(65_000, 70_000), st.just(200_000))


@fewer
@given(st.lists(st.tuples(LENGTHS, st.booleans()), max_size=6), st.integers(2_000, 300_000), st.integers(1_000, 100_000))
def test_lines_of_any_length_are_read_alike_whatever_the_cuts(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[int, bool]], size: int, block: int
) -> None:
    file = written(tmp_path_factory, [(0, True), *lines])
    assert rows_and_broken(file, size, block) == expected([(0, True), *lines], MAX_LINE_BYTES)


@fewer
@given(
    st.lists(st.tuples(st.integers(0, 90), st.booleans()), max_size=20), st.integers(1, 300), st.integers(1, 100), st.booleans()
)
def test_a_line_that_is_too_long_is_one_broken_line_and_the_numbers_of_others_stay(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[int, bool]], size: int, block: int, packed: bool
) -> None:
    file = written(tmp_path_factory, [(0, True), *lines], packed)
    assert rows_and_broken(file, size, block, 50) == expected([(0, True), *lines], 50)


def line_of(number: int, length: int, good: bool) -> str:
    return f"{number if good else 'x'}," + "a" * length


def written(folders: pytest.TempPathFactory, lines: list[tuple[int, bool]], packed: bool = False) -> Path:
    file = folders.mktemp("long") / ("lines.csv.gz" if packed else "lines.csv")
    content = "\n".join(line_of(number, *line) for number, line in enumerate(lines)).encode()
    file.write_bytes(gzip.compress(content) if packed else content)
    return file


def expected(lines: list[tuple[int, bool]], most: int) -> tuple[list[int], list[int]]:
    """The numbers of the good lines; and of the broken ones, from 1."""
    good = [number for number, (length, fine) in enumerate(lines) if fine and len(line_of(number, length, fine)) <= most]
    return good, [number + 1 for number in range(len(lines)) if number not in good]


def rows_and_broken(file: Path, size: int, block: int, longest: int = MAX_LINE_BYTES) -> tuple[list[int], list[int]]:
    reader = TextReader("T", csv_parser(pa.int64(), pa.string()), block, longest)
    recording = text_recording("T", [file], splits([file], header=False, size=size), reader)
    found, tables = read(recording)
    return tables["T"]["a"].to_pylist(), [each.line for each in found.bad.first]


def test_a_header_that_is_too_long_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a" * (MAX_LINE_BYTES + 1) + b"\n1,2\n")
    with pytest.raises(TraceError, match=r"a\.csv: its first line has 16,777,218 bytes; the most is 16,777,216"):
        header_line(tmp_path / "a.csv")


def test_header_is_skipped_and_gzip_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.csv.gz"
    file.write_bytes(gzip.compress(b"a,b\n1,2\n3,4\n"))
    assert b"".join(block for split in splits([file], header=True) for block in blocks(split)) == b"1,2\n3,4\n"


def test_a_broken_gzip_file_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "a.csv.gz"
    file.write_bytes(gzip.compress(b"1,2\n" * 10_000)[:-20])
    with pytest.raises(TraceError, match=r"a\.csv\.gz cannot be read"):
        [list(blocks(split)) for split in splits([file], header=False)]


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.gz"])
@pytest.mark.parametrize("reading", [header_line, head, lambda file: list(blocks(splits([file], header=False)[0]))])
def test_a_gzip_file_that_is_damaged_in_the_middle_is_reported(
    tmp_path: Path, name: str, reading: Callable[[Path], object]
) -> None:
    whole = gzip.compress(b"".join(b"%d,%d\n" % (number, number) for number in range(1_500)))
    (tmp_path / name).write_bytes(whole[:200] + bytes(50) + whole[250:])
    with pytest.raises(TraceError, match="cannot be read: Error -3 while decompressing data"):
        reading(tmp_path / name)


def test_a_file_of_another_format_is_reported_after_a_few_lines_of_it(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"this is prose\n\n" * 200_000)
    parsed: list[bytes] = []

    class Counted(ParserOfCsv):
        def whole(self, block: bytes) -> tuple[pa.Table, int]:
            parsed.append(block)
            return super().whole(block)

    with pytest.raises(TraceError, match=r"not one good line among 1000 drawn from its first \d+: CSV parse error"):
        list(TextReader("T", Counted(numbers.names, numbers.types, numbers.conversion))(splits([file], header=False)[0]))
    assert parsed == [b"this is prose\n"] * HOPELESS


def test_long_lines_of_another_format_are_counted_over_blocks(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"this is prose\n" * 2 * HOPELESS)
    with pytest.raises(TraceError, match="not one good line among its first 1002: CSV parse error"):
        list(TextReader("T", numbers, block=80)(splits([file], header=False)[0]))


def test_a_recording_that_begins_with_many_broken_lines_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"not yet,0\n" * 1_500 + b"1,2\n" * 200)
    parts = list(TextReader("T", numbers)(splits([file], header=False)[0]))
    assert sum(part.tables["T"].num_rows for part in parts if part.tables) == 200
    assert sum(len(part.bad) for part in parts) == 1_500


@pytest.mark.parametrize("every", [2, 34, 35])
def test_broken_lines_at_equal_distances_are_no_other_format(every: int) -> None:
    block = b"".join(b"n/a,0\n" if n % every == 0 else b"1,2\n" for n in range(HOPELESS * every))
    assert hopeless(block, numbers) is None
    assert "invalid value 'n/a'" in (hopeless(b"n/a,0\n" * HOPELESS, numbers) or "")


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
def test_missing_files_and_folders_are_reported_with_their_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceError, match=str((tmp_path / name).resolve())):
        existing([tmp_path / name])


def test_empty_and_no_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    with pytest.raises(TraceError, match="is empty"):
        existing([tmp_path / "empty.csv"])
    with pytest.raises(TraceError, match="no recording given"):
        existing([])
