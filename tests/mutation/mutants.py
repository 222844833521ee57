"""One-line faults in Python source: a list of operators over the syntax tree, and a draw from a seed."""

from __future__ import annotations

import ast
import difflib
import random
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("broker", "ordering", "delivery", "durability", "runtime")

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}


class Mutant(NamedTuple):
    """A fault: the bytes from ``start`` to ``end`` of a file become ``text``."""

    file: Path
    line: int
    start: int
    end: int
    text: str

    def source(self, source: bytes) -> bytes:
        """The source of the file with the fault in it."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def diff(self, root: Path) -> str:
        """The fault as a unified diff without context."""
        before = (root / self.file).read_bytes()
        lines = [text.decode().splitlines(keepends=True) for text in (before, self.source(before))]
        return "".join(difflib.unified_diff(*lines, str(self.file), str(self.file), n=0))


def draw(root: Path, seed: int, count: int, packages: tuple[str, ...] = PACKAGES) -> list[Mutant]:
    """Draw distinct mutants of the packages, at most one a line, each line as likely as any other."""
    files = sorted(file for package in packages for file in (root / "middleware" / package).rglob("*.py"))
    by_line: dict[tuple[Path, int], list[Mutant]] = {}
    for file in files:
        for mutant in mutants(file.read_bytes(), file.relative_to(root)):
            by_line.setdefault((mutant.file, mutant.line), []).append(mutant)
    rng = random.Random(seed)
    lines = rng.sample(sorted(by_line), min(count, len(by_line)))
    return [rng.choice(by_line[line]) for line in lines]


def mutants(source: bytes, file: Path) -> Iterator[Mutant]:
    """All mutants of a source.

    Left out: annotations, texts, log lines, assertions, and module constants, which are tuned rather than tested.
    """
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(node: ast.expr | ast.stmt, text: str) -> Mutant:
        assert node.end_lineno is not None and node.end_col_offset is not None
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        return Mutant(file, node.lineno, start, end, text)

    for node in _nodes(ast.parse(source)):
        for text in _expressions(node) if isinstance(node, ast.expr) else _statements(node):
            yield place(node, text)
        if isinstance(node, ast.If):
            yield place(node.test, f"not ({ast.unparse(node.test)})")


def _nodes(tree: ast.Module) -> Iterator[ast.expr | ast.stmt]:
    """The statements and expressions of functions that may be mutated, outer ones first."""
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    nested = {inner for outer in functions for inner in ast.walk(outer) if inner is not outer}
    for function in functions:
        if function not in nested:
            for statement in function.body:
                yield from _inside(statement)


def _inside(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    if isinstance(node, ast.Assert | ast.JoinedStr | ast.Raise) or _is_log(node):
        return
    if isinstance(node, ast.expr | ast.stmt):
        yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list", "type_params"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _inside(child)


def _is_log(node: ast.AST) -> bool:
    """Whether this is a call that tells people something, or a docstring."""
    if not isinstance(node, ast.Expr):
        return False
    return isinstance(node.value, ast.Constant) or ast.unparse(node).startswith(("_log.", "log.", "warnings.", "echo("))


def _expressions(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Compare(ops=[operator]):
            yield _with(node, ops=[_COMPARISONS[type(operator)]()])
        case ast.BoolOp(op=operator, values=values):
            yield _with(node, op=ast.Or() if isinstance(operator, ast.And) else ast.And())
            for left_out in range(len(values)):
                kept = [value for place, value in enumerate(values) if place != left_out]
                yield f"({ast.unparse(kept[0])})" if len(kept) == 1 else _with(node, values=kept)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield f"({ast.unparse(operand)})"
        case ast.BinOp(op=operator) if type(operator) in _ARITHMETIC and not _is_text(node):
            yield _with(node, op=_ARITHMETIC[type(operator)]())
        case ast.IfExp(test=test):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Call(func=ast.Name(id=name)) if name in _FUNCTIONS:
            yield _with(node, func=ast.Name(_FUNCTIONS[name]))
        case ast.Constant(value=bool(value)):
            yield repr(not value)
        case ast.Constant(value=int(value)):
            yield repr(value + 1)


def _statements(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Delete():
            yield "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "pass"
        case ast.If(orelse=[], body=[ast.Return() | ast.Continue() | ast.Break()]):
            yield "pass"
        case ast.Break():
            yield "continue"
        case ast.Continue():
            yield "break"
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitOr | ast.BitAnd):
        yield _with(node, op=_ARITHMETIC[type(node.op)]())


def _is_text(node: ast.BinOp) -> bool:
    """Whether an operand is seen to be no number, so that the fault would only be a TypeError."""
    kinds = ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp
    return any(
        isinstance(each, kinds) or (isinstance(each, ast.Constant) and isinstance(each.value, str | bytes))
        for each in (node.left, node.right)
    )


def _with(node: ast.AST, **fields: object) -> str:
    """The source of a node with other fields; an expression in parentheses, as its parent may bind more strongly."""
    changed = deepcopy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    text = ast.unparse(ast.fix_missing_locations(changed))
    return f"({text})" if isinstance(node, ast.expr) else text
