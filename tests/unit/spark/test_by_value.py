"""Users' modules and event types go to processes that do not have them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest

from middleware.model.event import Event, type_name
from middleware.spark.by_value import dump_by_value, make_portable

MODULE = """
from __future__ import annotations
from enum import Enum
from typing import Annotated, ClassVar, NamedTuple
import msgspec
from slackline import Detector, Event
import its_helper

class Hue(Enum):
    RED = "red"

class Place(NamedTuple):
    inner: list[Spot]

class Spot(msgspec.Struct, frozen=True):
    x: Annotated[int, msgspec.Meta(ge=0)] = 3

class Hit(Event):
    namespace: ClassVar[str] = "far"
    hue: Hue
    place: Place
    tags: list[str] = []

    def __post_init__(self):
        assert len(self.tags) < 5

    def louder(self):
        return Hit(self.hue, self.place, [*self.tags, "loud"], ts=self.ts)

class Hits(Detector):
    subscribes, publishes = (Hit,), (Hit,)

    def on_event(self, hit):
        return its_helper.changed(hit)
"""

HELPER = "def changed(hit):\n    return hit.louder()\n"

ELSEWHERE = """
import sys, msgspec
from middleware.spark.by_value import load_by_value
one, two = (load_by_value(open(file, "rb").read()) for file in sys.argv[1:])
(detector, hit), (again, _) = one, two
Hit = type(hit)
assert "its_module" not in sys.modules and "its_helper" not in sys.modules
assert Hit.namespace == "far" and Hit is detector.subscribes[0] is again.subscribes[0]
assert detector.on_event(hit) == again.on_event(hit) == hit.louder() != hit
back = msgspec.msgpack.decode(msgspec.msgpack.encode(hit), type=Hit)
assert back == hit and back.place.inner[0].x == 3
try:
    msgspec.convert([["red", [[{"x": -1}]], [], 1, 2, "s", 0]][0], Hit)
except msgspec.ValidationError as error:
    assert ">= 0" in str(error)
else:
    raise AssertionError("a bound is lost")
print("well")
"""


WITHOUT = """
import pickle, sys
sys.path = [entry for entry in sys.path if entry]
sys.modules["middleware"] = None
work = pickle.load(open(sys.argv[1], "rb"))
try:
    work([1])
except RuntimeError as error:
    print(error)
"""


def test_an_executor_without_slackline_says_what_to_do(tmp_path: Path) -> None:
    work = make_portable(make_portable(type_name))
    (tmp_path / "work.bin").write_bytes(cloudpickle.dumps(work))
    arguments = [sys.executable, "-c", WITHOUT, str(tmp_path / "work.bin")]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("this executor cannot run Slackline's work: ")
    assert "PYSPARK_PYTHON" in done.stdout and "slackline spark pack" in done.stdout
    assert make_portable(make_portable(type_name))(Event) == type_name(Event)


def test_detectors_and_event_types_of_a_user_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "its_module.py").write_text(MODULE)
    (tmp_path / "its_helper.py").write_text(HELPER)
    monkeypatch.syspath_prepend(str(tmp_path))
    import its_module  # type: ignore[import-not-found]

    hit = its_module.Hit(its_module.Hue.RED, its_module.Place([its_module.Spot()]), ts=1, id=2, source="s")
    files = []
    for number in range(2):
        files.append(tmp_path / f"{number}.bin")
        files[-1].write_bytes(dump_by_value((its_module.Hits(), hit)))
    arguments = [sys.executable, "-c", ELSEWHERE, *map(str, files)]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=Path(__file__).parents[3], timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("well\n", 0), done.stderr


STATE = """
from enum import Enum
from dataclasses import dataclass
import msgspec
from slackline import Detector, Event

class Mood(Enum):
    IDLE = 0

@dataclass
class Box:
    number: int

class Place(msgspec.Struct, frozen=True):
    number: int

class Said(Event):
    mood: Mood

class Keeps(Detector):
    subscribes, publishes = (Said,), ()

    def held(self):
        return [Mood.IDLE, Box(7), Place(7), Said(Mood.IDLE, ts=1)]

    def knows(self, state):
        return state[0] is Mood.IDLE and state[1:] == self.held()[1:] and isinstance(state[1], Box)
"""

KEEP = """
import sys
from pathlib import Path
from middleware.durability.state_encoding import decode_state, encode_state
from middleware.model.event import EventTypes
from middleware.model.values.state import StatePickle
from middleware.spark.by_value import load_by_value
plan, state, step = sys.argv[1:]
detector = load_by_value(Path(plan).read_bytes())
types = EventTypes(detector.subscribes)
if step == "write":
    Path(state).write_bytes(encode_state((detector.held(), StatePickle(detector.held())), types))
else:
    plain, pickled = decode_state(Path(state).read_bytes(), types)
    assert detector.knows(plain), plain
    assert detector.knows(pickled.value()), pickled.value()
"""


def test_what_a_stream_has_kept_is_of_the_classes_of_its_next_life(tmp_path: Path) -> None:
    """Each life of a driver packs its classes anew; an executor that reads the state has those of the new life alone."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "its_state.py").write_text(STATE)
    pack = "import sys; from pathlib import Path; from middleware.spark.by_value import dump_by_value; import its_state; "
    pack += "Path(sys.argv[1]).write_bytes(dump_by_value(its_state.Keeps()))"
    for life, step in enumerate(("write", "read")):
        plan = str(tmp_path / f"{life}.plan")
        path = {"PYTHONPATH": str(tmp_path / "lib")}
        for code, arguments, environment in ((pack, [plan], path), (KEEP, [plan, str(tmp_path / "state"), step], {})):
            command = [sys.executable, "-c", code, *arguments]
            done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
