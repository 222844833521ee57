"""Broken rows cost what others cost, and are the same ones, for the same reasons, as those that halving a block finds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.recordings.files.expressions import computed
from middleware.recordings.files.mapped import parser_of
from middleware.recordings.files.mapping import mappings_of
from middleware.recordings.files.normal import MappedConversion
from middleware.recordings.files.quotes import Quotes
from middleware.recordings.files.salvage.fitted_rows import ConversionOfRows
from middleware.recordings.files.salvage.line_parsers import LineParser, ParserOfCsv
from middleware.recordings.files.text import finite, nanoseconds, salvage
from middleware.recordings.readers import debs2013, tsch
from tests.oracles.halved_rows import halved_lines, halved_table

MAPPING: dict[str, Any] = {
    "type": "T",
    "ts": {"column": "t", "unit": "ms"},
    "source": {"column": "m", "prefix": "m-"},
    "fields": {
        "x": {"column": "x", "type": "float", "scale": 0.5},
        "n": {"column": "n", "type": "int"},
        "s": {"column": "s", "type": "str", "optional": True},
        "sum": {"expression": "n + 1", "type": "int"},
    },
}
NUMBERS = st.sampled_from([b"1", b"-2", b"+3", b" 4 ", b"5.5", b"1e3", b"", b" ", b"n/a", b"NaN", b"inf", b"9" * 30, b"0x1F"])
CELLS = {
    "t": st.sampled_from([b"1700000000000", b"1700000000001.5", b"", b"x", b"9" * 19, b"-5", b"1e400"]),
    "m": st.sampled_from([b"a", b"b", b"", b"\xff", b'"a,b"', b'"two\nlines"', b"\xc3\xa4"]),
    "x": NUMBERS,
    "n": NUMBERS,
    "s": st.sampled_from([b"", b"text", b'"open', b'c"d', b"\xfc", b"x\ry", b"a\x0bb", b"\xc3\xa4" * 70, b"Row #7: "]),
}
LIKELY = {"t": b"1700000000000", "m": b"a", "x": b"1.5", "n": b"7", "s": b"text"}
DATES = st.sampled_from(
    [b"2024-01-01", b"2024-02-31T10:00", b"2024-01-01T10:00:00Z", b"2024-01-01 10:00:00+01:00", b"", b"x", b"1"]
)
KINDS = {"t": pa.timestamp("ns"), "x": pa.float64(), "n": pa.int64(), "s": pa.string()}


Cells = dict[str, st.SearchStrategy[bytes]]
Found = tuple[list[dict[str, Any]], list[tuple[int, str]]]


@st.composite
def csv_lines(draw: st.DrawFn, cells: Cells, likely: dict[str, bytes]) -> bytes:
    """Lines of CSV, most cells of which fit."""
    good = st.fixed_dictionaries({name: st.just(text) for name, text in likely.items()})
    one = st.sampled_from(sorted(cells)).flatmap(lambda name: cells[name].map(lambda text: likely | {name: text}))
    rows = draw(st.lists(st.one_of(good, good, one, one, st.fixed_dictionaries(cells)), min_size=1, max_size=30))
    end = st.sampled_from([b"\n"] * 6 + [b"\r\n", b",1\n", b"\n\n", b"\r\r\n"])
    return b"".join(b",".join(row[name] for name in cells) + draw(end) for row in rows)


def rows_of(block: bytes, parser: LineParser, quotes: Quotes | None = None) -> Found:
    table, rows, bad, _ = salvage(block, parser, quotes)
    assert rows.tolist() == sorted(set(rows.tolist())) and len(rows) == table.num_rows
    assert not set(rows.tolist()) & {number for number, _ in bad}
    return table.to_pylist(), bad


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"ts": {"column": "t", "unit": "ps"}},
        {"only": {"s": "text"}, "arrival": {"column": "t", "unit": "us"}},
        {"id": "n", "source": {"value": "one"}},
    ],
)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_broken_rows_of_mapped_csv_are_those_that_halving_finds(
    folder: Path, changed: dict[str, Any], data: st.DataObject
) -> None:
    file = folder / "T.csv"
    file.write_bytes(b"t,m,x,n,s\n1700000000000,a,1,2,text\n")
    parser, quotes = parser_of(file, mappings_of(MAPPING | changed)[0])
    block = data.draw(csv_lines(CELLS, LIKELY))
    assert repr(rows_of(block, parser, quotes)) == repr(halved_lines(block, parser, quotes))


@pytest.mark.parametrize("time", [{"column": "t"}, {"column": "t", "format": "%Y-%m-%d", "zone": "Europe/Berlin"}])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_broken_dates_are_those_that_halving_finds(folder: Path, time: dict[str, Any], data: st.DataObject) -> None:
    file = folder / "T.csv"
    file.write_bytes(b"t,m,x,n,s\n1700000000000,a,1,2,text\n")
    parser, quotes = parser_of(file, mappings_of(MAPPING | {"ts": time})[0])
    block = data.draw(csv_lines(CELLS | {"t": DATES}, LIKELY | {"t": b"2024-01-02"}))
    assert repr(rows_of(block, parser, quotes)) == repr(halved_lines(block, parser, quotes))


@pytest.mark.parametrize("quote", [False, '"'])
@settings(max_examples=60, deadline=None)
@given(
    block=csv_lines(
        {"t": DATES, **{name: CELLS[name] for name in "xns"}}, {"t": b"2024-01-02", **{name: LIKELY[name] for name in "xns"}}
    )
)
def test_broken_rows_of_typed_csv_are_those_that_halving_finds(quote: str | bool, block: bytes) -> None:
    conversion = ConversionOfRows(lambda cells: finite(cells.append_column("ts", nanoseconds(cells["n"], 10**9))))
    parser = ParserOfCsv(list(KINDS), KINDS, conversion, quote=quote)
    assert repr(rows_of(block, parser)) == repr(halved_lines(block, parser))


JSON_LINES = st.lists(
    st.sampled_from(
        [
            b'{"t": 1700000000000, "m": "a", "x": 1.5, "n": 7, "s": "text"}',
            b'{"t": 1700000000000, "m": "a", "x": null, "n": 7}',
            b'{"t": 1700000000000, "m": 7, "x": "n/a", "n": 7}',
            b'{"t": 1700000000000, "m": "a", "x": 2, "n": 7.5, "s": {"a": 1}}',
            b'{"t": "x", "m": "a", "x": true, "n": "7"}',
            b'{"t": 1} {"t": 2}',
            b'{"t": 1}\r{"t": 2}',
            b"[1]",
            b"",
            b"  ",
            b"\xff",
            b"no",
        ]
    ),
    min_size=1,
    max_size=30,
).map(lambda lines: b"".join(line + b"\n" for line in lines))


@settings(max_examples=60, deadline=None)
@given(block=JSON_LINES)
def test_broken_lines_of_json_are_those_that_halving_finds(folder: Path, block: bytes) -> None:
    file = folder / "T.jsonl"
    file.write_bytes(b'{"t": 1700000000000, "m": "a", "x": 1.5, "n": 7, "s": "text"}\n')
    parser, quotes = parser_of(file, mappings_of(MAPPING)[0])
    assert quotes is None
    assert repr(rows_of(block, parser)) == repr(halved_lines(block, parser))


def packet(first: int) -> bytes:
    data = [0] * 38
    data[6:11] = first.to_bytes(5, "little")
    return str(data).encode()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.sampled_from([packet(1) + b"\t0:00:01", packet(2**40 - 1) + b"\t0:00:01", packet(1), b"[1]\t0:00:01", b""]),
        min_size=1,
    )
)
def test_broken_packets_are_those_that_halving_finds(lines: list[bytes]) -> None:
    block = b"".join(line + b"\n" for line in lines)
    assert repr(rows_of(block, tsch.parser())) == repr(halved_lines(block, tsch.parser()))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from([b"1", b"40", b"x", b"9" * 18, b"-" + b"9" * 18]), min_size=12, max_size=14).map(b",".join),
        min_size=1,
        max_size=12,
    )
)
def test_broken_positions_are_those_that_halving_finds(lines: list[bytes]) -> None:
    block = b"".join(line + b"\n" for line in lines)
    assert repr(rows_of(block, debs2013.parser())) == repr(halved_lines(block, debs2013.parser()))


MISSING = ["", "NaN", "-"]
WORDS = st.sampled_from(["1", "2.5", " -3 ", "", " ", "NaN", "nan", "-", "n/a", "inf", "1e999", "x"])


def by_definition(x: str, n: str) -> tuple[float | None, int | None, int]:
    """The values of optional cells, and how many cannot be read."""
    values: list[float | int | None] = []
    lost = 0
    for text, kind in ((x.strip(), float), (n.strip(), int)):
        value = None
        if text not in MISSING:
            try:
                value = kind(text)
            except ValueError:
                lost += 1
        if isinstance(value, float) and math.isinf(value):
            value, lost = None, lost + 1
        values.append(None if value is not None and math.isnan(value) else value)
    return values[0], values[1], lost  # type: ignore[return-value]


@pytest.mark.parametrize("form", ["csv", "jsonl", "table"])
@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(st.sampled_from(["1700000000", "x"]), WORDS, WORDS), min_size=1, max_size=30))
def test_an_optional_cell_is_none_if_it_is_missing_or_lost(folder: Path, form: str, rows: list[tuple[str, str, str]]) -> None:
    fields = {name: {"column": name, "type": kind, "optional": True} for name, kind in (("x", "float"), ("n", "int"))}
    time, source = {"column": "t", "unit": "s"}, {"value": "one"}
    (mapping,) = mappings_of({"type": "T", "ts": time, "source": source, "fields": fields, "missing": MISSING})
    if form == "table":
        table = pa.Table.from_pylist([dict(zip("txn", row, strict=True)) for row in rows])
        found = MappedConversion(mapping).fitted(table)
    else:
        (folder / f"O.{form}").write_text("t,x,n\n" if form == "csv" else '{"t": 1}\n')
        parser, quotes = parser_of(folder / f"O.{form}", mapping)
        lines = [",".join(row) if form == "csv" else json.dumps(dict(zip("txn", row, strict=True))) for row in rows]
        found = salvage("".join(line + "\n" for line in lines).encode(), parser, quotes)
    good = [(number, *by_definition(x, n)) for number, (t, x, n) in enumerate(rows) if t != "x"]
    values = zip(found.table["x"].to_pylist(), found.table["n"].to_pylist(), strict=True) if good else iter(())
    assert list(zip(found.rows.tolist(), values, strict=True)) == [(number, (x, n)) for number, x, n, _ in good]
    assert [number for number, _ in found.bad] == [number for number, row in enumerate(rows) if row[0] == "x"]
    assert [number for number, _ in found.lost] == [number for number, _, _, lost in good for _ in range(lost)]


COLUMNS = st.fixed_dictionaries(
    {
        "t": st.sampled_from([1_700_000_000_000, None, 2**62]),
        "m": st.sampled_from(["a", "", None]),
        "x": st.sampled_from([1.5, float("nan"), float("inf"), None]),
        "n": st.sampled_from([7, None]),
        "s": st.sampled_from(["text", "", None]),
    }
)


@settings(max_examples=60, deadline=None)
@given(st.lists(COLUMNS, min_size=1, max_size=30), st.sampled_from([pa.int64(), pa.string(), pa.float64()]))
def test_broken_rows_of_tables_are_those_that_halving_finds(rows: list[dict[str, Any]], kind: pa.DataType) -> None:
    schema = pa.schema({"t": pa.int64(), "m": pa.string(), "x": pa.float64(), "n": pa.int64(), "s": pa.string()})
    table = pa.Table.from_pylist(rows, schema).set_column(3, "n", pa.array([row["n"] for row in rows], pa.int64()).cast(kind))
    mapping = mappings_of(MAPPING)[0]
    first = pa.table({name: [text.decode()] for name, text in LIKELY.items()})
    conversion = MappedConversion(mapping, "", computed(mapping, first))
    found, numbers, bad, _ = conversion.fitted(table)
    assert repr((found.to_pylist(), bad)) == repr(halved_table(table, conversion))
    assert len(numbers) + len(bad) == len(rows)
