"""What an object notes of itself is read somewhere.

An attribute that nothing reads is dead, or stands under a former name: a sequence query once asked for columns under a name
that had been changed where it is read, and ran at half its speed with every other test green.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]

READ_BY_LIBRARIES = {"daemon", "disabled"}
"""Attributes of the classes of others, from which ours inherit: threads, opentelemetry's exporters."""


def test_every_attribute_that_is_set_is_read() -> None:
    own: dict[str, str] = {}
    read: set[str] = set()
    for path in (path for room in ("middleware", "detectors", "scenarios", "tests") for path in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Store):
                read.add(node.attr)
            elif isinstance(node, ast.Attribute) and "tests" not in path.parts:
                if isinstance(node.value, ast.Name) and node.value.id == "self":
                    own[node.attr] = f"{path.relative_to(ROOT)}:{node.lineno}"
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                read.add(node.value)  # getattr, attrgetter, and the names that pickled state lists
    unread = {f"{where}: {name}" for name, where in own.items() if name not in read | READ_BY_LIBRARIES}
    assert not unread
