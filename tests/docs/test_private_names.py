"""Tests go by public faces: what they reach into of another module is listed here, with the reason, and the list shrinks."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]

ALLOWED = {
    "property/cql/test_hostile_values.py": (
        4,
        "sizes from which on windows are trees and leftovers are purged: no parameter yet",
    ),
    "property/cql/conftest.py": (2, "the same"),
    "property/cql/test_over.py": (2, "the same"),
    "property/cql/test_windows.py": (2, "the same"),
    "unit/cql/test_hostile_values.py": (1, "the same"),
    "property/flow/conftest.py": (3, "sizes from which on a flow forgets: no parameter yet"),
    "property/flow/random_flows.py": (1, "a drawn flow must use every stream, and Flow does not say which it uses"),
    "simulation/bugs.py": (29, "plants bugs: what is to break is inside"),
    "simulation/test_hierarchy_simulation.py": (1, "the size of frames is the same for all that cut them"),
    "simulation/test_time_others_bear_out.py": (1, "how many events a publisher may have waiting: 10,000, for all nodes"),
    "simulation/test_worlds.py": (3, "a gap that no drawn world comes to at this moment; partial steps of few types"),
    "system/test_http_limits.py": (3, "limits of all HTTP servers that are too high to reach in a test"),
    "system/test_network.py": (1, "how long a silent peer is waited for: one constant of the protocol, for both ends"),
    "unit/broker/test_generations.py": (1, "a node that says it has a log, and has none"),
    "unit/broker/test_events_sent.py": (1, "what waited for a node that was missing is given by no other face"),
    "unit/runtime/test_adaptation_interval.py": (2, "how often alpha is adapted: no test waits for it"),
    "unit/runtime/test_time_of_payloads.py": (5, "what a step receives for long: no test loads a node until it does"),
    "unit/cli/test_doctor.py": (1, "where the checkout is"),
    "unit/cli/test_main.py": (1, "the same"),
    "unit/cql/test_delta_windows.py": (2, "counts what is measured, which no result shows"),
    "unit/observe_view/test_board.py": (1, "what is remembered of results that are not final yet shows nowhere"),
    "unit/ordering/test_unit.py": (1, "looks at the code of the loop over events"),
    "unit/sequence/test_operator.py": (1, "the matcher behind an operation has no other face"),
}
"""By file, how many places and why. Whoever has removed one lowers the number; nothing is added that a parameter, a public
name or a value in ``state()`` could serve."""

PROTOCOLS = {"_replace", "_asdict", "_fields", "_make", "_repr_html_"}
"""Names that the standard library, or IPython, asks for."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PROTOCOLS


def is_constant(name: str) -> bool:
    return name.isupper()


def places(tree: ast.Module) -> Iterator[ast.AST]:
    """Where a module reads a private name that is none of its own, or puts something else in the place of one, or of a
    constant."""
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    own |= {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node)
    }
    own |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if is_private(name) and name not in own:
                yield node
            case ast.ImportFrom(names=names) if any(is_private(each.name) for each in names):
                yield node
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[*_, ast.Constant(value=str(path)), _]):
                name = path.rpartition(".")[2]
                if is_private(name) or is_constant(name):
                    yield node


def _is_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def found() -> dict[str, list[int]]:
    """By file, the lines."""
    lines: dict[str, list[int]] = {}
    for file in sorted(TESTS.rglob("*.py")):
        name = file.relative_to(TESTS).as_posix()
        at = [getattr(node, "lineno", 0) for node in places(ast.parse(file.read_text()))]
        if at and not name.startswith(
            ("slackline_", "unit/window/test_bench")
        ):  # programs of their own, and how large they run
            lines[name] = at
    return lines


def test_no_test_reaches_into_what_is_not_its_own() -> None:
    lines = found()
    allowed = Counter({name: count for name, (count, _) in ALLOWED.items()})
    counts = Counter({name: len(at) for name, at in lines.items()})
    more = {name: lines[name] for name in counts - allowed}
    assert not more, f"use a public face or a parameter; private names and constants at {more}"
    fewer = {name: f"{counts[name]}, not {allowed[name]}" for name in allowed - counts}
    assert not fewer, f"there are fewer by now, so lower the numbers here: {fewer}"


def test_the_check_finds_what_it_is_for() -> None:
    bad = "from a import _b; x._c; patch.setattr(m, 'LIMIT', 3); patch.setattr('m._n', 3)"
    assert len(list(places(ast.parse(bad)))) == 4
    good = "x._replace(y=1); patch.setattr(m, 'f', 3)\nclass A:\n    def __init__(self):\n        self._a = 1"
    assert not list(places(ast.parse(good + "\ndef f(a): return a._a")))
