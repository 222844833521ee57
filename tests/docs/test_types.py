"""What type checkers, strict, know of users' programs: of one whose types are asked for, and of all code of the guides."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.test_documents import DOCUMENTS, program

PROGRAM = """
import slackline as sl


class Reading(sl.Event):
    machine: str
    celsius: float = 0.0


class Hot(sl.Event):
    machine: str


class Hots(sl.Detector):
    subscribes, publishes, key = (Reading,), (Hot,), "machine"

    def on_event(self, event: Reading) -> Hot | None:
        return Hot(event.machine, ts=event.ts) if event.celsius > 90 else None


first = Reading("press", 95.0, ts=1, id=1, source="plc")
result = sl.run([first], [Hots(), sl.Windows(Reading, sl.Tumbling(sl.SECOND), {"mean": (sl.MEAN, "celsius")}, key="machine")])
reveal_type(first.ts)
reveal_type(result.of(Hot))
with sl.Subscriber("tcp://127.0.0.1:5701", Hot, consistency="final") as subscriber:
    for change in subscriber:
        if isinstance(change, sl.Insert):
            reveal_type(change.event)
some = sl.Subscriber("tcp://127.0.0.1:5701", ["yard.*"])
reveal_type(some.receive())


async def follow() -> None:
    async with sl.AsyncSubscriber("tcp://127.0.0.1:5701", [Hot], resume="desk") as hots:
        reveal_type(await hots.receive())


first.celsius = 3.0
Reading("press")
Reading(7, ts=1)
sl.AsyncSubscriber("tcp://127.0.0.1:5701", Hot, consistent="final")
"""

QUOTE = '"'

EXPECTED = """
note int
note list[Hot]
note Hot
note list[Insert[Event] | Revise[Event] | Retract[Event] | Watermark]
note list[Insert[Hot] | Revise[Hot] | Retract[Hot] | Watermark]
error Property "celsius" defined in "Reading" is read-only
error Missing named argument "ts" for "Reading"
error Argument 1 to "Reading" has incompatible type "int"; expected "str"
error Unexpected keyword argument "consistent" for "AsyncSubscriber"; did you mean "consistency"?
"""


UNTYPED = """
from typing import Any

def __getattr__(name: str) -> Any: ...
"""
"""The stub of a package that has no types: what users would have to say of it has nothing to do with ours."""

WITHOUT_TYPES = ("mcap", "mcap.reader", "pandas", "pyarrow", "pyarrow.parquet", "sklearn", "sklearn.linear_model")
STUBS = "typings"


def checked(folder: Path, *command: str) -> str:
    """What a type checker prints that runs in a folder."""
    environment = os.environ | {"MYPYPATH": STUBS}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def written_modules(text: str) -> Iterator[tuple[str, str]]:
    """The modules that a program writes, ``Path("name.py").write_text("...")``: their names and texts."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Call(args=[ast.Constant(value=str(name))]), attr="write_text"),
                args=[ast.Constant(value=str(written))],
            ) if name.endswith(".py"):
                yield name.removesuffix(".py"), written


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program, a module for each document that has code, and one for each module that such code writes.

    The code of a document stands on the lines it has there. No module has the name of a package, or of another module: one
    that is called ``detectors`` would hide ours.
    """
    folder = tmp_path_factory.mktemp("programs")
    taken = sys.stdlib_module_names | packages_distributions().keys()
    (folder / "program.py").write_text(PROGRAM, "utf-8")
    for document in DOCUMENTS:
        text, name = program(document.read_text("utf-8")), f"guide_{document.stem.lower()}"
        if text:
            (folder / f"{name}.py").write_text(text, "utf-8")
        for module, written in written_modules(text):
            assert module not in taken, f"{document.name}: {module} hides another"
            with open(folder / f"{module}.py", "x", encoding="utf-8") as file:
                file.write(written)
    for package in WITHOUT_TYPES:
        stub = folder / STUBS / package.replace(".", "/")
        stub.mkdir(parents=True, exist_ok=True)
        (stub / "__init__.pyi").write_text(UNTYPED)
    return folder


@pytest.fixture(scope="module")
def lines_of_mypy(programs: Path) -> list[str]:
    """What mypy says of all modules, in one run: it spends most of its time on Slackline."""
    files = sorted(path.name for path in programs.glob("*.py"))
    return checked(programs, "mypy", "--strict", "--no-pretty", "--cache-dir", str(programs / "cache"), *files).splitlines()


def test_mypy_finds_nothing_in_the_guides(lines_of_mypy: list[str]) -> None:
    assert any(line.startswith("Found") for line in lines_of_mypy), lines_of_mypy  # it came to its end: see the program
    assert [line for line in lines_of_mypy if not line.startswith(("program.py:", "Found"))] == []


@pytest.mark.skipif(find_spec("pyright") is None, reason="pyright is not installed: make env does it")
def test_pyright_finds_nothing_in_the_guides(programs: Path) -> None:
    settings = {
        "exclude": ["program.py", STUBS],
        "stubPath": STUBS,
        "typeCheckingMode": "strict",
        "reportUnusedExpression": False,  # a cell of a notebook ends in what it shows
    }
    (programs / "pyrightconfig.json").write_text(json.dumps(settings))
    printed = checked(programs, "pyright", "--pythonpath", sys.executable)
    assert "0 errors, 0 warnings" in printed, printed


def test_a_module_that_a_guide_writes_is_found() -> None:
    text = 'Path("heat.py").write_text("""\nx = 1\n""")\nPath("notes.txt").write_text("y")\nPath(name).write_text("z")'
    assert list(written_modules(text)) == [("heat", "\nx = 1\n")]


def test_a_plain_program_is_fully_typed(lines_of_mypy: list[str]) -> None:
    printed = "\n".join(line.replace("program.py", "program") for line in lines_of_mypy if line.startswith("program"))
    printed = re.sub(r"(?:[a-z_]+\.)+(?=[A-Z])", "", printed)
    found = re.findall(r"^program:\d+: (note: Revealed type is|error:) (.*?)(?:  \[[\w-]+\])?$", printed, re.M)
    seen = [f"{kind.split(':')[0]} {text.strip(QUOTE) if text[0] == QUOTE else text}" for kind, text in found]
    assert seen == EXPECTED.split("\n")[1:-1], printed
