"""``slackline keys``: the keys by which nodes know and trust each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from middleware.cli.output import JsonFile, console, write_json
from middleware.runtime.keys import new_keys

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def keys() -> None:
    """Make the keys by which nodes know and trust each other."""


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Name of the node or client: one word.")],
    file: Annotated[Path | None, typer.Option("--file", help="Key file to write (default: NAME.key).")] = None,
    json_file: JsonFile = None,
) -> None:
    """Make a pair of keys. The file stays here and secret; the line that is printed belongs into the others' allow-lists.

    Example:

      [bold]slackline keys new field[/]
    """
    path = file if file is not None else Path(f"{name}.key")
    pair = new_keys(name, path)
    out = console(json_file)
    out.print(f"Wrote {path}, which only you can read. Add this line to the allow-list of everyone that {name} talks to:\n")
    out.print(f"{pair.public} {name}", markup=False, soft_wrap=True)
    if json_file is not None:
        write_json({"name": name, "public": pair.public, "file": str(path)}, json_file)
