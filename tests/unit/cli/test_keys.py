"""``slackline keys``: what it prints can be appended to an allow-list as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from middleware.cli.main import application
from middleware.cli.output import ExitCode
from middleware.runtime.transport.keys import AllowedKey, load_allowed, load_keys


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


def test_nothing_is_made_that_could_not_be_reported(folder: Path) -> None:
    done = keys("new", "field", "--json", "gone/keys.json")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "there is no folder gone" in done.stderr
    assert not (folder / "field.key").exists()


def test_what_is_no_key_file_is_reported(folder: Path) -> None:
    (folder / "allowed.txt").write_text("abc field\n")
    (folder / "allowed.txt").chmod(0o600)
    assert "is no key file" in keys("show", "allowed.txt").stderr
    assert "cannot read key file gone.key" in keys("show", "gone.key").stderr


KEY, OTHER = "a#a#a" * 8, "b#b#b" * 8
"""Public keys: '#' is a digit of theirs."""


@pytest.mark.parametrize(
    ("options", "rights"),
    [
        ([], {}),
        (["--publish", "soccer.*", "--publish", "Hit"], {"publish": frozenset({"soccer.*", "Hit"})}),
        (["--publish", "nothing", "--read", "nothing"], {"publish": frozenset(), "read": frozenset()}),
        (["--publish", "*", "--read", "*"], {}),
        (["--source", "ball*", "--source", "x=1"], {"sources": frozenset({"ball*", "x=1"})}),
        (["--read", "Alarm", "--history", "2 hours"], {"read": frozenset({"Alarm"}), "history": 7_200 * 10**9}),
        (["--history", "1234567891ns"], {"history": 1_234_567_891}),
        (["--history", "0s"], {"history": 0}),
    ],
)
def test_a_key_that_is_allowed_has_exactly_these_rights(folder: Path, options: list[str], rights: dict[str, Any]) -> None:
    done = keys("allow", "allowed.txt", KEY, "--owner", "desk", *options)
    assert done.exit_code == ExitCode.OK, done.output
    assert load_allowed(folder / "allowed.txt") == [AllowedKey(KEY, "desk", **rights)]
    assert (folder / "allowed.txt").read_text() == done.stdout
    again = keys("allow", "allowed.txt", OTHER, "--owner", "press")
    assert "Added to allowed.txt" in again.stderr
    assert load_allowed(folder / "allowed.txt") == [AllowedKey(KEY, "desk", **rights), AllowedKey(OTHER, "press")]


def test_the_rights_of_a_key_are_replaced_and_all_else_in_the_list_stays(folder: Path) -> None:
    path = folder / "allowed.txt"
    path.write_text(f"# who\n\n{KEY} desk deploy publish=Hit # since May\n{OTHER}  press\n{KEY} desk\n#{KEY} gone")
    path.chmod(0o600)
    keys("allow", "allowed.txt", KEY, "--read", "Alarm")
    lines = ["# who", "", f"{KEY} desk read=Alarm # since May", f"{OTHER}  press", f"#{KEY} gone", ""]
    assert path.read_text().split("\n") == lines, "the last of two lines counts: it has no mark"
    done = keys("allow", "allowed.txt", KEY, "--owner", "office")
    assert (done.stdout, done.exit_code) == (f"{KEY} office\n", ExitCode.OK)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in folder.iterdir()] == ["allowed.txt"]


def test_the_marks_of_a_key_stay(folder: Path) -> None:
    (folder / "allowed.txt").write_text(f"{KEY} desk deploy read=Alarm\n")
    (folder / "allowed.txt").chmod(0o644)
    keys("allow", "allowed.txt", KEY)
    assert load_allowed(folder / "allowed.txt") == [AllowedKey(KEY, "desk", frozenset({"deploy"}))]


def test_a_key_may_begin_with_a_dash(folder: Path) -> None:
    key = "-a#a#" * 8
    assert keys("allow", "allowed.txt", "--owner", "desk", "--", key).exit_code == ExitCode.OK
    assert load_allowed(folder / "allowed.txt") == [AllowedKey(key, "desk")]


def test_a_link_to_an_allow_list_stays_one(folder: Path) -> None:
    (folder / "link.txt").symlink_to("allowed.txt")
    keys("allow", "link.txt", KEY, "--owner", "desk")
    assert (folder / "link.txt").is_symlink() and load_allowed(folder / "allowed.txt") == [AllowedKey(KEY, "desk")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([KEY[1:], "--owner", "desk"], "is no public key: a key is 40 characters"),
        (["\u00e4" * 40, "--owner", "desk"], "is no public key"),
        ([OTHER], "does not list this key: say whose it is with --owner NAME"),
        ([KEY, "--owner", "my desk"], "'my desk' cannot be the name of a key: use one word"),
        ([KEY, "--owner", "#desk"], "cannot be the name of a key"),
        ([KEY, "--publish", "so*er"], "'publish=so*er' is no right: 'so*er' is no subscription"),
        ([KEY, "--publish", "Hit read=*"], "is no right"),
        ([KEY, "--read", "Hit deploy"], "'read=Hit deploy' is no right: a pattern is one word"),
        ([KEY, "--source", "b*l"], "'source=b*l' is no right: a right is"),
        ([KEY, "--source", "the ball"], "'source=the ball' is no right"),
        ([KEY, "--history", "long"], "'history=long' is no right: 'long' is no duration"),
        ([KEY, "--history", "-1h"], "'history=-1h' is no right: a history is no negative time"),
    ],
)
def test_what_is_no_key_or_right_changes_nothing(folder: Path, arguments: list[str], message: str) -> None:
    before = f"{KEY} desk read=Alarm\n"
    (folder / "allowed.txt").write_text(before)
    (folder / "allowed.txt").chmod(0o644)
    done = keys("allow", "allowed.txt", *arguments)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert message in " ".join(done.stderr.split())
    assert (folder / "allowed.txt").read_text() == before


def test_a_list_with_a_wrong_line_is_not_touched(folder: Path) -> None:
    (folder / "allowed.txt").write_text(f"{OTHER} press\nabc field\n")
    (folder / "allowed.txt").chmod(0o644)
    done = keys("allow", "allowed.txt", KEY, "--owner", "desk")
    assert done.exit_code == ExitCode.BAD_INPUT and "allowed.txt:2: expected" in done.stderr
    assert "desk" not in (folder / "allowed.txt").read_text()
    gone = keys("allow", "gone/allowed.txt", KEY, "--owner", "desk")
    assert gone.exit_code == ExitCode.BAD_INPUT and "cannot write allow-list gone/allowed.txt" in gone.stderr
