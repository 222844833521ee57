"""``slackline flow``: a flow as it is drawn, and how it is partitioned over nodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from middleware.cli.output import console
from middleware.model.detector import Detector
from middleware.model.errors import ScenarioError, SlacklineError


class Drawable(Protocol):
    """A flow, as far as it is needed here."""

    def text(self) -> str: ...

    def svg(self, partitions: int | None = None) -> str: ...

    def operators(self, partitions: int = 1) -> Mapping[str, Detector]: ...


def flow(
    target: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="A flow, or a function that returns one.")],
    *,
    parts: Annotated[int | None, typer.Option(min=1, help="Show the operators that run it on this many workers.")] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it into an SVG file.")] = None,
) -> None:
    """Check a flow and show it: its operations, where their items go, and what runs it.

    Examples:

      [bold]slackline flow scenarios.search.index:flow[/]

      [bold]slackline flow scenarios.search.index:flow --parts 3 --svg search.svg[/]
    """
    found = _load(target)
    operators = found.operators(parts or 1)
    screen = console()
    screen.print(found.text(), markup=False)
    if parts is not None:
        from middleware.model.event import type_name
        from middleware.model.identity import levels

        level = levels(operators)
        screen.print(f"on {parts} worker{'s' if parts > 1 else ''}:", markup=False)
        for name in sorted(operators, key=lambda each: (level[each], each)):
            reads = ", ".join(map(type_name, operators[name].subscribes))
            screen.print(f"  level {level[name]}  {name}  reads {reads}", markup=False)
    if svg is not None:
        try:
            svg.write_text(found.svg(parts), encoding="utf-8")
        except OSError as error:
            raise SlacklineError(
                f"cannot write {svg}: {error.strerror}; give a file in a folder that exists and is yours"
            ) from None


def _load(target: str) -> Drawable:
    from middleware.runtime.scenario import load_object

    found: Any = load_object(target, Path.cwd())
    if callable(found) and not hasattr(found, "operators"):
        try:
            found = found()
        except TypeError as error:
            raise ScenarioError(f"{target} cannot be called without arguments: {error}") from None
    if not hasattr(found, "operators") or not hasattr(found, "svg"):
        raise ScenarioError(f"{target} is no flow, nor a function that returns one: it gives {type(found).__name__}")
    flow: Drawable = found
    return flow
