"""Trying mutants: each is put into a copy of the checkout, and the tests closest to it run until one fails."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.mutation.mutants import Mutant

WORLDS = (1_000, 40)
"""The simulated worlds that a mutant of a pure package must survive after all tests: the first seed, and how many."""

_LONGEST = 900
"""Seconds of a stage after which a mutant counts as one that hangs."""

_FOLDERS = {
    "broker": ["tests/unit/broker", "tests/simulation", "tests/property/durability"],
    "ordering": [
        "tests/unit/ordering",
        "tests/unit/native",
        "tests/property/ordering",
        "tests/property/columns",
        "tests/simulation",
    ],
    "delivery": ["tests/unit/broker", "tests/unit/native", "tests/simulation"],
    "durability": ["tests/unit/durability", "tests/property/durability", "tests/unit/runtime", "tests/simulation"],
    "runtime": ["tests/unit/runtime", "tests/unit/cli", "tests/unit/durability", "tests/unit/connect", "tests/unit/recordings"],
}
"""By package, the folders whose tests run after those that name the module."""

_SYSTEM = {
    "node|durable_runner|intake|cluster|waker|slices|endpoints|transport": [
        "network",
        "durable",
        "resumed_streams",
        "status",
        "restart_in_order",
    ],
    "storage": ["durable", "damaged_log", "late_ledger", "log_reader", "node_state"],
    "clients": [
        "network",
        "shared_clients",
        "async_clients",
        "receipts",
        "slow_reader",
        "log_reader",
        "mesh_inquiry",
        "tables_over_the_wire",
        "publishing_types_together",
    ],
    "sinks": ["sub_to", "connect_http", "network_cli"],
    "status|latencies|json_records|local/showing": ["status", "metrics", "mesh_inquiry"],
    "scenario|plan|usercode|failures": ["node_refuses", "changed_mesh", "network_cli"],
    "engine|report|local/arrivals|local/in_order|loop/garbage": ["run_recorded", "flows"],
}
"""By part of ``runtime``, the system tests (without "test_") that run it in real processes."""

_LEFT_OUT = ("tests/simulation/test_bugs.py",)  # it breaks things itself


class Outcome(NamedTuple):
    """What became of a mutant. ``killed_by``: a test, "worlds" or "time"; None: it survived."""

    mutant: Mutant
    killed_by: str | None


def copied(root: Path, to: Path) -> Path:
    """A copy of the checkout: the files that git knows, and the compiled core."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True
    )
    compiled = [str(file.relative_to(root)) for file in (root / "middleware").rglob("*.so")]
    for name in [*listed.stdout.splitlines(), *compiled]:
        if (root / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, to / name)
    (to / ".venv").symlink_to(root / ".venv")
    return to


def stages(root: Path, file: Path) -> Iterator[list[str]]:
    """The tests for a module, closest first: those that name it, those of its package, system tests."""
    package = file.parts[1]
    module = ".".join(file.with_suffix("").parts)
    named = [
        str(test.relative_to(root))
        for kind in ("unit", "property", "simulation")
        for test in sorted((root / "tests" / kind).rglob("test_*.py"))
        if re.search(rf"{re.escape(module)}\b|import {file.stem}\b", test.read_text())
        and str(test.relative_to(root)) not in _LEFT_OUT
    ]
    if named:
        yield named
    unit = [folder for folder in _FOLDERS[package] if "/unit/" in folder]
    drawn = [folder for folder in _FOLDERS[package] if "/unit/" not in folder]
    for folders in filter(None, (unit, drawn)):
        yield [*folders, *(f"--ignore={name}" for name in (*named, *_LEFT_OUT))]
    if package == "runtime":
        rest = "/".join(file.parts[2:])
        for parts, names in _SYSTEM.items():
            if re.match(rf"({parts})\b", rest.removesuffix(".py")):
                yield [f"tests/system/test_{name}.py" for name in names]


def tried(mutant: Mutant, copy: Path) -> Outcome:
    """Put a mutant into the copy, run its tests, and take it out again."""
    target = copy / mutant.file
    source = target.read_bytes()
    try:
        target.write_bytes(mutant.source(source))
        return Outcome(mutant, _killer(mutant, copy))
    finally:
        target.write_bytes(source)


def _killer(mutant: Mutant, copy: Path) -> str | None:
    for tests in stages(copy, mutant.file):
        if (killer := failing(tests, copy)) is not None:
            return killer
    if mutant.file.parts[1] != "runtime":
        code, _ = _run([sys.executable, "-m", "tests.mutation", "--worlds", *map(str, WORLDS)], copy)
        return "worlds" if code else None
    return None


def failing(tests: list[str], copy: Path) -> str | None:
    """The first of these tests that fails; "time" if none comes to an end; None if all pass."""
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "faulthandler_timeout=180"]
    code, output = _run([sys.executable, "-m", "pytest", *options, "-o", "faulthandler_exit_on_timeout=true", *tests], copy)
    if code in (0, 5):  # 5: there are no tests
        return None
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    if found is None:
        return "time" if code == 1 or code < 0 else f"pytest ended with {code}"
    return found[1]


def _run(command: list[str], copy: Path) -> tuple[int, str]:
    environment = os.environ | {
        "PYTHONPATH": f"{copy}:{copy / 'tests'}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }

    with subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=_LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        return process.returncode, output
