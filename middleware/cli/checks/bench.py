"""``slackline bench``: speed, always as a ratio to a baseline that runs beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NotRequired, TypedDict

import typer

from middleware.cli.output import JsonFile, console, write_json
from middleware.extensions import extensions
from middleware.model.errors import SlacklineError


class Entry(TypedDict):
    """One measurement; ``baseline`` in the same unit, ``ratio`` of the two. ``note``: what the comparison omits."""

    name: str
    value: float
    unit: str
    baseline: float
    ratio: float
    note: NotRequired[str]


def bench(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"What to measure: {', '.join(extensions('benchmarks'))}.")],
    *,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of baseline and candidate in turn; the median ratio counts.")] = 5,
    json: JsonFile = None,
) -> None:
    """Measure, against a baseline that runs beside it in the same process or on the same machine.

    Examples:

      [bold]slackline bench ordering[/]     the ordering unit against a bare loop over sorted events

      [bold]slackline bench hop[/]          publish, node, subscribe against ZeroMQ alone

      [bold]slackline bench feed --json -[/]  Spark into a node against Spark into nothing
    """
    known = extensions("benchmarks")
    if name not in known:
        raise SlacklineError(f"there is no benchmark {name!r}: it is one of {', '.join(known)}")
    measure: Callable[[int], list[Entry]] = known[name].load()
    screen = console(json)
    with screen.status(f"measuring {name} ..."):
        entries = measure(rounds)
    from rich.table import Table

    table = Table(title=f"bench {name}: median of {rounds} rounds")
    for heading in ("name", "value", "baseline", "unit", "ratio"):
        table.add_column(heading, justify="left" if heading in ("name", "unit") else "right")
    for entry in entries:
        numbers = f"{entry['value']:,.4g}", f"{entry['baseline']:,.4g}"
        table.add_row(entry["name"], *numbers, entry["unit"], f"{entry['ratio']:.2f}")
    screen.print(table)
    for note, names in _noted(entries).items():
        screen.print(f"{', '.join(names)}: {note}.", highlight=False)
    if json:
        write_json(entries, json)


def _noted(entries: list[Entry]) -> dict[str, list[str]]:
    """The names of the entries by what they omit."""
    noted: dict[str, list[str]] = {}
    for entry in entries:
        if note := entry.get("note"):
            noted.setdefault(note, []).append(entry["name"])
    return noted
