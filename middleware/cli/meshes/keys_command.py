"""``slackline keys``: the keys by which nodes know and trust each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from middleware.cli.output import STANDARD_OUTPUT, JsonFile, check_output, console, write_json
from middleware.model.errors import KeyFileError
from middleware.runtime.transport.keys import (
    AllowedKey,
    KeyPair,
    check_key,
    check_name,
    load_allowed,
    load_keys,
    new_keys,
    put_entry,
    rights_in,
)

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
    _print_line(pair, path, json_file)


@app.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE.key", help="A key file.")],
    json_file: JsonFile = None,
) -> None:
    """Show the line for the others' allow-lists again: the public key in a key file, and its name. The secret is not shown.

    Example:

      [bold]slackline keys show field.key >> allowed.txt[/]
    """
    _print_line(load_keys(file), file, json_file)


@app.command()
def allow(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An allow-list; it is made if there is none.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="A public key; put -- before one that begins with a dash.")],
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="Name of the key (default: the name it has in FILE).")
    ] = None,
    publish: Annotated[
        list[str] | None, typer.Option("--publish", metavar="TYPE", help="It publishes this type, or NAMES.*, or nothing.")
    ] = None,
    source: Annotated[
        list[str] | None, typer.Option("--source", metavar="PATTERN", help="It alone sends this source, or BEGINNING*.")
    ] = None,
    read: Annotated[
        list[str] | None, typer.Option("--read", metavar="TYPE", help="It subscribes to this type, or NAMES.*, or nothing.")
    ] = None,
    history: Annotated[
        str | None, typer.Option("--history", metavar="DURATION", help="It reads no further back in a log than this.")
    ] = None,
) -> None:
    """Let a key in, or change its rights: write its line in an allow-list. Standard output gets the line.

    Without any option of a kind, there is no limit of that kind. Rights that the key had are replaced; its flags stay.
    A node that runs follows the new list after SIGHUP.

    Examples:

      [bold]slackline keys allow allowed.txt 'KEY' --owner desk[/]

      [bold]slackline keys allow allowed.txt 'KEY' --owner field --publish 'soccer.*' --source 'ball*' --read nothing[/]

      [bold]slackline keys allow allowed.txt 'KEY' --publish nothing --read Alarm --history 1h[/]
    """
    check_key(key)
    known = {each.key: each for each in load_allowed(file)}.get(key) if file.exists() else None
    name = owner if owner is not None or known is None else known.name
    if name is None:
        raise KeyFileError(f"{file} does not list this key: say whose it is with --owner NAME")
    given = {"publish": publish, "source": source, "read": read, "history": [history] if history is not None else None}
    rights = rights_in(f"{kind}={value}" for kind, values in given.items() for value in values or ())
    entry = AllowedKey(key, check_name(name), known.flags if known is not None else frozenset(), **rights)
    put_entry(file, entry)
    done = "Added to" if known is None else "Changed in"
    console(STANDARD_OUTPUT).print(f"{done} {file}; nodes that run follow it after SIGHUP:", markup=False, soft_wrap=True)
    typer.echo(entry.line())


def _print_line(pair: KeyPair, path: Path, json_file: str | None) -> None:
    """The line of the allow-list, or the same as JSON where that has standard output."""
    if json_file != STANDARD_OUTPUT:
        typer.echo(f"{pair.public} {pair.name}")
    if json_file is not None:
        write_json({"name": pair.name, "public": pair.public, "file": str(path)}, json_file)
