"""Dates in a format are read as Python's strptime reads them, wherever the machine is, or their row is a broken one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.model.event import MAX_TS, MIN_TS
from middleware.recordings.files.mapping import Mapping, SourceColumn, TimeColumn
from middleware.recordings.files.normal import MappedConversion

MICROSECOND = 1_000


def read(texts: list[str], form: str, zone: str = "UTC") -> tuple[dict[int, int], dict[int, str]]:
    """The times of the good rows, and what is wrong with the broken ones, by the numbers of the rows."""
    mapping = Mapping("T", TimeColumn("t", format=form, zone=zone), SourceColumn(value="x"), {})
    raw = pa.table({"t": pa.array(texts, pa.string())})
    table, rows, bad, _ = MappedConversion(mapping).fitted(raw)
    return dict(zip(rows.tolist(), table["ts"].to_pylist() if len(rows) else [], strict=True)), dict(bad)


def by_python(texts: list[str], form: str) -> dict[int, int]:
    found = {}
    for number, text in enumerate(texts):
        try:
            moment = datetime.strptime(text.strip(), form).replace(tzinfo=UTC)
        except ValueError:
            continue
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        ts = ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * MICROSECOND
        if MIN_TS < ts < MAX_TS:
            found[number] = ts
    return found


FORMATS = [
    "%d.%m.%Y %H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%y%m%d",
    "%d/%m/%y %H:%M",
    "%Y-%j %H:%M",
    "%G-W%V-%u %H:%M",
    "%Y %U %w",
    "%m/%d/%Y %I:%M %p",
    "%d %b %Y",
    "%H:%M:%S",
    "%d.%m.",
    "%d-%m-%Y%%",
    "%Y-%m-%dT%H:%M:%S.%f",
    "%Y %y",
    "%d日%m月%Y",
]
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2099, 1, 1))


@given(st.sampled_from(FORMATS), st.lists(st.tuples(MOMENTS, st.integers(0, 30), st.sampled_from("0136 9x.")), max_size=12))
@settings(deadline=None, max_examples=200)
def test_every_date_is_read_as_python_reads_it_or_its_row_is_broken(form: str, given: list[tuple[datetime, int, str]]) -> None:
    texts = []
    for moment, place, other in given:
        text = moment.strftime(form)
        texts += [text, text[:place] + other + text[place + 1 :], text[:place] + text[place + 1 :], text[:place] + other + text]
    good, bad = read(texts, form)
    assert good == by_python(texts, form)
    assert sorted([*good, *bad]) == list(range(len(texts)))


def test_a_day_that_no_calendar_has_is_a_broken_row_and_costs_no_other() -> None:
    texts = ["31.01.2024 12:00:00", "31.02.2024 12:00:00", "29.02.2023 00:00:00", "01.03.2024 12:00:61", "01.02.2024 00:00:00"]
    good, bad = read(texts, "%d.%m.%Y %H:%M:%S")
    assert list(good) == [0, 4]
    assert bad[1] == "column t: day is out of range for month"


def test_dates_without_zeros_before_them_are_read_among_others() -> None:
    good, bad = read(["1.2.2024", "01.02.2024", "2.2.2024"], "%d.%m.%Y")
    assert not bad
    assert good[0] == good[1] == good[2] - 86_400 * 10**9


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_berlin")
def test_a_zone_by_its_name_is_utc_or_refused_even_if_the_machine_knows_it() -> None:
    texts = [
        "2024-07-01 10:00:00.5 UTC",
        "2024-07-01 10:00:00.5 gmt",
        "2024-07-01 10:00:00.5 CEST",
        "2024-07-01 10:00:00.5 MST",
    ]
    good, bad = read(texts, "%Y-%m-%d %H:%M:%S.%f %Z", "Europe/Berlin")
    assert good == dict.fromkeys((0, 1), 1_719_828_000_500_000_000)
    assert "only UTC and GMT are read" in bad[2]
    assert "does not match format" in bad[3]


@pytest.mark.usefixtures("in_berlin")
def test_an_offset_counts_whatever_the_name_beside_it() -> None:
    good, bad = read(["2024-07-01 10:00 GMT+0200", "2024-07-01 10:00 CEST+0200"], "%Y-%m-%d %H:%M %Z%z", "Asia/Tokyo")
    assert not bad
    assert set(good.values()) == {1_719_820_800_000_000_000}


@pytest.mark.parametrize("form", ["%d.%d.%Y", "%Y-%Q"])
def test_a_format_that_python_does_not_take_is_reported(form: str) -> None:
    good, bad = read(["01.01.2024"], form)
    assert not good
    assert form in bad[0]


@given(
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Sydney", "Africa/Casablanca", "Asia/Kolkata"]),
    st.lists(st.datetimes(datetime(1990, 1, 1), datetime(2110, 1, 1)), min_size=1, max_size=8),
)
@settings(max_examples=40)
def test_a_date_in_a_zone_follows_its_rules_beyond_the_last_year_of_its_table(zone: str, moments: list[datetime]) -> None:
    moments = [each.replace(microsecond=0) for each in moments]
    expected, broken = {}, set()
    for number, each in enumerate(moments):
        first, second = (each.replace(tzinfo=ZoneInfo(zone), fold=fold) for fold in (0, 1))
        if first.utcoffset() == second.utcoffset():
            expected[number] = round(first.timestamp()) * 10**9
        else:
            broken.add(number)
    for form in ("%Y-%m-%dT%H:%M:%S", ""):
        good, bad = read([each.isoformat() for each in moments], form, zone)
        assert good == expected and bad.keys() == broken


@pytest.mark.parametrize(("text", "why"), [("2040-03-25T02:30:00", "does not exist"), ("2040-10-28T02:30:00", "comes twice")])
def test_an_hour_that_a_zone_skips_or_has_twice_is_a_broken_row_in_2040_too(text: str, why: str) -> None:
    good, bad = read(["2040-07-01T12:00:00", text], "%Y-%m-%dT%H:%M:%S", "Europe/Berlin")
    assert good == {0: round(datetime(2040, 7, 1, 10, tzinfo=UTC).timestamp()) * 10**9}
    assert why in bad[1] and "Europe/Berlin" in bad[1]
