"""The command's frame: lazy sub-commands, errors, exit codes."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from middleware import __version__
from middleware.cli import main
from middleware.cli.command import CommandEntry
from middleware.cli.main import application, load
from middleware.cli.output import ExitCode, exit_code
from middleware.model.errors import AddressError, LateEventError, NetworkError, ScenarioError, WireError

COMMAND_MODULE = """
    import typer
    from middleware.model.errors import LateEventError, ScenarioError

    app = typer.Typer()

    @app.command()
    def info() -> None:
        print("info ran")

    @app.command()
    def feed(count: int = 1) -> None:
        print("feed ran", count)

    def say(word: str) -> None:
        "Say a word."
        print("printed", word)

    def bad() -> None:
        raise ScenarioError("match.toml: nodes[1].name: two nodes are named 'left'\\nrename one")

    def late() -> None:
        raise LateEventError("Hit (ts=5) came 3 s late")

    def interrupted() -> None:
        raise KeyboardInterrupt

    def broken() -> None:
        raise ZeroDivisionError

    def lacking() -> None:
        raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")

    def lost() -> None:
        raise ModuleNotFoundError("No module named 'nonesuch'", name="nonesuch")
"""


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, CommandEntry]:
    (tmp_path / "sample_commands.py").write_text(textwrap.dedent(COMMAND_MODULE))
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("sample_commands", None)
    same = ("say", "bad", "late", "interrupted", "broken", "lacking", "lost")
    names = {"trace": "app"} | {name: name for name in same}
    return {name: CommandEntry(f"sample_commands:{attribute}", f"Line of {name}.") for name, attribute in names.items()}


def call(commands: dict[str, CommandEntry], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(application(commands), list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_overview_lists_commands_and_imports_none(commands, monkeypatch) -> None:
    code, out, _ = call(commands, monkeypatch, "--help")
    assert code == ExitCode.OK
    assert "Line of say." in out
    assert "sample_commands" not in sys.modules


def test_overview_imports_no_language_and_no_library_for_data() -> None:
    look = "import sys; from middleware.cli.main import application; application(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert not {"detectors.cql", "detectors.sequence", "lark", "numpy", "pyarrow", "zmq"} & set(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["say", "hello"], "printed hello\n"),
        (["trace", "info"], "info ran\n"),
        (["trace", "feed", "--count", "3"], "feed ran 3\n"),
    ],
)
def test_functions_and_apps_are_commands(commands, monkeypatch, arguments, expected) -> None:
    assert call(commands, monkeypatch, *arguments)[:2] == (ExitCode.OK, expected)


def test_help_of_a_sub_command_is_its_own(commands, monkeypatch) -> None:
    code, out, _ = call(commands, monkeypatch, "say", "--help")
    assert code == ExitCode.OK
    assert "Say a word." in out


def test_bad_input_is_one_block_on_standard_error(commands, monkeypatch) -> None:
    code, out, err = call(commands, monkeypatch, "bad")
    assert code == ExitCode.BAD_INPUT
    assert out == ""
    assert err == "error: match.toml: nodes[1].name: two nodes are named 'left'\n  rename one\n"


def test_a_run_that_failed_has_its_own_exit_code(commands, monkeypatch) -> None:
    code, _, err = call(commands, monkeypatch, "late")
    assert code == ExitCode.FAILED
    assert err == "error: Hit (ts=5) came 3 s late\n"


def test_interruption_is_silent(commands, monkeypatch) -> None:
    assert call(commands, monkeypatch, "interrupted") == (ExitCode.INTERRUPTED, "", "")


def test_a_bug_is_not_dressed_up(commands, monkeypatch) -> None:
    result = CliRunner().invoke(application(commands), ["broken"])
    assert isinstance(result.exception, ZeroDivisionError)


def test_a_command_of_another_package_that_cannot_be_loaded_hurts_no_other(monkeypatch, capsys) -> None:
    bad = EntryPoint("lost", "no_such_package_of_slackline:LOST", "slackline.commands")
    monkeypatch.setattr("middleware.extensions.entry_points", lambda group: [bad])
    entries = main.commands()
    assert set(entries) == set(main.COMMANDS)
    assert "'lost' of no_such_package_of_slackline:LOST cannot be loaded" in capsys.readouterr().err


def test_a_command_without_its_extra_says_what_to_install(commands, monkeypatch) -> None:
    monkeypatch.setattr("middleware.installation.ROOT", Path("/nowhere"))
    code, _, err = call(commands, monkeypatch, "lacking")
    assert (code, err) == (ExitCode.BAD_INPUT, "error: this needs pyarrow; pip install 'slackline-cep[tables]'\n")
    assert isinstance(CliRunner().invoke(application(commands), ["lost"]).exception, ModuleNotFoundError)


def test_unknown_command_is_bad_input_with_a_suggestion(commands, monkeypatch) -> None:
    code, _, err = call(commands, monkeypatch, "trac")
    assert code == ExitCode.BAD_INPUT
    assert "trace" in err


def leaves(name: str, command: Any) -> list[str]:
    """The words of each command that does something, below and including the one given."""
    below = getattr(command, "commands", None)
    return [f"{name} {leaf}" for key in below for leaf in leaves(key, below[key])] if below else [name]


def test_every_registered_command_explains_itself_with_examples() -> None:
    entries = main.commands()
    app = application(entries)
    there = [command.name for command in app.registered_commands]
    assert {"doctor", "check", "sql", "query"} <= set(there)
    for words in [leaf for name in there for leaf in leaves(name, load(name, entries[name]))]:
        result = CliRunner().invoke(app, [*words.split(), "--help"])
        assert result.exit_code == ExitCode.OK, f"slackline {words} --help: {result.output}"
        assert "Example" in result.stdout, f"slackline {words} --help shows no examples"


def test_exit_codes_by_error() -> None:
    assert exit_code(ScenarioError("x")) == exit_code(AddressError("x")) == ExitCode.BAD_INPUT
    assert exit_code(NetworkError("x")) == ExitCode.FAILED
    assert exit_code(WireError("x")) == exit_code(LateEventError("x")) == ExitCode.FAILED


WAITING = """
import sys, threading
import middleware.cli.main as main
from middleware.cli.command import CommandEntry

