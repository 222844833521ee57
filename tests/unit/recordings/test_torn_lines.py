"""What is torn, or has no name, is a broken row, and no event with something else in it."""

from __future__ import annotations

from pathlib import Path

import polars
import pytest
from slackline import Detector, Event, run

from middleware.model.errors import TraceError
from middleware.recordings.files.mapped import mapped_recording
from middleware.recordings.files.mapping import mappings_of
from tests.unit.recordings.test_readers import rows_of

MAPPING = {
    "type": "Note",
    "ts": {"column": "t", "unit": "s"},
    "source": {"column": "s"},
    "fields": {"v": {"column": "v", "type": "int"}, "n": {"column": "n", "type": "str"}},
}


def read(tmp_path: Path, lines: str) -> tuple[list[str], list[int]]:
    file = tmp_path / "notes.csv"
    file.write_text(f"t,s,v,n\n{lines}")
    found, bad = rows_of(mapped_recording([file], mappings_of(MAPPING)))
    return [row["n"] for table in found.values() for row in table], [line for line, _ in bad]


@pytest.mark.parametrize(
    ("lines", "texts", "bad"),
    [
        ('1700000000,a,1,"hello\n1700000001,a,2,plain\n', ["plain"], [0]),
        ('1700000000,a,1,x\n1700000001,a,2,"y\nz"\n1700000002,a,3,w\n', ["x", "y\nz", "w"], []),
        ('1700000000,a,1,"a ""quoted"" word, whole"\n1700000001,a,2,\n', ['a "quoted" word, whole', ""], []),
        ("1700000000,,1,x\n1700000001,a,2,y\n", ["y"], [0]),
    ],
)
def test_lines(tmp_path: Path, lines: str, texts: list[str], bad: list[int]) -> None:
    assert read(tmp_path, lines) == (texts, bad)


class Named(Event):
    name: str


class Full(Event):
    name: str


class Names(Detector):
    subscribes, publishes = (Named,), (Full,)

    def on_event(self, event):
        return Full(event.source + event.name, ts=event.ts)


@pytest.mark.parametrize(("column", "message"), [("name", "row 1: name is missing"), ("source", "row 1: source is missing")])
def test_nan_is_no_name(column: str, message: str) -> None:
    columns = {"ts": [1, 2], "id": [1, 2], "source": [1.0, 2.0], "name": [1.0, 2.0]}
    with pytest.raises(TraceError, match=message):
        run(polars.DataFrame(columns | {column: [7.0, float("nan")]}), [Names()])
