"""``slackline keys``: what it prints can be appended to an allow-list as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from middleware.cli.main import application
from middleware.cli.output import ExitCode
from middleware.runtime.transport.keys import load_allowed, load_keys


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def keys(*arguments: str) -> Result:
    return CliRunner().invoke(application(), ["keys", *arguments])


def test_new_keys_go_straight_into_an_allow_list(folder: Path) -> None:
    made = [keys("new", "field"), keys("new", "match", "--file", "other.key"), keys("show", "field.key")]
    assert [each.exit_code for each in made] == [ExitCode.OK] * 3
    assert "Wrote field.key" in made[0].stderr
    (folder / "allowed.txt").write_text("".join(each.stdout for each in made))
    allowed = load_allowed(folder / "allowed.txt")
    assert [(each.name, each.key) for each in allowed] == [
        (name, load_keys(folder / file).public)
        for name, file in (("field", "field.key"), ("match", "other.key"), ("field", "field.key"))
    ]


def test_the_secret_is_never_printed(folder: Path) -> None:
    made = [keys("new", "field"), keys("show", "field.key"), keys("show", "field.key", "--json", "-")]
    secret = load_keys(folder / "field.key").secret
    assert not any(secret in each.output for each in made)


def test_json_has_standard_output_to_itself(folder: Path) -> None:
    made = json.loads(keys("new", "field", "--json", "-").stdout)
    assert made == json.loads(keys("show", "field.key", "--json", "-").stdout)
    assert made == {"name": "field", "public": load_keys(folder / "field.key").public, "file": "field.key"}


def test_nothing_is_made_that_could_not_be_told(folder: Path) -> None:
    done = keys("new", "field", "--json", "gone/keys.json")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "there is no folder gone" in done.stderr
    assert not (folder / "field.key").exists()


def test_what_is_no_key_file_is_told(folder: Path) -> None:
    (folder / "allowed.txt").write_text("abc field\n")
    (folder / "allowed.txt").chmod(0o600)
    assert "is no key file" in keys("show", "allowed.txt").stderr
    assert "cannot read key file gone.key" in keys("show", "gone.key").stderr