def wait() -> None:
    print("ready", flush=True)
    threading.Event().wait(60)

sys.modules["waiting"] = sys.modules["__main__"]
sys.modules["waiting"].__spec__ = main.__spec__
main.COMMANDS = {"wait": CommandEntry("waiting:wait", "Wait.")}
sys.argv = ["slackline", "wait"]
main.main()
"""


def test_control_c_ends_a_real_process_without_a_traceback() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WAITING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (ExitCode.INTERRUPTED, "")


def test_installed_command_runs() -> None:
    command = Path(sys.executable).with_name("slackline")
    done = subprocess.run(
        [command, "--version"], capture_output=True, text=True, check=True, env=os.environ | {"NO_COLOR": "1"}
    )
    assert done.stdout == f"slackline {__version__}\n"


def test_a_simulation_that_was_stopped_has_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> Iterator[None]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("middleware.testing.simulation.hunt.hunt", stopped)
    done = CliRunner().invoke(application(), ["simulate", "--seeds", "3"])
    assert done.exit_code == ExitCode.INTERRUPTED
    assert "stopped after 0 of 3 worlds" in done.output


def test_what_is_no_detector_is_reported_by_check() -> None:
    command = [sys.executable, "-m", "middleware.cli.main", "check", "os:path"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"NO_COLOR": "1"})
    assert done.returncode == ExitCode.BAD_INPUT, done.stderr
    assert "name a detector class" in done.stderr and "Traceback" not in done.stderr
