"""Code of the user's that calls sys.exit does not end a command as if all were well."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from middleware.cli.main import application

CODE = """
import sys
from slackline import Detector, Event

class Tick(Event):
    x: int

class Tock(Event):
    x: int

class Leaves(Detector):
    subscribes, publishes = (Tick,), (Tock,)

    def on_event(self, event):
        sys.exit(0)
"""


def test_a_detector_that_exits_is_named_by_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "that_leaves.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(application(), ["check", "that_leaves:Leaves"])
    assert result.exit_code == 1
    assert "on_event raised SystemExit: 0" in result.output
