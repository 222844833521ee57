"""Slackline needs its core: where it is missing, or of another version, one line says so and what to run."""

from __future__ import annotations

import subprocess
import sys

import pytest

ABSENT = "import sys; sys.modules['middleware.native._core'] = None"
BROKEN = """
import sys, importlib.abc
class Broken(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "middleware.native._core":
            raise ImportError("wrong ELF class")
sys.meta_path.insert(0, Broken())
"""
OTHER = "import sys, types; made = sys.modules['middleware.native._core'] = types.ModuleType('_core'); made.VERSION = 1"


@pytest.mark.parametrize(
    ("before", "says"),
    [(ABSENT, "is not built"), (BROKEN, "cannot be loaded (wrong ELF class)"), (OTHER, "is of version 1, and this Slackline")],
)
def test_without_the_core_an_import_says_what_to_run(before: str, says: str) -> None:
    code = f"{before}\ntry:\n    from slackline import Event\nexcept ImportError as error:\n    print(error)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    (line,) = printed.splitlines()
    assert says in line and "make env" in line and "pip install" in line and "Rust" in line
