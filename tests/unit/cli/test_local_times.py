"""Commands show times of the wall clock as the clocks of this machine do, and take them so; what programs read stays in ns."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slackline import Event, Insert
from typer.testing import CliRunner

from middleware.cli.main import application
from middleware.cli.output import event_text
from middleware.cli.questions.why_command import ResultFilter, moment_of
from middleware.connect.messages.reading import moment
from middleware.model.quantities import UNIX_TIMES, exact_time, local_time, spoken_time
from middleware.model.time import SECOND
from middleware.provenance.known_past import Past

NOON = 1_700_000_000_500_000_000
QUERY = "EVENT SEQ(r a, r b) WHERE b.x > a.x WITHIN 3 seconds RETURN Rise(b.x AS x)"
ANY_TIME = st.integers(UNIX_TIMES.start, UNIX_TIMES.stop - 1)


class Far(Event):
    x: float


@pytest.fixture(params=["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ZoneInfo]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield ZoneInfo(request.param)
    time.tzset()


@given(at=ANY_TIME)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_time_is_that_of_the_zone_and_is_read_back_exactly(zone: ZoneInfo, at: int) -> None:
    there = datetime.fromtimestamp(at // SECOND, zone)
    if there.year < 2037:  # where the table of a zone ends, C and Python differ
        assert local_time(at).startswith(f"{there:%Y-%m-%dT%H:%M:%S}")
        assert spoken_time(at).startswith(f"{there:%Y-%m-%d %H:%M:%S}.{at % SECOND // 10**6:03}")
    assert moment(local_time(at)) == moment_of(local_time(at)) == moment_of(exact_time(at)) == at


@given(at=st.integers(UNIX_TIMES.start, 2_000_000_000 * SECOND))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_date_without_an_offset_is_local(zone: ZoneInfo, at: int) -> None:
    there = datetime.fromtimestamp(at // SECOND, zone)
    written = f"{there:%Y-%m-%dT%H:%M:%S}.{at % SECOND:09}"
    assert moment_of(written) == round(there.replace(fold=0).timestamp()) * SECOND + at % SECOND


def test_a_time_of_day_is_local(zone: ZoneInfo) -> None:
    event = Far(1.0, ts=NOON, id=1, source="s")
    there = datetime.fromtimestamp(NOON // SECOND, zone)
    for word, fits in (("after", True), ("before", False)):
        asked = ResultFilter(Far, [word, f"{there:%H:%M:%S}.25"])
        assert asked.fits(event, Past(Far, {})) is fits


def test_times_that_are_no_dates_stay_numbers(zone: ZoneInfo) -> None:
    assert (local_time(7), spoken_time(75_250_000_000)) == ("7", "75.250 s")
    assert "ts=7," in event_text(Far(1.0, ts=7, id=1, source="s"))


def test_results_of_a_query_are_shown_in_local_time_and_written_in_nanoseconds(zone: ZoneInfo, tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text("time,x\n2023-11-14T22:13:20.5Z,1\n2023-11-14T22:13:21.5Z,2\n")
    shown = CliRunner().invoke(application(), ["query", QUERY, str(file)], catch_exceptions=False).output
    assert f"Rise(x=2, ts={local_time(NOON + SECOND)}, " in shown
    for flags in ([], ["--changes"]):
        lines = CliRunner().invoke(application(), ["query", QUERY, str(file), *flags, "--json", "-"]).stdout.splitlines()
        records = [json.loads(line) for line in lines if line.startswith("{")]
        assert {each["ts"] for each in records} == {NOON + SECOND}
    shown = CliRunner().invoke(application(), ["sql", "--from", str(file), "-e", "SELECT x FROM r", "--final"]).output
    assert f"{local_time(NOON)}  x=1" in shown


def test_a_subscriber_shows_local_times(zone: ZoneInfo) -> None:
    change = Insert(Far(1.5, ts=NOON, id=1, source="s"))
    assert event_text(change.event) == f"Far(x=1.5, ts={local_time(NOON)}, id=1, source='s', level=0)"
