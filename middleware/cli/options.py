"""Options that several commands have: keys of nodes, and texts of the form NAME=VALUE."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from middleware.model.errors import SlacklineError

KeyFile = Annotated[Path | None, typer.Option("--keys", help="Key file of this client (slackline keys new).")]
AllowList = Annotated[Path | None, typer.Option("--allow-list", help="File with the public keys of the nodes.")]
NodeName = Annotated[str | None, typer.Option("--node", help="Name of the node in the allow-list.")]


def pairs(option: str, texts: list[str], form: str) -> dict[str, str]:
    """The values by name of texts such as name=value; ``form`` says it with an example. Raises SlacklineError."""
    parts = [text.partition("=") for text in texts]
    if bad := [text for text, (name, _, value) in zip(texts, parts, strict=True) if not name or not value]:
        raise SlacklineError(f"{option} {bad[0]!r}: write {form}")
    return {name: value for name, _, value in parts}
