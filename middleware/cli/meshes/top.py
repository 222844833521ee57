"""``slackline top``: a whole mesh as it works, again and again, with rates."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.live import Live

from middleware.cli.command_options import AllowList, KeyFile, NodeNames
from middleware.cli.meshes.mesh_tables import Addresses, Timeout, lookout, pictured
from middleware.cli.output import ExitCode, console

_ROWS = 30


def top(
    addresses: Addresses = None,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 1.0,
    times: Annotated[int | None, typer.Option(min=1, help="End after so many looks (default: at Ctrl-C).")] = None,
    timeout: Timeout = 2.0,
    keys: KeyFile = None,
    allow_list: AllowList = None,
    node: NodeNames = None,
) -> None:
    """Watch a mesh: events and results by second, corrections, lag, K, alpha and busy factors, until Ctrl-C.

    One address is enough, as for [bold]slackline status[/], which shows the same once, with totals. Ends with 1 if at the last
    look a node did not answer.

    Examples:

      [bold]slackline top tcp://127.0.0.1:5701[/]

      [bold]slackline top ./plant --every 5 --times 12[/]     for a minute
    """
    screen = console()
    with lookout(addresses, keys, allow_list, node) as nodes, ExitStack() as stack:
        mesh, looks = nodes.look(timeout), 1
        show: Callable[[RenderableType], object] = screen.print
        if screen.is_terminal:
            live = stack.enter_context(Live(console=screen, auto_refresh=False))
            show = partial(live.update, refresh=True)
        show(pictured(mesh, rows=_ROWS))
        with suppress(KeyboardInterrupt):  # how one ends it
            while times is None or looks < times:
                time.sleep(every)
                before, mesh, looks = mesh, nodes.look(timeout), looks + 1
                show(pictured(mesh, before.nodes, _ROWS))
    if mesh.silent:
        raise typer.Exit(ExitCode.FAILED)
