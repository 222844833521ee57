"""What the documents show is run: every python block, and every console block marked ``run``.

A ```` ```python ```` block needs no mark. All such blocks of a file make one program, run in an empty folder. Of a block
that opens with ```` ```console run ```` or ```` ```bash run ````, each line ``$ slackline ...`` is run in such a folder
too, and what stands below it must be what it prints (``...`` stands for anything, as in a doctest); nothing below it
means that any output will do.
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from slackline_benchmarks.servers import Postgres

TOP = Path(__file__).parents[2]
DOCUMENTS = [TOP / "README.md", *sorted((TOP / "docs" / "guide").glob("**/*.md"))]
TIMEOUT = 240  # seconds; below the limit for a test in tools/run_checks.sh
FENCE = re.compile(r"^(?P<fence>`{3,}) *(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=fence) *$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: its words behind the fence, its text, and the line its text starts at (from 1)."""

    info: tuple[str, ...]
    body: str
    line: int


class Command(NamedTuple):
    """A command line of a console block, and what the document says that it prints."""

    line: str
    expected: str


def blocks(text: str) -> list[Block]:
    return [
        Block(tuple(found["info"].split()), found["body"], text.count("\n", 0, found.start("body")) + 1)
        for found in FENCE.finditer(text)
    ]


def program(text: str) -> str:
    """All python blocks as one program, each on the lines it has in the document, so that tracebacks point there."""
    lines: list[str] = []
    for block in blocks(text):
        if block.info[:1] == ("python",):
            lines += [""] * (block.line - 1 - len(lines)) + block.body.splitlines()
    return "\n".join(lines)


def commands(text: str) -> list[Command]:
    found: list[Command] = []
    for block in blocks(text):
        if block.info[:2] in {("console", "run"), ("bash", "run")}:
            for part in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
                line, _, expected = part.partition("\n")
                found.append(Command(line, expected))
    return found


def execute(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(
        arguments,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def run_program(name: str, text: str, folder: Path) -> None:
    script = folder / name
    script.write_text(program(text))
    done = execute([sys.executable, str(script)], folder)
    assert done.returncode == 0, f"the python blocks of {name} fail (same line numbers):\n{done.stderr}"


def run_command(command: Command, folder: Path) -> None:
    words = shlex.split(command.line)
    assert words[:1] == ["slackline"], f"only '$ slackline ...' is run from documents, not {command.line!r}"
    done = execute(words, folder)
    assert done.returncode == 0, f"{command.line} ends with {done.returncode}:\n{done.stdout}{done.stderr}"
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    if command.expected.strip():
        same = doctest.OutputChecker().check_output(command.expected, done.stdout, flags)
        assert same, f"{command.line} prints\n{done.stdout}\nbut the document says\n{command.expected}"


def with_marks(document: Path) -> Any:
    """A document as a parameter, marked as a test with Spark if its python blocks use that."""
    marks = [pytest.mark.spark] if "middleware.spark" in program(document.read_text()) else []
    return pytest.param(document, marks=marks, id=str(document.relative_to(TOP)))


@pytest.mark.parametrize("document", [with_marks(document) for document in DOCUMENTS])
def test_python_blocks_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = document.read_text()
    with ExitStack() as stack:
        if 'os.environ["DATABASE"]' in program(text):
            monkeypatch.setenv("DATABASE", stack.enter_context(Postgres()).address)
        run_program(f"{document.stem}.py", text, tmp_path)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(TOP)))
def test_marked_commands_run(document: Path, tmp_path: Path) -> None:
    for command in commands(document.read_text()):
        run_command(command, tmp_path)


SAMPLE = """# Sample

```python
numbers = [1, 2]
```

```text
not run
```

```python
assert sum(numbers) == {total}
```

```console run
$ slackline --version
{version}
$ slackline --help
```

```console
$ slackline no-such-command
```
"""


def test_blocks_of_a_document_share_one_namespace(tmp_path: Path) -> None:
    run_program("sample.py", SAMPLE.format(total=3, version=""), tmp_path)


def test_a_wrong_block_is_found_at_its_line(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="line 12"):
        run_program("sample.py", SAMPLE.format(total=4, version=""), tmp_path)


def test_commands_run_and_their_output_is_compared(tmp_path: Path) -> None:
    version, overview = commands(SAMPLE.format(total=3, version="slackline ..."))
    run_command(version, tmp_path)
    run_command(overview, tmp_path)
    (wrong, _) = commands(SAMPLE.format(total=3, version="slackline 77"))
    with pytest.raises(AssertionError, match="but the document says"):
        run_command(wrong, tmp_path)


def test_a_failing_command_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ends with 2"):
        run_command(Command("slackline no-such-command", ""), tmp_path)
