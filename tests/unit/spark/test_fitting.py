"""A trace that the detectors cannot read is told before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from middleware.errors import TraceError
from middleware.event import Event, EventTypes
from middleware.spark.fitting import check_fit
from tests.unit.spark.test_traces import Ping, Pong, finish, write


class Wide(Event):
    number: int
    label: str
    up: bool
    more: int


class Texts(Event):
    number: str
    label: str
    up: bool


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    write(tmp_path, "Ping", [1, 2, 3])
    finish(tmp_path)
    return tmp_path


def test_what_fits_and_what_is_missing(trace: Path) -> None:
    types = EventTypes([Ping, Pong])
    assert check_fit(trace, types, ["Ping"]) == []
    assert check_fit(trace, types, ["Pong", "Ping"]) == ["Pong"]


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (
            ["radio.Ping", "Other"],
            r"holds Ping, which no detector reads; they read Other, radio\.Ping \(did you mean radio\.Ping\?\)",
        ),
        (["ping"], r"did you mean ping\?"),
        (["Pingg"], r"did you mean Pingg\?"),
        (["Elephant"], r"they read Elephant: the recording's type must be called"),
        ([], "they read nothing"),
    ],
)
def test_a_type_that_nobody_reads(trace: Path, read: list[str], told: str) -> None:
    with pytest.raises(TraceError, match=told):
        check_fit(trace, EventTypes([Ping]), read)


def test_other_fields(trace: Path) -> None:
    wide = type("Ping", (Wide,), {})
    with pytest.raises(TraceError, match="has the fields number, label, up, but its class has number, label, up, more"):
        check_fit(trace, EventTypes([wide]), ["Ping"])


def test_fields_of_another_type(trace: Path) -> None:
    texts = type("Ping", (Texts,), {})
    with pytest.raises(TraceError, match="an event of Ping does not fit its class: number: Expected `str`, got `int`"):
        check_fit(trace, EventTypes([texts]), ["Ping"])
