"""``slackline torture``: real nodes, sockets and disks, and everything that goes wrong with them."""

from __future__ import annotations

from typing import Annotated

import typer

from middleware.cli.output import ExitCode, JsonFile, console, write_json


def torture(
    faults: Annotated[int, typer.Option(min=1, help="How many faults, one after another.")] = 100,
    seed: Annotated[int, typer.Option(help="Draws the faults; the same seed draws the same.")] = 1,
    longest: Annotated[float, typer.Option(min=0.2, max=8.0, help="Seconds that a fault may last.")] = 3.0,
    json: JsonFile = None,
) -> None:
    """Torture two nodes: kill and stop them, cut, stall and slow their links, fill disks, take descriptors, lie, send junk.

    Meanwhile three sources publish, out of order, and a subscriber at the far end takes final results. In the end these
    must be exactly those of an in-order run; after each fault, progress must resume; and no node may die.

    Examples:

      [bold]slackline torture --faults 20[/]

      [bold]slackline torture --faults 100 --seed 7 --json torture.json[/]
    """
    from rich.table import Table
    from slackline_torture.torture import Struck
    from slackline_torture.torture import torture as run

    screen = console(json)
    number = 0

    def show(struck: Struck) -> None:
        nonlocal number
        number += 1
        blow = struck.blow
        screen.print(
            f"{number:4} {blow.name:20} {blow.target:20} {blow.seconds:5.2f} s   over it after {struck.resumed:5.2f} s"
        )

    report = run(faults, seed, longest, show)
    table = Table("", "", title=f"torture: {faults} faults, seed {seed}, {report.seconds:.0f} s", show_header=False)
    table.add_row("events published", f"{report.events:,}")
    table.add_row("finals", f"{report.finals:,}, " + ("as in order, each once" if not report.wrong else "WRONG"))
    table.add_row("slowest to resume", f"{max(struck.resumed for struck in report.struck):.2f} s")
    table.add_row("late (honest sources)", f"{report.late:,}")
    table.add_row("rejected", ", ".join(f"{count:,} {reason}" for reason, count in report.rejected.items()) or "nothing")
    table.add_row("dropped, by reason", ", ".join(f"{count:,} {reason}" for reason, count in sorted(report.drops.items())))
    table.add_row("memory", ", ".join(f"{name} {size / 2**20:.0f} MB" for name, size in report.memory.items()))
    screen.print(table)
    for what in report.wrong:
        screen.print(f"wrong: {what}", markup=False, style="red")
    if json:
        write_json(report, json)
    if report.wrong:
        raise typer.Exit(ExitCode.FAILED)
