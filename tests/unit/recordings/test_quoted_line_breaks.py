"""Texts with line breaks, quotes and delimiters: what the CSV writer writes is read; a broken quote costs its row."""

from __future__ import annotations

import csv
import io
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slackline import Detector, Event, run
from typer.testing import CliRunner

from middleware.cli.main import application
from middleware.cli.result_files import write_results
from middleware.recordings.files.following import Follower
from middleware.recordings.files.guess import guessed
from middleware.recordings.files.quotes import MAX_ROW_BYTES, Quotes
from middleware.recordings.files.recording_reading import read
from middleware.recordings.files.salvage.fitted_rows import ConversionOfRows
from middleware.recordings.files.salvage.line_parsers import ParserOfCsv
from middleware.recordings.files.text import TextReader, splits, text_recording

START = 1_700_000_000_000_000_000
TEXTS = ["one", "two\nlines", "", 'a "quoted"\r\nword, whole', "\n", '"', '",\n"', "x\n\ny", "\r\n", "last"]


class Note(Event):
    s: str
    n: int


class Copy(Event):
    s: str
    n: int


class Copying(Detector):
    subscribes, publishes = (Note,), (Copy,)

    def on_event(self, event):
        return Copy(event.s, event.n, ts=event.ts)


def written(folder: Path) -> Path:
    file = folder / "Note.csv"
    write_results([Note(s, n, ts=START + n, id=n, source="x") for n, s in enumerate(TEXTS)], str(file))
    return file


@pytest.mark.parametrize(
    "command",
    [
        ["sql", "--from", "FILE", "-e", "SELECT s, n FROM Note WHERE n >= 0 INTO Copy"],
        ["query", "EVENT Note a WITHIN 1 seconds RETURN Copy(s = a.s, n = a.n)", "FILE"],
    ],
)
def test_commands_read_what_results_write(command: list[str], tmp_path: Path) -> None:
    file, out = written(tmp_path), tmp_path / "out.parquet"
    arguments = [str(file) if each == "FILE" else each for each in command]
    done = CliRunner().invoke(application(), [*arguments, "--results", str(out)])
    assert done.exit_code == 0 and "broken" not in done.output, done.output
    assert sorted(zip(*(pq.read_table(out)[name].to_pylist() for name in ("n", "s")), strict=True)) == list(enumerate(TEXTS))


def test_run_reads_what_results_write(tmp_path: Path) -> None:
    found = run(written(tmp_path), [Copying()]).finals["Copying"]
    assert [event.s for event in found] == TEXTS  # type: ignore[attr-defined]


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_a_follower_waits_for_the_end_of_a_row(step: int, tmp_path: Path) -> None:
    file = written(tmp_path)
    mapping, content = guessed(file), file.read_bytes()
    head = content.index(b"\n") + 1
    file.write_bytes(content[:head])
    taken: list[Event] = []
    with closing(Follower(file, mapping, Note)) as follower, file.open("ab", buffering=0) as more:
        for at in range(head, len(content), step):
            more.write(content[at : at + step])
            taken += follower.take()
        assert ([event.s for event in taken], follower.bad) == (TEXTS, [])  # type: ignore[attr-defined]
        more.write(b'Note,"open,1,1,1,x,1\nNote,good,11,1700000000000000011,11,x,1\nNote,"b",12,1700000000000000012,12,x,1\n')
        assert [event.s for event in follower.take()] == ["good", "b"]  # type: ignore[attr-defined]
        assert len(follower.bad) == 1


def test_a_row_that_is_open_when_its_file_is_replaced_is_broken(tmp_path: Path) -> None:
    file = written(tmp_path)
    mapping, content = guessed(file), file.read_bytes()
    file.write_bytes(content + b'Note,"open\n')
    with closing(Follower(file, mapping, Note)) as follower:
        assert (len(follower.take()), follower.bad, follower.take()) == (len(TEXTS), [], [])
        (tmp_path / "next.csv").write_bytes(content)
        (tmp_path / "next.csv").replace(file)
        assert (follower.take(), len(follower.bad)) == ([], 1)
        assert (len(follower.take()), len(follower.bad)) == (len(TEXTS), 1)


OPEN = b'0,"open,0\n'
PIECES = ["one", "two\nlines", "", 'a "quoted"\r\nword, whole', '"', "x\n\ny", "n\n5,5,5\n5", "plain, only"]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.none()), max_size=25), st.integers(1, 200), st.integers(1, 60))
def test_a_broken_quote_costs_its_row_whatever_the_cuts(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str | None], size: int, block: int
) -> None:
    import pyarrow as pa

    file = tmp_path_factory.mktemp("quotes") / "a.csv"
    file.write_bytes(b"0,first,0\n" + b"".join(OPEN if text is None else cells(at, text) for at, text in enumerate(texts)))
    quotes, kinds = Quotes(",", 3), {"a": pa.int64(), "b": pa.string(), "c": pa.int64()}
    reader = TextReader(
        "T",
        ParserOfCsv(list(kinds), kinds, ConversionOfRows(lambda cells: cells), ",", '"', over_lines=True),
        block,
        quotes=quotes,
    )
    found, tables = read(text_recording("T", [file], splits([file], False, size, quotes), reader))
    assert tables["T"]["b"].to_pylist() == ["first", *(text for text in texts if text is not None)]
    assert found.bad.count == texts.count(None)


def cells(at: int, text: str) -> bytes:
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\n").writerow([at, text, at])
    return line.getvalue().encode()


def test_long_files_are_cut_where_no_quote_can_be_open(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    rows = [cells(at, "two\nlines" if at % 3 else 'x,"') for at in range(3_000)]
    file.write_bytes(b"".join(rows))
    pieces = splits([file], False, 1_000, Quotes(",", 3))
    ends = {0}
    for row in rows:
        ends.add(max(ends) + len(row))
    assert len(pieces) > 20 and {piece.start for piece in pieces} <= ends
    assert [piece.end for piece in pieces] == [*(piece.start for piece in pieces[1:]), file.stat().st_size]


def test_a_quote_that_is_open_for_too_long_is_broken() -> None:
    text = b'1,"' + b"a\n" * (MAX_ROW_BYTES // 2) + b'",1\n'
    first, *others = Quotes(",", 3).rows(text)
    assert (first.is_closed, len(others)) == (False, text.count(b"\n") - 1)
