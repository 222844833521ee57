"""``slackline soak``: more than the nodes can take, for a long time; memory must stay flat, and nothing may be dropped."""

from __future__ import annotations

from typing import Annotated

import typer

from middleware.cli.output import ExitCode, JsonFile, console, write_json


def soak(
    minutes: Annotated[float, typer.Option(min=0.05, help="How long, once what is sustainable is known.")] = 10.0,
    factor: Annotated[float, typer.Option(min=0.1, help="How many times the sustainable rate is offered.")] = 2.0,
    warm_up: Annotated[float, typer.Option(min=1.0, help="Seconds to find out what is sustainable, twice.")] = 15.0,
    json: JsonFile = None,
) -> None:
    """Offer two nodes more than they can take: the source must be held back, memory stay flat, and nothing be dropped.

    Example:

      [bold]slackline soak --minutes 10 --factor 2 --json soak.json[/]
    """
    from rich.table import Table
    from slackline_torture.soak import Sample
    from slackline_torture.soak import soak as run

    screen = console(json)
    with screen.status("warming up ...") as status:

        def show(sample: Sample) -> None:
            memory = ", ".join(f"{name} {size / 2**20:.0f} MB" for name, size in sample.memory.items())
            status.update(f"{sample.seconds:.0f} s: {sample.taken:,} events taken; {memory}")

        report = run(minutes * 60, factor, warm_up, show)
    table = Table("", "", title=f"soak: {minutes:g} min at {factor:g} times what is sustainable", show_header=False)
    table.add_row("sustainable", f"{report.sustainable:,.0f} events/s")
    table.add_row("taken", f"{report.events:,} events; the source was held back {report.waited:.0%} of the time")
    table.add_row("results", f"{report.finals:,} of {report.expected:,} made, delivered final; {report.behind:.2f} s behind")
    for name in report.samples[0].memory:
        course = [sample.memory[name] / 2**20 for sample in report.samples]
        table.add_row(
            f"memory of {name}", f"{course[0]:.0f} MB at first, {max(course):.0f} MB at most, {course[-1]:.0f} MB at last"
        )
    table.add_row("alpha at last", ", ".join(f"{name} {alpha:.2f}" for name, alpha in report.alpha.items()))
    screen.print(table)
    for what in report.wrong:
        screen.print(f"wrong: {what}", markup=False, style="red")
    if json:
        write_json(report, json)
    if report.wrong:
        raise typer.Exit(ExitCode.FAILED)
