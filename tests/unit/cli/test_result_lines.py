"""The file of results: what it holds is what a sink would hold, and can be published again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from middleware.cli.result_files import write_results
from middleware.model.event import Event
from middleware.runtime.json_records import event_of


class Found(Event):
    weight: float
    label: str


EVENTS = [Found(0.5, "a", ts=1, id=-7, source="d", level=1), Found(float("nan"), "b", ts=2, id=8, source="d", level=2)]


def test_lines_hold_the_events_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "finals.jsonl"
    write_results(EVENTS, str(file))
    first, second = map(json.loads, file.read_text().splitlines())
    assert first == {"type": "Found", "weight": 0.5, "label": "a", "ts": 1, "id": -7, "source": "d", "level": 1}
    assert second["weight"] is None, "JSON has no NaN"
    assert event_of(Found, first) == EVENTS[0]


def test_standard_output_and_no_results_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_results(EVENTS[:1], "-")
    assert json.loads(capsys.readouterr().out)["label"] == "a"
    write_results([], str(tmp_path / "empty"))
    assert (tmp_path / "empty").read_bytes() == b""
