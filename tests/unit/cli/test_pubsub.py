"""What ``sub`` prints, ``pub`` reads: also events with fields that are called as the record's own keys."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from middleware.change import Advance, Insert
from middleware.cli.pubsub import _events, described, event_types
from middleware.errors import ScenarioError
from middleware.event import Event, EventTypes


class Odd(Event):
    type: str
    change: int
    type_: float = 0.5


class Plain(Event):
    text: str


@pytest.mark.parametrize(
    "event",
    [Odd("mine", 7, ts=1, id=2, source="a"), Odd("", 0, 2.5, ts=1, id=2, source="a"), Plain("x", ts=1, id=2, source="a")],
)
def test_what_is_printed_is_read_again(tmp_path: Path, event: Event) -> None:
    printed = described(Insert(event))
    assert (printed["change"], printed["type"]) == ("insert", type(event).__name__)
    (tmp_path / "in.jsonl").write_bytes(msgspec.json.encode(printed))
    broken: list[str] = []
    assert list(_events(str(tmp_path / "in.jsonl"), EventTypes([Odd, Plain]), None, "pub", broken)) == [event]
    assert not broken


def test_a_field_that_is_missing_is_named_as_the_record_names_it(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"type": "Odd", "ts": 1, "change_": 1}')
    broken: list[str] = []
    assert not list(_events(str(tmp_path / "in.jsonl"), EventTypes([Odd]), None, "pub", broken))
    assert "Odd needs a field 'type__'" in broken[0]


def test_progress_is_described() -> None:
    assert described(Advance(5)) == {"change": "advance", "progress": 5}


def test_a_module_that_fails_is_named_with_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_events.py").write_text("x = 1\n1 / 0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ScenarioError, match=r"cannot import broken_events: ZeroDivisionError: .*broken_events.py, line 2"):
        event_types(["broken_events"])
