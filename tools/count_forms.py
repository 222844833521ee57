"""Count the branches that ask which form events have, by package: `python tools/count_forms.py [ROOT]`.

A branch asks for the form if its test reads the columns of a change, or compares a value with a class of columns. The plan of
the house is that only `model/` and the core ask.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_ATTRIBUTES = {"columns", "in_columns", "places", "is_columns", "has_columns"}
_CLASSES = {"Block", "ArrivedColumns", "WaitingBlocks", "MixedBlock", "AnyBlock", "RecordBatch"}


def _tests(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        match node:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Assert(test=test):
                yield test
            case ast.comprehension(ifs=tests):
                yield from tests
            case ast.match_case(pattern=pattern):
                yield from (each.cls for each in ast.walk(pattern) if isinstance(each, ast.MatchClass))


def _asks(test: ast.expr) -> bool:
    """Whether a test reads a name of a form."""
    for node in ast.walk(test):
        if isinstance(node, ast.Attribute | ast.Name):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            if name.lstrip("_") in _ATTRIBUTES or name in _CLASSES:
                return True
    return False


def count(root: Path) -> Counter[str]:
    """The branches below ``root``, by the first two folders of their path."""
    found = Counter[str]()
    for folder in ("middleware", "detectors"):
        for path in sorted((root / folder).rglob("*.py")):
            package = "/".join(path.relative_to(root).parts[:2])
            found[package] += sum(map(_asks, _tests(ast.parse(path.read_text()))))
    return +found


if __name__ == "__main__":
    counts = count(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent)
    for package, branches in counts.most_common():
        print(f"{branches:5} {package}")
    print(f"{counts.total():5} in all")
