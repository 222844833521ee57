"""Writes docs/modules.md: every module with the first line of its docstring, by folder. A test compares."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = ROOT / "docs" / "modules.md"

_TOPS = {
    "middleware": "",
    "detectors": "What several kinds of operators share. A namespace package: a user's own folder `detectors` joins it.",
    "tests/slackline_benchmarks": "",
    "tests/slackline_torture": "",
    "scenarios": "One folder each, with its nodes.toml. A namespace package, too.",
}
_CORE = Path("middleware/native/src")
_BASELINES = Path("tests/slackline_benchmarks/baselines")

_HEAD = """# Modules

Every module in a line. This page is made of the modules' own first lines: `python tools/list_modules.py` writes it anew.
What they are together stands in [architecture.md](architecture.md).
"""


def page() -> str:
    """The page as it should be."""
    lines = [_HEAD]
    for top, text in _TOPS.items():
        for folder in sorted({file.parent for file in (ROOT / top).rglob("*.py")}):
            lines += _folder(folder, text if folder == ROOT / top else "")
            if folder == ROOT / _CORE.parent:
                lines += _crate(_CORE)
            if folder == ROOT / _BASELINES.parent:
                lines += _crate(_BASELINES)
    return "\n".join(lines).rstrip("\n") + "\n"


def _crate(folder: Path) -> Iterator[str]:
    yield f"## {folder}/"
    yield ""
    for file in sorted((ROOT / folder).rglob("*.rs")):
        yield f"- `{file.relative_to(ROOT / folder)}` {_rust(file)}"
    yield ""


def _folder(folder: Path, text: str) -> Iterator[str]:
    package = folder / "__init__.py"
    yield f"## {folder.relative_to(ROOT)}/"
    yield ""
    yield text or _python(package)
    yield ""
    for file in sorted(folder.glob("*.py")):
        if file != package:
            yield f"- `{file.name}` {_python(file)}"
    yield ""


def _python(file: Path) -> str:
    """The first line of a module's docstring, in Markdown."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) if file.exists() else None
    if not docstring:
        raise SystemExit(f"{file.relative_to(ROOT)} has no docstring: say in a line what it is")
    return docstring.splitlines()[0].replace("``", "`")


def _rust(file: Path) -> str:
    first = file.read_text(encoding="utf-8").splitlines()[0]
    if not first.startswith("//! "):
        raise SystemExit(f"{file.relative_to(ROOT)} does not begin with //!: say in a line what it is")
    return first.removeprefix("//! ")


if __name__ == "__main__":
    LIST.write_text(page(), encoding="utf-8")
    sys.stderr.write(f"{LIST} written\n")
