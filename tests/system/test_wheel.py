"""The wheel that people install: whole, with the core, and at work without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "middleware/native"
PACKAGES = ("middleware", "detectors", "scenarios", "slackline", "slackline_benchmarks", "slackline_torture")
CODE = """
from slackline import Detector, Event, run
import middleware, middleware.native

class Tick(Event):
    price: float

class Rise(Event):
    by: float

class Rises(Detector):
    subscribes, publishes = (Tick,), (Rise,)
    def __init__(self):
        self.last = None
    def on_event(self, tick):
        last, self.last = self.last, tick.price
        return Rise(tick.price - last, ts=tick.ts) if last is not None and tick.price > last else None

ticks = [Tick(float(at), ts=at, id=at, source="x") for at in (1, 3, 2)]
print(middleware.__file__, [rise.by for rise in run(ticks, [Rises()], batch=1).finals["Rises"]])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    quick = {
        "CARGO_PROFILE_RELEASE_LTO": "off",
        "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",
        "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
    }
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", str(out), str(ROOT)]
    subprocess.run(command, check=True, env={**os.environ, **quick, "CARGO_TARGET_DIR": str(CORE / "target/wheel")})
    (made,) = out.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel holds, as an installation has it."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target", str(folder), str(wheel)], check=True
    )
    return folder


def test_it_has_every_module_and_what_they_read(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tracked = subprocess.run(["git", "ls-files", *PACKAGES[:3]], cwd=ROOT, capture_output=True, text=True, check=True)
    installed = (name.removeprefix("middleware/public/") for name in tracked.stdout.split())
    lacking = {name for name in installed if not name.endswith((".rs", "Cargo.toml", "Cargo.lock", "rustfmt.toml"))} - names
    assert not lacking
    assert {name.split("/")[0] for name in names} - set(PACKAGES) == {
        next(n for n in names if ".dist-info/" in n).split("/")[0]
    }


def test_it_has_the_core(wheel: Path) -> None:
    assert any(name.startswith("middleware/native/_core.") for name in zipfile.ZipFile(wheel).namelist())
    shared = "cp312-abi3" if sys.version_info >= (3, 12) else f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert shared in wheel.name


def test_it_has_nothing_that_only_benchmarks_need(installed: Path, tmp_path: Path) -> None:
    code = "from middleware.native import _core as c; print(hasattr(c, 'Baseline'), hasattr(c.SequenceMatcher, 'in_order'))"
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["False", "False"]


def test_without_rust_a_build_says_what_to_install(tmp_path: Path) -> None:
    build = [sys.executable, "setup.py", "-q", "build", "--build-base", str(tmp_path)]
    ran = subprocess.run(build, cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    (line,) = ran.stderr.splitlines()
    assert ran.returncode == 1
    assert line.startswith("error: Slackline's core is written in Rust, and there is no cargo: install Rust 1.")


def test_it_works_without_the_checkout(installed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    ran = subprocess.run(
        [sys.executable, "-c", CODE], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    where, _, results = ran.stdout.partition(" ")
    assert Path(where).is_relative_to(installed)
    assert results.strip() == "[1.0, 1.0]"
    help_text = subprocess.run(
        [sys.executable, "-m", "middleware.cli.main", "run", "--help"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "slackline run soccer" in help_text.stdout
