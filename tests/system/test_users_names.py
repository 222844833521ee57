"""Users' modules that are named like our packages hide nothing of ours, and nothing hides them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DETECTORS = """
print("detectors runs as", __name__)
from slackline import Detector, Event


class Tick(Event):
    price: float


class Rise(Event):
    by: float


class Rises(Detector):
    subscribes, publishes = (Tick,), (Rise,)

    def __init__(self) -> None:
        self.last: float | None = None

    def on_event(self, tick: Tick) -> Rise | None:
        last, self.last = self.last, tick.price
        return Rise(tick.price - last, ts=tick.ts) if last is not None and tick.price > last else None


def ticks():
    return [Tick(float(at), ts=at, id=at, source="x") for at in (1, 3, 2)]


def recorded(seed, seconds):
    import pyarrow

    at = range(1, 100)
    columns = {"price": [float(n % 7) for n in at], "ts": [n * 10_000_000 for n in at], "id": at, "source": ["x" for _ in at]}
    return {"Tick": pyarrow.table(columns)}
"""

SCENARIO = """
name = "prices"
about = "A scenario whose module is named like a package of ours."
detectors = ["detectors:Rises"]

[recording]
generate = "detectors:recorded"
seconds = 1.0
delay = "uniform(1ms, 80ms)"

[[nodes]]
name = "desk"
detectors = ["*"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a module of the user under each of our names."""
    (tmp_path / "detectors.py").write_text(DETECTORS)
    for name in ("scenarios", "middleware"):
        (tmp_path / f"{name}.py").write_text(f"OWN = {name!r}\nprint({name!r}, 'runs')\n")
    return tmp_path


def python(folder: Path, *arguments: str) -> str:
    """The output of Python, run in a folder."""
    command = [sys.executable, *arguments]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_script_has_its_own_modules_and_ours(project: Path) -> None:
    (project / "app.py").write_text(
        "import slackline as sl\n"
        "print(sl.Windows.__module__)\n"
        "from detectors import Rises, ticks\n"
        "from detectors.window import COUNT\n"
        "import middleware, scenarios\n"
        "print(middleware.OWN, scenarios.OWN, Rises.__module__, len(sl.run(ticks(), [Rises()]).finals['Rises']))\n"
    )
    own = ["middleware runs", "scenarios runs", "middleware scenarios detectors 2"]
    assert python(project, "app.py").splitlines() == ["detectors.window.windows", "detectors runs as detectors", *own]


def test_what_a_script_imports_before_slackline_is_joined_as_well(project: Path) -> None:
    (project / "app.py").write_text(
        "import detectors, middleware\nfrom slackline import Windows\nprint(Windows.__module__, middleware.OWN)\n"
    )
    assert python(project, "app.py").splitlines()[-1] == "detectors.window.windows middleware"


def test_a_script_with_a_name_of_ours_runs_once(project: Path) -> None:
    with (project / "detectors.py").open("a") as file:
        file.write("\nimport slackline\nprint(slackline.Windows.__module__)\n")
    assert python(project, "detectors.py").splitlines() == ["detectors runs as __main__", "detectors.window.windows"]


def test_what_a_users_module_raises_is_reported_as_its_error(project: Path) -> None:
    (project / "detectors.py").write_text("limit = 1 / 0\n")
    ran = subprocess.run(
        [sys.executable, "-m", "slackline", "check", "detectors:Rises"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode != 0 and "cannot import detectors: ZeroDivisionError" in ran.stderr + ran.stdout


def test_a_scenario_finds_its_own_detectors(project: Path) -> None:
    (project / "nodes.toml").write_text(SCENARIO)
    assert "equal the in-order oracle: yes" in python(project, "-m", "slackline", "run", ".")
