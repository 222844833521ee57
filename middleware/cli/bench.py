"""``slackline bench``: speed, always as a ratio to a baseline that runs beside it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer

from middleware.cli.output import JsonFile, console, write_json
from middleware.errors import SlacklineError

Entry = dict[str, Any]
"""One measurement: name, value, unit, baseline (in the same unit), and ratio = value / baseline."""

BENCHES = {
    "ordering": "middleware.cli.bench_ordering:bench_ordering",
    "hop": "middleware.cli.bench_hop:bench_hop",
    "feed": "middleware.cli.bench_feed:bench_feed",
    "durability": "middleware.cli.bench_durability:bench_durability",
    "flow": "scenarios.search.bench:bench_flow",
    "sequence": "detectors.sequence.bench:bench_sequence",
    "cql": "detectors.cql.bench:bench_cql",
    "sequence-figures": "detectors.sequence.figures:bench_figures",
    "window": "detectors.window.bench:bench_window",
    "window-figures": "detectors.window.figures:bench_figures",
}


def bench(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"What to measure: {', '.join(BENCHES)}.")],
    *,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of baseline and candidate in turn; the median ratio counts.")] = 5,
    json: JsonFile = None,
) -> None:
    """Measure, against a baseline that runs beside it in the same process or on the same machine.

    Examples:

      [bold]slackline bench ordering[/]     the ordering unit against a bare loop over sorted events

      [bold]slackline bench hop[/]          publish, node, subscribe against plain ZeroMQ

      [bold]slackline bench feed --json -[/]  Spark into a node against Spark into nothing
    """
    if name not in BENCHES:
        raise SlacklineError(f"there is no benchmark {name!r}: it is one of {', '.join(BENCHES)}")
    module, _, function = BENCHES[name].partition(":")
    measure: Callable[[int], list[Entry]] = getattr(import_module(module), function)
    screen = console(json)
    with screen.status(f"measuring {name} ..."):
        entries = measure(rounds)
    from rich.table import Table

    table = Table(title=f"bench {name}: median of {rounds} rounds")
    for heading in ("name", "value", "baseline", "unit", "ratio"):
        table.add_column(heading, justify="left" if heading in ("name", "unit") else "right")
    for entry in entries:
        value, baseline = (f"{entry[key]:,.4g}" for key in ("value", "baseline"))
        table.add_row(entry["name"], value, baseline, entry["unit"], f"{entry['ratio']:.2f}")
    screen.print(table)
    if json:
        write_json(entries, json)
