"""requirements.lock: what `make env` installs is what pyproject.toml asks for, each package known by its checksum."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def test_the_lock_has_everything_that_is_asked_for_within_its_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = dict(re.findall(r"^([\w.-]+)==([\w.+]+)", (ROOT / "requirements.lock").read_text(), re.M))
    asked = [
        Requirement(line) for lines in (project["dependencies"], *project["optional-dependencies"].values()) for line in lines
    ]
    wrong = [str(each) for each in asked if locked.get(canonicalize_name(each.name), "none") not in each.specifier]
    assert not wrong, f"not as asked for in requirements.lock: {wrong}; run 'make lock'"


def test_each_package_has_a_checksum() -> None:
    entries = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text().strip())
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
