"""``slackline trace``: arguments that make no sense end with 2 and a message, and info tells what is there."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from middleware.cli.output import console
from middleware.cli.runs.trace import app, parse_speed, show_broken_lines
from middleware.model.errors import KeyFileError, SlacklineError, TraceError
from middleware.recordings.files.tally import BadLine, BadLines
from tests.unit.recordings.test_traces import finish, write


def failure(*arguments: object, kind: type[SlacklineError] = TraceError) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert isinstance(done.exception, kind), done.output
    return str(done.exception)


def test_speeds() -> None:
    assert [parse_speed(text) for text in ("1x", "10x", "0.5", "max")] == [1.0, 10.0, 0.5, None]
    for text in ("fast", "0x", "-1x", "nanx", "infx"):
        with pytest.raises(TraceError, match="write 1x"):
            parse_speed(text)


def test_info_as_json_and_for_people(tmp_path: Path) -> None:
    write(tmp_path, "Ping", [1, 2, 3])
    finish(tmp_path)
    done = CliRunner().invoke(app, ["info", str(tmp_path), "--json", "-"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["types"]["Ping"]["events"] == 3
    assert "Ping" in CliRunner().invoke(app, ["info", str(tmp_path)]).output


def test_wrong_arguments_are_reported_before_spark_starts(tmp_path: Path) -> None:
    assert "no such folder" in failure("info", tmp_path / "gone")
    assert "no such folder" in failure("feed", tmp_path / "gone", "tcp://127.0.0.1:1")
    write(tmp_path / "trace", "Ping", [1, 2, 3])
    finish(tmp_path / "trace")
    assert "go together" in failure("feed", tmp_path / "trace", "tcp://127.0.0.1:1", "--keys", "my.key", kind=KeyFileError)
    assert "write 1x" in failure("feed", tmp_path / "trace", "tcp://127.0.0.1:1", "--speed", "warp")
    assert "in one way" in failure("prepare", tmp_path / "new")
    assert "no recording at" in failure("prepare", tmp_path / "new", tmp_path / "gone.csv", "--reader", "debs2013")
    (tmp_path / "a.csv").write_text("1\n")
    with_model = ("prepare", tmp_path / "new", tmp_path / "a.csv", "--reader", "debs2013")
    assert "no delay model" in failure(*with_model, "--delay", "sometimes")
    assert "PATTERN=MODEL" in failure(*with_model, "--delay-for", "sensor-4", kind=SlacklineError)
    assert "probability" in failure(*with_model, "--duplicates", "2")
    assert "no such folder" in failure(*with_model, "--delay", f"empirical({tmp_path / 'gone'})")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("count", "note"), [(4, None), (5, None), (6, "and 1 more"), (12_000, "and 11,995 more")])
def test_broken_lines_beyond_the_first_few_are_counted(
    count: int, note: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    first = [BadLine("a.csv", number, "no number") for number in range(min(count, 20))]
    show_broken_lines(console(), SimpleNamespace(bad_lines=BadLines(count, first), lost_cells=BadLines()))  # type: ignore[arg-type]
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert len([line for line in lines if line.startswith("a.csv:")]) == min(count, 5)
    assert lines[6:] == ([note] if note else [])
