"""What ``sub`` prints, ``pub`` reads: also events with fields that are called as the record's own keys."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from middleware.cli.main import application
from middleware.cli.meshes.pubsub import check_known, described, event_types, read_events
from middleware.link.codec import LARGEST_BLOCK
from middleware.model.change import Insert, Retract, Watermark
from middleware.model.errors import EventError, ScenarioError
from middleware.model.event import Event, EventTypes


class Odd(Event):
    type: str
    change: int
    type_: float = 0.5


class Plain(Event):
    text: str


class Tagged(Event):
    tags: list[str] = msgspec.field(default_factory=list)
    level_: int = 0


@pytest.mark.parametrize(
    "event",
    [Odd("mine", 7, ts=1, id=2, source="a"), Odd("", 0, 2.5, ts=1, id=2, source="a"), Plain("x", ts=1, id=2, source="a")],
)
def test_what_is_printed_is_read_again(tmp_path: Path, event: Event) -> None:
    printed = described(Insert(event))
    assert (printed["change"], printed["type"]) == ("insert", type(event).__name__)
    (tmp_path / "in.jsonl").write_bytes(msgspec.json.encode(printed))
    broken: list[str] = []
    assert list(read_events(str(tmp_path / "in.jsonl"), EventTypes([Odd, Plain]), None, "pub", broken)) == [event]
    assert not broken


@pytest.mark.parametrize("count", [0, 257])
def test_a_name_that_no_subscription_can_have_is_refused(count: int) -> None:
    arguments = ["sub", "tcp://127.0.0.1:5700", "Plain", "--types-from", __name__, "--resume", "x" * count]
    refused = CliRunner().invoke(application(), arguments, env={"COLUMNS": "120"})
    assert refused.exit_code == 2
    assert f"Invalid value for --resume: a name has 1 to 256 characters, not {count}" in refused.output


def test_what_is_no_new_event_is_reported_and_watermarks_are_not(tmp_path: Path) -> None:
    lines = [described(Watermark(3)), described(Retract(Plain("x", ts=1, id=2, source="a"))), {"type": "Plain", "change": 0.5}]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
    broken: list[str] = []
    assert not list(read_events(str(tmp_path / "in.jsonl"), EventTypes([Plain]), None, "pub", broken))
    assert ["its 'change' is 'retract'" in broken[0], "its 'change' is 0.5" in broken[1], len(broken)] == [True, True, 2]


def test_a_field_that_is_missing_is_named_as_the_record_names_it(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"type": "Odd", "ts": 1, "change_": 1}')
    broken: list[str] = []
    assert not list(read_events(str(tmp_path / "in.jsonl"), EventTypes([Odd]), None, "pub", broken))
    assert "Odd needs a field 'type__'" in broken[0]


def test_what_has_no_form_on_the_wire_costs_that_record_alone(tmp_path: Path) -> None:
    large = '{"type": "Plain", "ts": 2, "text": "' + "x" * LARGEST_BLOCK + '"}'
    beyond = '{"type": "Odd", "ts": 3, "change_": 36893488147419103232, "type__": ""}'
    plain = '{"type": "Plain", "ts": %d, "text": "x"}'
    (tmp_path / "in.jsonl").write_text("\n".join([plain % 1, large, beyond, plain % 4]))
    broken: list[str] = []
    found = list(read_events(str(tmp_path / "in.jsonl"), EventTypes([Odd, Plain]), None, "pub", broken))
    assert [event.id for event in found] == [1, 4]
    assert "jsonl:2: Plain takes" in broken[0] and "jsonl:3: Odd: " in broken[1]


def test_defaults_that_are_made_and_what_is_wrong_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"ts": 1, "id": 2}\n{"ts": 1, "id": 3, "tags": ["x"], "level_": "high"}\n')
    broken: list[str] = []
    found = list(read_events(str(tmp_path / "in.jsonl"), EventTypes([Tagged]), "Tagged", "pub", broken))
    assert found == [Tagged(ts=1, id=2, source="pub")]
    assert len(broken) == 1 and broken[0].endswith("Tagged: Expected `int`, got `str` - at `$.level_`")


def test_names_whose_events_could_not_be_shown_are_refused() -> None:
    known = EventTypes([Odd, Plain])
    check_known(["Odd", "*", "plant.*"], known, ["mine"])
    with pytest.raises(EventError, match=r"^mine has no event type 'Plian'; did you mean 'Plain'\? \(--types-from"):
        check_known(["Plian"], known, ["mine"])
    with pytest.raises(EventError, match="did you mean 'Odd'"):
        check_known(["plant.Odd"], known, ["mine"])


def test_watermark_is_described() -> None:
    assert described(Watermark(5)) == {"change": "watermark", "ts": 5}


def test_a_module_that_fails_is_named_with_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_events.py").write_text("x = 1\n1 / 0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ScenarioError, match=r"cannot import broken_events: ZeroDivisionError: .*broken_events.py, line 2"):
        event_types(["broken_events"])
