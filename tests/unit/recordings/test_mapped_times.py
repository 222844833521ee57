"""Times of mapped recordings are read to the nanosecond, in every unit and notation, or their line is a broken one."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.recordings.files.mapped import mapped_recording
from middleware.recordings.files.mapping import MappedField, Mapping, SourceColumn, TimeColumn
from middleware.recordings.files.normal import MappedConversion
from tests.unit.recordings.test_readers import rows_of

SCALE = {"s": 9, "ms": 6, "us": 3, "ns": 0, "ps": -3}
UNITS = st.sampled_from(sorted(SCALE))
EXACT = Context(prec=80)


def mapping(unit: str) -> Mapping:
    return Mapping("T", TimeColumn("t", unit), SourceColumn("s"), {})  # type: ignore[arg-type]


def read(times: list[str], unit: str) -> list[int]:
    raw = pa.table({"t": pa.array(times, pa.string()), "s": ["x"] * len(times)})
    found: list[int] = MappedConversion(mapping(unit))(raw)["ts"].to_pylist()
    return found


def by_hand(text: str, unit: str) -> int:
    return int(EXACT.scaleb(Decimal(text), SCALE[unit]).quantize(Decimal(1), ROUND_HALF_EVEN, EXACT))


def written(nanoseconds: int, unit: str) -> str:
    return f"{EXACT.scaleb(Decimal(nanoseconds), -SCALE[unit]):f}"


@given(st.lists(st.integers(-(10**18), 2 * 10**18), min_size=1, max_size=20), UNITS)
@settings(deadline=None)
def test_what_is_written_to_the_nanosecond_is_read_to_the_nanosecond(times: list[int], unit: str) -> None:
    assert read([written(time, unit) for time in times], unit) == times


@given(st.decimals(-(10**7), 10**7, places=14), st.sampled_from(["{:f}", "{:e}", "{:E}"]), UNITS)
@settings(deadline=None)
def test_what_is_finer_is_rounded_once(number: Decimal, notation: str, unit: str) -> None:
    text = notation.format(number)
    assert read([text], unit) == [by_hand(text, unit)]


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("1700000000.105000", "s", 1_700_000_000_105_000_000),
        ("1700000000105.000001", "ms", 1_700_000_000_105_000_001),
        ("1700000000105000.001", "us", 1_700_000_000_105_000_001),
        ("-1.5", "s", -1_500_000_000),
        ("-0.000000001", "s", -1),
        ("1.7e9", "s", 1_700_000_000_000_000_000),
        ("17E-1", "ms", 1_700_000),
        ("+5.25", "us", 5_250),
        ("-1500.9", "ps", -2),
        ("1500.9", "ps", 2),
        ("-1999", "ps", -2),
        ("2500", "ps", 2),
        ("3500", "ps", 4),
        ("-2500.000001", "ps", -3),
        ("1700000000000000001999", "ps", 1_700_000_000_000_000_002),
    ],
)
def test_notations(text: str, unit: str, expected: int) -> None:
    assert read([text], unit) == [expected]
    assert read(["7", text, "0.0"], unit)[1] == expected  # also among others


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-5_000, 5_000), min_size=1, max_size=20))
@settings(deadline=None)
def test_picoseconds_of_whole_numbers_and_floats_are_rounded_too(numbers: list[int]) -> None:
    halves = [number / 2 for number in numbers]
    for column, values in ((pa.array(numbers, pa.int64()), numbers), (pa.array(halves, pa.float64()), halves)):
        found = MappedConversion(mapping("ps"))(pa.table({"t": column, "s": ["x"] * len(numbers)}))["ts"].to_pylist()
        assert found == [round(Fraction(value) / 1_000) for value in values]


def test_a_float_of_picoseconds_may_be_larger_than_64_bits_hold_and_is_finite() -> None:
    raw = pa.table({"t": [1.5e21], "s": ["x"]})
    assert MappedConversion(mapping("ps"))(raw)["ts"].to_pylist() == [1_500_000_000_000_000_000]
    for number in (float("nan"), float("inf"), 1e300):
        with pytest.raises(ValueError, match="column t: "):
            MappedConversion(mapping("ps"))(pa.table({"t": [number], "s": ["x"]}))


def test_what_is_no_time_is_a_broken_line_and_costs_no_other(tmp_path: Path) -> None:
    toml, csv = tmp_path / "m.toml", tmp_path / "a.csv"
    toml.write_text('type = "T"\nts = { column = "t", unit = "s" }\nsource = { column = "s" }\n[fields]\n')
    broken = ["", " ", "nan", "inf", "1e30", "1.2.3", "noon", "1,5"]
    csv.write_text("t;s\n".replace(";", "|") + "".join(f"{text}|x\n1700000000.105|y\n" for text in broken))
    toml.write_text('delimiter = "|"\n' + toml.read_text())
    found, bad = rows_of(mapped_recording([csv], toml))
    assert [row["ts"] for row in found["T"]] == [1_700_000_000_105_000_000] * len(broken)
    assert [line for line, _ in bad] == list(range(0, 2 * len(broken), 2))


def test_decimals_and_floats_in_parquet(tmp_path: Path) -> None:
    toml = tmp_path / "m.toml"
    toml.write_text('type = "T"\nts = { column = "t", unit = "s" }\nsource = { column = "s" }\n[fields]\n')
    for name, column, expected in [
        ("decimals", pa.array([Decimal("1700000000.105000001")], pa.decimal128(20, 9)), 1_700_000_000_105_000_001),
        ("floats", pa.array([0.25], pa.float64()), 250_000_000),
        ("halves", pa.array([-1.5], pa.float32()), -1_500_000_000),
        ("texts", pa.array(["1700000000.105"], pa.large_string()), 1_700_000_000_105_000_000),
    ]:
        file = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"t": column, "s": ["x"]}), file)
        found, bad = rows_of(mapped_recording([file], toml))
        assert not bad
        assert [row["ts"] for row in found["T"]] == [expected], name


@pytest.mark.parametrize(("unit", "text"), [("s", "3"), ("ms", "1.5"), ("ps", "7000"), ("iso", "1970-01-01T00:00:03Z")])
def test_blanks_around_a_time_are_no_part_of_it(unit: str, text: str) -> None:
    assert read([f" {text}", f"{text}\t", f"  {text} "], unit) == read([text], unit) * 3


def test_blanks_around_a_number_are_no_part_of_it() -> None:
    raw = pa.table({"t": [" 1 "], "s": ["x"], "n": [" 7"], "x": ["2.5 "], "b": [" true"], "w": [" as it is "]})
    kinds = {"n": "int", "x": "float", "b": "bool", "w": "str"}
    fields = {name: MappedField(kind, name) for name, kind in kinds.items()}  # type: ignore[arg-type]
    table = MappedConversion(Mapping("T", TimeColumn("t", "s"), SourceColumn("s"), fields, id="n"))(raw)
    assert table.select(["id", *fields]).to_pylist() == [{"id": 7, "n": 7, "x": 2.5, "b": True, "w": " as it is "}]
