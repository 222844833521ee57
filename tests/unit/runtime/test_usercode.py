"""Users' own folders named detectors and scenarios stand beside those that came with Slackline."""

import subprocess
import sys
import textwrap

import pytest

from middleware.runtime.usercode import load_object

FORKLIFT = """
    from slackline import Detector, Event


    class Lift(Event):
        height: float


    class High(Event):
        height: float


    class Highs(Detector):
        subscribes, publishes = (Lift,), (High,)

        def on_event(self, event):
            return High(event.height, ts=event.ts) if event.height > 2 else None
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "detectors").mkdir()
    (tmp_path / "detectors" / "forklift.py").write_text(textwrap.dedent(FORKLIFT))
    return tmp_path


def python(folder, code):
    """Run in a process of its own: what is imported stays."""
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)


LOADED = "from middleware.runtime.usercode import load_object as load; print(load('detectors.forklift:Highs').__module__)"


def test_a_users_detectors_folder_stands_beside_ours(project):
    for code in (LOADED, f"import detectors.window; {LOADED}"):
        done = python(project, f"import sys; sys.path.remove(''); {code}; import detectors.soccer.ball_play.ball")
        assert done.stdout == "detectors.forklift\n", done.stderr


@pytest.mark.parametrize("runs", ["import slackline; ", ""])
def test_a_users_package_hides_none_of_ours(project, runs):
    (project / "detectors" / "__init__.py").write_text("LIMIT = 3\n")
    done = python(project, f"{runs}{LOADED}; import slackline, detectors.window, detectors; print(detectors.LIMIT)")
    assert done.stdout == "detectors.forklift\n3\n", done.stderr


def test_two_scenarios_may_have_modules_of_one_name(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name / "parts").mkdir(parents=True)
        (tmp_path / name / "yard_of_two.py").write_text("from parts.of_two import WHERE\n")
        (tmp_path / name / "parts" / "of_two.py").write_text(f"WHERE = {name!r}\n")
    for name in ("one", "other", "one"):
        assert load_object("yard_of_two:WHERE", tmp_path / name) == name
    first = sys.modules["yard_of_two"]
    assert load_object("yard_of_two:WHERE", tmp_path / "one") == "one" and sys.modules["yard_of_two"] is first
