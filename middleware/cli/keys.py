"""``slackline keys``: the keys by which nodes know and trust each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from middleware.cli.output import STANDARD_OUTPUT, JsonFile, check_output, console, write_json
from middleware.runtime.transport.keys import KeyPair, load_keys, new_keys

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def keys() -> None:
    """Make the keys by which nodes know and trust each other, and show them."""


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Name of the node or client: one word.")],
    file: Annotated[Path | None, typer.Option("--file", help="Key file to write (default: NAME.key).")] = None,
    json_file: JsonFile = None,
) -> None:
    """Make a pair of keys. The file stays here and secret; the line that is printed belongs into the others' allow-lists.

    Standard output gets that line and nothing else, so it can be appended to such a list.

    Examples:

      [bold]slackline keys new field[/]

      [bold]slackline keys new field >> allowed.txt[/]
    """
    path = file if file is not None else Path(f"{name}.key")
    people = console(STANDARD_OUTPUT)  # standard error
    if json_file is not None:
        check_output(json_file)
    pair = new_keys(name, path)
    people.print(
        f"Wrote {path}, which only you can read. This line belongs into the allow-list of everyone that {name} talks to:",
        markup=False,
        soft_wrap=True,
    )
    _tell(pair, path, json_file)


@app.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE.key", help="A key file.")],
    json_file: JsonFile = None,
) -> None:
    """Show the line for the others' allow-lists again: the public key in a key file, and its name. The secret is not shown.

    Example:

      [bold]slackline keys show field.key >> allowed.txt[/]
    """
    _tell(load_keys(file), file, json_file)


def _tell(pair: KeyPair, path: Path, json_file: str | None) -> None:
    """The line of the allow-list, or the same as JSON where that has standard output."""
    if json_file != STANDARD_OUTPUT:
        typer.echo(f"{pair.public} {pair.name}")
    if json_file is not None:
        write_json({"name": pair.name, "public": pair.public, "file": str(path)}, json_file)
