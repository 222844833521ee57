"""JSON for machines: whole files, a clean standard output, readable errors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from middleware.cli.output import console, print_error, results_alone, table, write_json
from middleware.model.errors import ScenarioError, SlacklineError

DATA = {"events": 3, "latency_ms": {"mean": 1.5, "p99": float("nan")}}
READ_BACK = {"events": 3, "latency_ms": {"mean": 1.5, "p99": None}}


def test_standard_output_gets_json_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    console("-").print("progress")
    write_json(DATA, "-")
    out, err = capsys.readouterr()
    assert json.loads(out) == READ_BACK
    assert err == "progress\n"


def test_people_read_standard_output_when_json_goes_elsewhere(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    console(str(tmp_path / "x.json")).print("progress")
    assert capsys.readouterr().out == "progress\n"


def test_a_file_is_replaced_whole_and_nothing_else_stays(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text("x" * 10_000)
    write_json(DATA, str(file))
    assert json.loads(file.read_text()) == READ_BACK
    assert list(tmp_path.iterdir()) == [file]


def test_unwritable_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(SlacklineError, match=r"none/result\.json: No such file"):
        write_json(DATA, str(tmp_path / "none" / "result.json"))


def test_a_folder_is_not_written_to(tmp_path: Path) -> None:
    with pytest.raises(SlacklineError, match="Is a directory"):
        write_json(DATA, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_errors_show_brackets_and_notes_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    error = ScenarioError("match.toml: [red]nodes[0]")
    error.add_note("add a name")
    print_error(error)
    assert capsys.readouterr().err == "error: match.toml: [red]nodes[0]\n  add a name\n"


NOISY = """
from slackline import Detector, Event

print("imported")

class Hit(Event):
    peak: float

class Loud(Detector):
    subscribes = (Hit,)

    def on_event(self, event):
        print("got", event.ts)
"""


def test_what_a_detector_prints_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    command = [sys.executable, "-m", "middleware.cli.main", "check", "noisy:Loud", "--count", "3", "--json", "-"]
    here = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), str(tmp_path)])}
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | here, capture_output=True, text=True, check=False)
    assert json.loads(done.stdout), done.stderr
    assert "imported\ngot " in done.stderr


def test_results_have_standard_output_for_themselves(capfd: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout
    with results_alone():
        with results_alone():
            print("printed")
            write_json(DATA, "-")
        with open(os.dup(sys.stdout.fileno()), "w") as out:
            out.write("opened\n")
        sys.stdout.flush()
    assert sys.stdout is before
    out, err = capfd.readouterr()
    assert (out.endswith("}\nopened\n"), "printed" in out, err) == (True, False, "printed\n")


def test_a_table_shows_texts_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(table(["source", "n"], [["[/a]", "1"], ["[bold]b", "2"]], names=1))
    out = capsys.readouterr().out
    assert "[/a]" in out and "[bold]b" in out
