"""``slackline status``: a whole mesh at a glance, from the address of any of its nodes."""

from __future__ import annotations

import typer

from middleware.cli.command_options import AllowList, KeyFile, NodeNames, silence_reporter
from middleware.cli.meshes.mesh_tables import Addresses, Timeout, lookout, pictured
from middleware.cli.output import ExitCode, JsonFile, console, write_json
from middleware.observe.mesh import TIMEOUT


def status(
    addresses: Addresses = None,
    timeout: Timeout = TIMEOUT,
    keys: KeyFile = None,
    allow_list: AllowList = None,
    node: NodeNames = None,
    json: JsonFile = None,
) -> None:
    """How the nodes of a mesh are: since when they run, what goes through, how far behind they are, and who is attached.

    One address is enough: a node names the others of its configuration, and they are asked, too. Ends with 0 if all of them
    answer, and with 1 if one does not, which is named. --json has all counts; times there are nanoseconds.

    Examples:

      [bold]slackline status tcp://127.0.0.1:5701[/]

      [bold]slackline status ./plant[/]     the nodes of a scenario

      [bold]slackline status tcp://10.0.0.5:5701 --keys me.key --allow-list allowed.txt --json -[/]
    """
    screen = console(json)
    with lookout(addresses, keys, allow_list, node) as nodes:
        mesh = nodes.look(timeout, silence_reporter(timeout))
    screen.print(pictured(mesh))
    if json:
        write_json(mesh, json)
    if mesh.silent:
        raise typer.Exit(ExitCode.FAILED)
