"""``slackline names``: the named subscriptions whose positions a node keeps; and to drop those that nobody needs any more."""

from __future__ import annotations

from typing import Annotated

import typer

from middleware.broker.routing import matches
from middleware.cli.command_options import AllowList, KeyFile, NodeName
from middleware.cli.output import ExitCode, JsonFile, console, table, write_json
from middleware.runtime.clients.inquiry import Inquiry
from middleware.runtime.transport.keys import Keys


def names(
    address: Annotated[str, typer.Argument(help="A node with a log, such as tcp://127.0.0.1:5701.")],
    release: Annotated[
        list[str] | None,
        typer.Option(help="Release this name, or all names that begin so ('old-*'); may be repeated."),
    ] = None,
    keys: KeyFile = None,
    allow_list: AllowList = None,
    node: NodeName = None,
    json: JsonFile = None,
) -> None:
    """List the named subscriptions (sub --resume NAME) that a node keeps, and how many blocks each has yet to read.

    A node keeps 1,000 of them for each key. After --release, a subscriber of that name begins anew, and gets a
    gap. Names that are attached, or that belong to another key, stay; then it ends with 1.

    Examples:

      [bold]slackline names tcp://127.0.0.1:5701[/]

      [bold]slackline names tcp://127.0.0.1:5701 --release dashboard --release 'test-*'[/]
    """
    screen = console(json)
    with Inquiry(address, keys=Keys.given(keys, allow_list), node=node) as inquiry:
        if release:
            inquiry.release(release)
        status = inquiry.ask()
    log = status.vitals.log
    if log is None:
        raise typer.BadParameter(f"node {status.node} keeps no log, so it keeps no positions", param_hint="ADDRESS")
    rows = [(name, f"{behind:,}") for name, behind in sorted(log.readers.items())]
    nothing = f"node {status.node} keeps no positions of named subscriptions"
    screen.print(table(["named subscription", "blocks to read"], rows, 1) if rows else nothing)
    if json:
        write_json(log.readers, json)
    if left := sorted(name for name in log.readers if any(matches(each, name) for each in release or ())):
        screen.print(f"not released, as they are attached or belong to another key: {', '.join(left[:10])}")
        raise typer.Exit(ExitCode.FAILED)
