"""The map of the house names every module, and no module that is not there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_module_is_on_the_map():
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    folder, listed = "", set()
    for line in text.splitlines():
        if heading := re.match(r"### (\S+/) ", line):
            folder = heading[1]
        elif entry := re.match(r"- `(\S+\.(?:py|rs))` \S", line):
            listed.add(folder + entry[1])
    files = [file for top in ("middleware", "detectors", "scenarios") for file in (ROOT / top).rglob("*.py")]
    there = {str(file.relative_to(ROOT)) for file in files if file.name != "__init__.py"}
    assert {name for name in listed if name.endswith(".py")} == there
