"""A script or a notebook that runs a node with a log is started again: its state is of the classes that it has now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

DEFINITIONS = """
import enum, sys, threading
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
import msgspec
from slackline import Detector, END, Event, EventTypes, Insert, Node, Publisher, Subscriber, run
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.storage.store import Store

class Mode(enum.Enum):
    OFF = "off"
    ON = "on"

class Gear(enum.IntEnum):
    LOW = 1
    HIGH = 2

class Place(NamedTuple):
    x: int
    mode: Mode

class Spot(msgspec.Struct, frozen=True):
    x: int

@dataclass
class Money:
    n: int

def idle(detector):
    return "idle"

def busy(detector):
    return "busy"

class Step(Event):
    on: bool | None
    gear: Gear
    spot: Spot

class Said(Event):
    text: str
    gear: Gear

def switch():
    class Local(enum.Enum):
        A = 1
        B = 2

    class Switch(Detector):
        subscribes, publishes = (Step,), (Said,)

        def __init__(self):
            self.mode, self.local, self.act = Mode.OFF, Local.A, idle
            self.place, self.money, self.spot, self.all, self.last = Place(0, Mode.OFF), Money(0), Spot(0), [], None

        def on_event(self, event):
            if event.on is not None:
                self.mode, self.local, self.act = Mode.ON, Local.B, busy
                self.place = Place(1, Mode.ON)
            self.money.n += 1
            self.all = [self.money]  # one object in two places: the state is no plain value
            self.last, last = event, self.last
            counts = [
                self.mode is Mode.ON,
                self.local is Local.B,
                self.act is busy,
                self.place == Place(1, Mode.ON),
                self.money == Money(self.all[0].n),
                self.all[0] is self.money,
                self.spot == Spot(0),
                last is None or (type(last) is Step and last.spot == event.spot and last.gear is Gear.HIGH),
            ]
            return Said(f"{self.act(self)} {self.money.n} {counts}", event.gear, ts=event.ts)

    return Switch()

steps = [Step(True if n == 1 else None, Gear.HIGH, Spot(7), ts=n, id=n, source="s") for n in range(1, 5)]

def life(folder, number):
    part, end = (steps[:2], False) if number == 1 else (steps[2:], True)
    types, store = EventTypes([Step, Said]), Store(Path(folder), "hub")
    node = Node("hub", "tcp://127.0.0.1:*", processor=Hierarchy([switch()]), types=types, store=store)
    thread = threading.Thread(target=node.run)
    thread.start()
    got = []
    try:
        with Subscriber(node.address, Said, consistency="final", resume="desk") as reader:
            with Publisher(node.address, types=[Step]) as publisher:
                reader.wait_ready(20)
                publisher.publish(part)
                publisher.advance([Step], END if end else part[-1].ts)
                publisher.flush(20)
                while len(got) < len(part):
                    got += [change.event.text for change in reader.receive(20) if isinstance(change, Insert)]
                reader.commit()
    finally:
        node.stop()
        thread.join()
    return got

expected = [event.text for event in run(steps, [switch()]).finals["Switch"]]
"""

SCRIPT = (
    DEFINITIONS + "\nnumber = int(sys.argv[2])\nassert life(sys.argv[1], number) == expected[2 * number - 2 : 2 * number]\n"
)


def _life(script: Path, folder: Path, number: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(script), str(folder), str(number)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_the_state_of_a_script_is_of_its_classes_after_a_restart(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    for number in (1, 2):
        done = _life(script, tmp_path / "state", number)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("was", "now", "says"),
    [
        ("    x: int\n    mode: Mode", "    x: int\n    mode: Mode\n    y: int = 0", "had x, mode; has x, mode, y"),
        ('ON = "on"', 'ON = "running"', "had OFF='off', ON='on'; has OFF='off', ON='running'"),
        ('OFF = "off"', 'OFF = "off"\n    AUTO = "auto"', ""),  # those that are stored are there
        ("busy", "working", "__main__:busy is not there any more"),
    ],
)
def test_stored_state_of_a_class_that_has_changed_is_refused(tmp_path: Path, was: str, now: str, says: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    assert _life(script, tmp_path / "state", 1).returncode == 0
    script.write_text(SCRIPT.replace(was, now))
    done = _life(script, tmp_path / "state", 2)
    assert (done.returncode == 0) is (not says), done.stderr
    assert says in done.stderr


def test_the_state_of_a_notebook_is_of_its_classes_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a cell was run again while the node was running: then its classes are others of the same names."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    again = DEFINITIONS[DEFINITIONS.index("class Mode") : DEFINITIONS.index("steps =")]
    ends = "node.stop()\n        thread.join()"
    for number in (1, 2):
        cells = [
            DEFINITIONS,
            f"cell = {again!r}",
            f"assert life('state', {number}) == expected[{2 * number - 2} : {2 * number}]",
        ]
        cells[0] = cells[0].replace(ends, f"exec(cell, globals())\n        {ends}")
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        nbclient.NotebookClient(notebook, timeout=100, resources={"metadata": {"path": str(tmp_path)}}).execute()
