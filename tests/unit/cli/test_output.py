"""JSON for machines: whole files, a clean standard output, readable errors."""

import json
from pathlib import Path

import pytest

from middleware.cli.output import console, print_error, write_json
from middleware.errors import ScenarioError, SlacklineError

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
