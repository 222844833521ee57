"""Options that several commands have: keys of nodes, recordings, Spark, and texts of the form NAME=VALUE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from middleware.cli.output import STANDARD_OUTPUT, console
from middleware.model.errors import SlacklineError
from middleware.model.words import redacted

if TYPE_CHECKING:
    from middleware.runtime.transport.keys import Keys

KeyFile = Annotated[Path | None, typer.Option("--keys", help="Key file of this client (slackline keys new).")]
AllowList = Annotated[Path | None, typer.Option("--allow-list", help="File with the public keys of the nodes.")]
NodeName = Annotated[str | None, typer.Option("--node", help="Name of the node in the allow-list.")]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Whose Spark: spark://HOST:7077, yarn, k8s://..., sc://HOST (Spark Connect); without it, one on this machine.",
    ),
]
Cores = Annotated[int, typer.Option("--cores", min=1, help="Spark tasks at a time, where Spark runs on this machine.")]
Seconds = Annotated[float | None, typer.Option("--seconds", help="Length of a generated recording, instead of the scenario's.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of a generated recording and its delays.")]
TracesFolder = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for prepared traces.")]
NodeNames = Annotated[
    list[str] | None,
    typer.Option("--node", help="Names of the nodes in the allow-list (default: whichever of them answers)."),
]


def candidates(keys: Path | None, allow_list: Path | None, node: Sequence[str] | None) -> tuple[Keys | None, Sequence[str]]:
    """The keys of these files, and the names of nodes that may answer: those given, else all of the list."""
    from middleware.runtime.transport.keys import Keys, load_allowed

    own = Keys.given(keys, allow_list)
    if node and keys is None:
        raise typer.BadParameter("--node names a key of the allow-list: give --keys and --allow-list, too")
    return own, node or (list(dict.fromkeys(each.name for each in load_allowed(allow_list))) if allow_list is not None else [])


def silence_reporter(timeout: float) -> Callable[[str], None]:
    """A function that reports on standard error that no node answers at an address yet."""

    def report(address: str) -> None:
        console(STANDARD_OUTPUT).print(
            f"no node answers at {redacted(address)} yet: waiting up to {timeout:g} s for it", markup=False
        )

    return report


def pairs(option: str, texts: list[str], form: str) -> dict[str, str]:
    """The values by name of texts such as name=value; ``form`` says it with an example. Raises SlacklineError."""
    parts = [text.partition("=") for text in texts]
    if bad := [text for text, (name, _, value) in zip(texts, parts, strict=True) if not name or not value]:
        raise SlacklineError(f"{option} {bad[0]!r}: write {form}")
    return {name: value for name, _, value in parts}
