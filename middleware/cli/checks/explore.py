"""``slackline explore``: all interleavings of small plans, checked against the promises between nodes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from middleware.cli.output import JsonFile, console, write_json
from middleware.cli.termination import interrupted

if TYPE_CHECKING:
    from rich.console import Console

    from middleware.testing.exploration.exploration_plan import ExplorationPlan
    from middleware.testing.exploration.search import SearchOutcome


def explore(
    plans: Annotated[list[str] | None, typer.Argument(help="Plans by name, or the beginning of it. Default: all.")] = None,
    *,
    states: Annotated[int, typer.Option(min=1, help="The most states to visit for each plan.")] = 20_000,
    seed: Annotated[int | None, typer.Option(help="Try steps in an order drawn from this seed.")] = None,
    script: Annotated[Path | None, typer.Option(help="Write the first counter-example to this file, as a script.")] = None,
    names: Annotated[bool, typer.Option("--list", help="List the plans, and explore none.")] = False,
    json: JsonFile = None,
) -> None:
    """Try every order in which a few nodes, publishers and faults can act, and check what nodes promise each other.

    A plan has two or three nodes with the brokers that ship, two or three publishers with a few acts each, and at most one
    broken link or crash. The exploration visits every state that any order of these leads to, each once. In each state it
    checks that no event that a node has taken is late at another, that watermarks never go back, and that nothing is final by
    the clock once all publishers have promised; at each end, that everything has arrived and is final. A counter-example is
    shortened, and can be written as a script.

    Where a plan has more states than --states, another --seed visits others.

    Examples:

      [bold]slackline explore[/]                                some minutes

      [bold]slackline explore start --states 10000000[/]        one family of plans, to the end

      [bold]slackline explore --seed 4 --script broken.py[/]    others; what breaks is written down
    """
    from middleware.testing.exploration.plans import PLANS

    screen = console(json)
    chosen = [plan for name, plan in PLANS.items() if not plans or any(name.startswith(each) for each in plans)]
    if not chosen:
        raise typer.BadParameter(f"no plan begins with {' or '.join(plans or ())}: slackline explore --list shows all")
    if names:
        for plan in chosen:
            screen.print(plan.name, highlight=False)
        return
    report: list[dict[str, object]] = []
    broken = 0
    try:
        for plan in chosen:
            broken += _explored(plan, states, seed, None if broken else script, report, screen)
    except KeyboardInterrupt:
        screen.print(f"stopped after {len(report)} of {len(chosen)} plans")
    if json:
        write_json({"plans": report, "broken": broken}, json)
    if broken:
        raise typer.Exit(1)
    if len(report) < len(chosen):
        raise typer.Exit(interrupted())


def _explored(
    plan: ExplorationPlan, states: int, seed: int | None, file: Path | None, report: list[dict[str, object]], screen: Console
) -> bool:
    """Explore one plan, and print what was found; whether a promise is broken."""
    from middleware.testing.exploration.promise_script import describe, script
    from middleware.testing.exploration.search import explore

    began = time.monotonic()
    with screen.status(f"{plan.name} ...") as status:

        def show_progress(so_far: SearchOutcome) -> None:
            status.update(f"{plan.name}: {so_far.states:,} states, {so_far.transitions:,} steps between them")

        found = explore(plan, states, seed, show_progress)
    seconds = time.monotonic() - began
    kind = "[red]broken[/]" if found.broken else ("all" if found.is_whole else "the first")
    screen.print(
        f"{plan.name}: {kind} {found.states:,} states, {found.transitions:,} steps between them, {found.ends:,} ends, "
        f"the longest way {found.deepest} steps; {seconds:.0f} s",
        highlight=False,
    )
    report.append(
        {
            "plan": plan.name,
            "states": found.states,
            "steps": found.transitions,
            "ends": found.ends,
            "whole": found.is_whole,
            "broken": found.broken,
        }
    )
    if not found.broken:
        return False
    for line in describe(found):
        screen.print("  " + line, highlight=False, markup=False)
    if file is not None:
        file.write_text(script(found))
        screen.print(f"written to {file}: python {file} replays it", highlight=False)
    return True
