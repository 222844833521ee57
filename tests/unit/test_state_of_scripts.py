"""Detectors of a script or a notebook may keep objects of its own classes, also where events hold such."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
from dataclasses import dataclass
from slackline import Detector, Event, run

class Tick(Event):
    x: int

@dataclass
class Money:
    n: int

class Out(Event):
    of: Money

class Sums(Detector):
    subscribes, publishes = (Tick,), (Out,)

    def __init__(self):
        self.sum = Money(0)

    def on_event(self, event):
        self.sum.n += event.x
        return Out(self.sum, ts=event.ts)

events = [Tick(1, ts=at, id=at, source="s") for at in (1, 2, 4, 3)]
print([event.of.n for event in run(events, [Sums()], batch=1).finals["Sums"]])
"""


def test_a_dataclass_of_a_script_is_state_and_value(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "[1, 2, 3, 4]\n", done.stderr
