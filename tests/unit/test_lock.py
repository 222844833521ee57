"""requirements.lock: what `make env` installs is what pyproject.toml asks for, each package known by its checksum."""

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest
import setuptools
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


def test_the_core_is_built_with_the_crates_of_its_lock_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", given.update)
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(ROOT / "setup.py"))
    (core,) = given["rust_extensions"]
    assert "--locked" in core.cargo_manifest_args
    for script in (ROOT / "Makefile", *(ROOT / "tools").glob("*.sh")):
        builds = re.findall(r"^[^#\n]*\bcargo (?:build|check|clippy|test|run|bench)\b.*$", script.read_text(), re.M)
        assert [line for line in builds if "--locked" not in line] == []
