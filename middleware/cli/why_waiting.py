"""``slackline why-waiting``: which source, key and buffer hold a stream back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from middleware.cli.output import JsonFile, console, write_json
from middleware.event import END


def why_waiting(
    addresses: Annotated[list[str], typer.Argument(metavar="ADDRESS...", help="The nodes to ask: tcp://127.0.0.1:5701 ...")],
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", help="Types to explain (default: all derived ones that have not ended)."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for an answer.")] = 10.0,
    keys: Annotated[Path | None, typer.Option("--keys", help="Key file of this client (slackline keys new).")] = None,
    allow_list: Annotated[Path | None, typer.Option("--allow-list", help="File with the public keys of the nodes.")] = None,
    json: JsonFile = None,
) -> None:
    """Why results are not final yet: follows each stream down to the source, key or buffer that holds it back.

    Give the addresses of all nodes that take part, so that it can be followed from one to the next.

    Examples:

      [bold]slackline why-waiting tcp://127.0.0.1:5701 tcp://127.0.0.1:5702[/]

      [bold]slackline why-waiting tcp://127.0.0.1:5702 --type soccer.Pass[/]
    """
    from middleware.pubsub.waiting import explain, final_by_type
    from middleware.runtime.inquiry import Inquiry
    from middleware.runtime.keys import Keys

    if (keys is None) != (allow_list is None):
        raise typer.BadParameter("--keys and --allow-list go together")
    own = Keys.load(keys, allow_list) if keys is not None and allow_list is not None else None
    nodes = []
    for address in addresses:
        with Inquiry(address, keys=own, patience=timeout) as inquiry:
            nodes.append(inquiry.ask(timeout))
    derived = final_by_type(nodes)
    raw = sorted({name for node in nodes for name in node.streams} - derived.keys())
    chosen = type_ or [name for name, at in sorted(derived.items(), key=lambda item: item[1]) if at != END] or raw
    screen = console(json)
    told = {name: explain(nodes, name) for name in chosen}
    for lines in told.values():
        for line in lines:
            screen.print(line, markup=False, soft_wrap=True)
    if json:
        write_json({"nodes": nodes, "explained": told}, json)
