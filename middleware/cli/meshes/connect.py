"""``slackline connect``: the inputs and outputs of a scenario, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from middleware.cli.command_options import AllowList, KeyFile, pairs
from middleware.cli.output import JsonFile, console, write_json
from middleware.model.errors import ScenarioError


def connect(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="Name or folder of the scenario.")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Which inputs and outputs; default: all.")
    ] = None,
    address: Annotated[
        list[str] | None, typer.Option(metavar="NODE=ADDRESS", help="Where a node is reached, instead of what the file says.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="Folder for what must outlast the process: late ledgers, numbers of messages.")
    ] = None,
    json_file: JsonFile = None,
    keys: KeyFile = None,
    allow_list: AllowList = None,
) -> None:
    """Serve the inputs and outputs of a scenario until Ctrl-C or SIGTERM: Kafka, MQTT, PostgreSQL, HTTP, WebSocket.

    An input acknowledges a message once its node has stored the event. A message that is no event is in the input's ledger of
    late events, with the reason. Servers and nodes may go and come back: it resumes where it was, also after a kill. It ends
    with an error only if trying again would not help.

    Examples:

      [bold]slackline connect ./plant[/]

      [bold]slackline connect ./plant hub alarms --address floor=tcp://10.0.0.5:7001[/]

      [bold]slackline late list ./plant/.slackline/plant/connect/hub[/]
    """
    from middleware.connect.connectors import Connectors
    from middleware.runtime.scenario import load_scenario, state_folder, takes_any_port
    from middleware.runtime.transport.keys import Keys

    chosen = load_scenario(scenario)
    given = pairs("--address", address or [], "NODE=ADDRESS, such as field=tcp://127.0.0.1:7001")
    addresses = {node.name: node.address for node in chosen.plan.nodes} | given
    targets = {each.to or chosen.entry for each in chosen.plan.inputs} | {
        each.node or chosen.entry for each in chosen.plan.outputs
    }
    if open_ones := sorted(name for name in targets if takes_any_port(addresses[name])):
        raise ScenarioError(
            f"nodes.{open_ones[0]}: its port must be known: give an address with one (--address {open_ones[0]}=...)"
        )
    folder = state if state is not None else state_folder(chosen) / "connect"
    connections = Connectors(chosen, addresses, folder, names or (), Keys.given(keys, allow_list))
    try:
        connections.run()
    finally:
        for label, count in connections.counts.items():
            console(json_file).print(f"{label}: {count:,}", markup=False)
        if json_file is not None:
            write_json(connections.counts, json_file)
