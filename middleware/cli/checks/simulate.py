"""``slackline simulate``, for those who change Slackline: worlds drawn from seeds, in which everything fails that can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from middleware.cli.output import JsonFile, console, write_json
from middleware.cli.termination import interrupted
from middleware.extensions import extensions

if TYPE_CHECKING:
    from rich.console import Console

    from middleware.testing.simulation.hunt import WorldOutcome
    from middleware.testing.simulation.plans.drawing import Application

_T = TypeVar("_T")
_REPORT_EVERY = 500
"""Worlds between two lines where nobody sees a bar."""


def simulate(
    seeds: Annotated[int, typer.Option(min=1, help="How many worlds.")] = 200,
    *,
    first: Annotated[int, typer.Option(help="Seed of the first; the others follow.")] = 0,
    shrink: Annotated[
        bool, typer.Option(help="Look for the fewest incidents and events with which a failing world fails.")
    ] = True,
    json: JsonFile = None,
) -> None:
    """For those who change Slackline: worlds in which everything fails, each checked against the whole promise.

    Finals equal the oracle, none is lost, doubled or changed, and all streams end.

    A world is several nodes with the real brokers, links, units, logs and recovery, sources and sinks, in one thread under
    a virtual clock. Its network loses, repeats, delays, reorders and splits; its nodes crash, stand still, and have clocks that
    go wrong and leap; its disks are slow, full, torn by crashes, and lost; its detectors raise. Deployed are small detectors,
    windows, sequence queries, FlinkCQL scripts, flows, or several of them on each other. One seed gives one world, exactly.
    All processors are used.

    Examples:

      [bold]slackline simulate --seeds 10000[/]

      [bold]slackline simulate --seeds 1 --first 4711[/]     replay one
    """
    screen = console(json)
    application = partial(_one_of, [point.load() for point in extensions("applications").values()])
    outcomes = list(_played(first, seeds, application, screen))
    troubles: Counter[str] = Counter()
    for outcome in outcomes:
        troubles += outcome.troubles
    failures = {outcome.seed: outcome.failure for outcome in outcomes if outcome.failure is not None}
    counts = ", ".join(f"{count} {what}" for what, count in troubles.most_common())
    screen.print(f"{len(outcomes)} worlds, {len(failures)} failures; in them: {counts}")
    report: dict[str, object] = {"worlds": len(outcomes), "first": first, "failures": failures, "troubles": dict(troubles)}
    if failures:
        report["smallest"] = _described(min(failures), application, shrink, screen)
    if json:
        write_json(report, json)
    if failures:
        raise typer.Exit(1)
    if len(outcomes) < seeds:  # what was not played has not passed
        raise typer.Exit(interrupted())


def _played(first: int, seeds: int, application: Application, screen: Console) -> Iterator[WorldOutcome]:
    """The outcome of each world, until all are played or someone stops it; failures are shown at once."""
    import os

    from rich.markup import escape
    from rich.progress import Progress

    from middleware.testing.simulation.hunt import hunt

    played = failed = 0
    try:
        with Progress(console=screen, transient=True) as progress:
            task = progress.add_task("simulating", total=seeds)
            for outcome in hunt(first, seeds, os.cpu_count() or 1, application):
                played += 1
                yield outcome
                if outcome.failure is not None:
                    failed += 1
                    failure = f"[red]seed {outcome.seed}[/]: {escape(outcome.failure)}"
                    progress.console.print(failure, highlight=False, markup=True)
                progress.update(task, advance=1)
                if not screen.is_terminal and played % _REPORT_EVERY == 0:
                    screen.print(f"{played} of {seeds} worlds, {failed} failures")
    except KeyboardInterrupt:
        screen.print(f"stopped after {played} of {seeds} worlds")


def _described(seed: int, application: Application, shrink: bool, screen: Console) -> list[str]:
    """Show what happens in a world that fails, or in the smallest like it."""
    from middleware.testing.simulation.hunt import shrunk
    from middleware.testing.simulation.plans.drawing import draw
    from middleware.testing.simulation.plans.world_plan import describe

    plan = draw(seed, application=application)
    if shrink:
        with screen.status(f"shrinking the world of seed {seed} ..."):
            plan = shrunk(plan)
    lines = describe(plan)
    screen.print(f"the world of seed {seed}" + (", shrunk:" if shrink else ":"))
    for line in lines:
        screen.print("  " + line, highlight=False, markup=False)
    screen.print(f"replay it: slackline simulate --seeds 1 --first {seed}")
    return lines


def _one_of(applications: list[Callable[[Random], _T]], rng: Random) -> _T:
    """The detectors of a world; one kind alone takes nothing from the generator."""
    return (applications[0] if len(applications) == 1 else rng.choice(applications))(rng)
