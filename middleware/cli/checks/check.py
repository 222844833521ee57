"""``slackline check module:Class``: does a detector, or an operator, keep its contract?"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from middleware.cli.output import ExitCode, JsonFile, console, write_json
from middleware.model.errors import DetectorError
from middleware.model.operator import Operator
from middleware.runtime.scenario import load_object
from middleware.testing.conformance import Verdict, check_detector
from middleware.testing.operator_checks import check_operator


def settings(detector_class: Callable[..., Any], given: list[str]) -> dict[str, object]:
    """Arguments for a detector from ``name=value`` texts; a value is read as JSON where it is JSON, else as text.

    Raises DetectorError where the class does not take them.

    >>> settings(dict, ["limit=2.5", "team=red"])
    {'limit': 2.5, 'team': 'red'}
    """
    values: dict[str, object] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name.isidentifier() and equals):
            raise DetectorError(f"--set {text}: write --set name=value")
        try:
            values[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            values[name] = value
    try:
        signature = inspect.signature(detector_class)
    except ValueError:  # some built-in classes do not say what they take
        return values
    try:
        signature.bind(**values)
    except TypeError as error:
        name = getattr(detector_class, "__name__", repr(detector_class))
        raise DetectorError(f"{name}{signature}: {error}; use --set name=value") from None
    return values


def check(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:NAME", help="A detector class; or an operator, or a function that makes one.")
    ],
    *,
    given: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An argument for the class; repeat for more.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws other input.")] = 0,
    count: Annotated[int, typer.Option(min=1, help="How many sequences of events to draw.")] = 30,
    length: Annotated[int, typer.Option(min=1, help="The longest sequence, in events.")] = 60,
    json_file: JsonFile = None,
) -> None:
    """Check that a detector keeps its contract: pure, copied whole by its snapshots, indifferent to arrival order.

    An operator must come to the same results by any history: disorder, revisions, withdrawals, restarts.

    Events are drawn from the types the detector subscribes to, or taken from its class method [bold]examples()[/].
    Exit code 0 if it passes, 1 if it fails a check, 2 if it cannot be checked.

    Examples:

      [bold]slackline check my.module:Detector[/]

      [bold]slackline check my.module:Detector --set limit=2.5 --set team=red --json -[/]
    """
    verdicts = _verdicts(load_object(target, Path.cwd()), target, given or [], count, length, seed)
    if json_file is not None:
        write_json(verdicts, json_file)
    _report(target, verdicts, json_file)
    if any(verdict.state == "fail" for verdict in verdicts):
        raise typer.Exit(ExitCode.FAILED)


def _verdicts(
    found: Callable[..., Any] | Operator, target: str, given: list[str], count: int, length: int, seed: int
) -> list[Verdict]:
    if isinstance(found, type) and not issubclass(found, Operator):
        detector_class: Any = found  # that it is one is the first thing checked
        return check_detector(detector_class, settings(found, given), count=count, length=length, seed=seed)
    if not callable(found) and not isinstance(found, Operator):
        raise DetectorError(f"{target} is {found!r}: name a detector class, an operator, or a function that makes one")
    operator = found if isinstance(found, Operator) else found(**settings(found, given))
    if not isinstance(operator, Operator):
        raise DetectorError(f"{target} gives {operator!r}: name a detector class, an operator, or a function that makes one")
    return check_operator(operator, count=count, length=length, seed=seed)


def _report(target: str, verdicts: list[Verdict], json_file: str | None) -> None:
    from rich.text import Text

    style = {"pass": "green", "fail": "bold red", "skip": "yellow", "warn": "yellow"}
    out = console(json_file)
    out.print(Text(target, style="bold"))
    for verdict in verdicts:
        out.print(Text("  ").append(f"{verdict.state}  ", style[verdict.state]).append(verdict.check))
        for line in _details(verdict):
            out.print(Text(line), soft_wrap=True)


def _details(verdict: Verdict) -> list[str]:
    """The fault, its events, and the remedy; nothing for a check that passed."""
    lines = verdict.problem.splitlines()
    if verdict.example:
        lines += [f"smallest example found ({len(verdict.example)} events):", *(f"  {event}" for event in verdict.example)]
    if verdict.advice:
        lines.append(f"-> {verdict.advice}")
    return [f"        {line}" for line in lines]
