"""A trace that the detectors cannot read is refused before anything is started."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from middleware.model.errors import TraceError
from middleware.model.event import Event, EventTypes
from middleware.recordings.prepare.fitting import check_fit, check_mapping
from tests.unit.recordings.test_traces import Ping, Pong, finish, write


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
    ("read", "message"),
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
def test_a_type_that_nobody_reads(trace: Path, read: list[str], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        check_fit(trace, EventTypes([Ping]), read)


def test_other_fields(trace: Path) -> None:
    wide = type("Ping", (Wide,), {})
    with pytest.raises(TraceError, match="has the fields number, label, up, but its class has number, label, up, more"):
        check_fit(trace, EventTypes([wide]), ["Ping"])


def test_fields_of_another_type(trace: Path) -> None:
    texts = type("Ping", (Texts,), {})
    with pytest.raises(TraceError, match="an event of Ping does not fit its class: number: Expected `str`, got `int`"):
        check_fit(trace, EventTypes([texts]), ["Ping"])


MAPPING = """
type = "{type}"
ts = {{ column = "time", unit = "s" }}
source = {{ column = "who" }}
[fields]
{fields}
"""
NUMBER, LABEL, UP = (
    f'{name} = {{ column = "{name}", type = "{kind}" }}\n'
    for name, kind in [("number", "int"), ("label", "str"), ("up", "bool")]
)


@pytest.mark.parametrize(
    ("name", "fields", "complaint"),
    [
        ("Pnig", NUMBER + LABEL + UP, r"map.toml: type: no detector reads Pnig; they read Ping \(did you mean Ping\?\)"),
        ("Ping", NUMBER + UP, "map.toml: Ping has the fields number, up, but its class has number, label, up"),
        ("Ping", NUMBER + LABEL + UP, None),
    ],
)
def test_a_mapping_of_what_nobody_reads_is_reported(tmp_path: Path, name: str, fields: str, complaint: str | None) -> None:
    file = tmp_path / "map.toml"
    file.write_text(MAPPING.format(type=name, fields=fields))
    reader: Any = SimpleNamespace(subscribes=[Ping])
    plan: Any = SimpleNamespace(detectors={"Reader": reader}, types=EventTypes([Ping, Pong]))
    if complaint is None:
        check_mapping(file, plan)
        return
    with pytest.raises(TraceError, match=complaint):
        check_mapping(file, plan)
