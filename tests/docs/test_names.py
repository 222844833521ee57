"""One name for one thing: a public class, or a module, of the product has a name that no other has. A type is a noun.

``__init__`` and ``__main__`` are names that Python asks for. A class with an underscore is its module's own.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("middleware", "detectors")

CLASSES: set[str] = set()
"""Classes whose names may occur more than once: none."""

MODULES: set[str] = set()
"""The same for modules."""

IRREGULAR = {
    "Began", "Begun", "Broken", "Built", "Drawn", "Fed", "Found", "Given", "Gone", "Held", "Kept", "Left", "Lost", "Made",
    "Met", "Put", "Read", "Said", "Seen", "Sent", "Taken", "Told", "Went", "Withheld", "Written",
}  # fmt: skip
NOUNS = {"Feed"}

PARTICIPLES = {
    *("Counted", "Marked", "Unmarked"),  # what users write or read: a kind of windows, events of a match
    *("Derived", "Echoed", "Held", "Seen", "Slotted"),  # event types, and a detector, of simulated worlds
}
"""Classes whose names users write or read, or whose worlds need them."""


def repeated(named: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Names that occur more than once, with the places where they do."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, place in named:
        places[name].append(place)
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def modules() -> list[Path]:
    return [path.relative_to(ROOT) for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py"))]


def classes(source: str) -> list[str]:
    """The public classes that a module defines at its top."""
    nodes = ast.parse(source).body
    return [node.name for node in nodes if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def check(found: dict[str, list[str]], excepted: set[str]) -> None:
    twice = {name: places for name, places in found.items() if name not in excepted}
    assert not twice, f"give each of these a name of its own, which says what it is: {twice}"
    assert not excepted - set(found), f"these occur once by now, so remove them from the list: {excepted - set(found)}"


def test_a_class_name_occurs_once() -> None:
    check(repeated((name, str(path)) for path in modules() for name in classes((ROOT / path).read_text("utf-8"))), CLASSES)


def test_a_module_name_occurs_once() -> None:
    check(repeated((path.stem, str(path)) for path in modules() if not path.stem.startswith("__")), MODULES)


def is_participle(name: str) -> bool:
    return name in IRREGULAR or (name not in NOUNS and re.fullmatch("[A-Z][a-z]+ed", name) is not None)


def test_a_class_is_named_by_a_noun() -> None:
    names = {name for path in modules() for name in classes((ROOT / path).read_text("utf-8")) if is_participle(name)}
    assert not names - PARTICIPLES, f"say what each of these is, not what has happened to it: {names - PARTICIPLES}"
    assert not PARTICIPLES - names, f"these are gone by now, so remove them from the list: {PARTICIPLES - names}"


def test_the_check_finds_what_it_is_for() -> None:
    assert classes("class A:\n    class B: ...\nclass _C: ...\nclass D: ...") == ["A", "D"]
    assert [name for name in ("Told", "Joined", "JoinedRow", "Feed", "Lane") if is_participle(name)] == ["Told", "Joined"]
    assert repeated([("A", "x"), ("B", "x"), ("A", "y")]) == {"A": ["x", "y"]}
