"""``slackline schema``: what a scenario's streams hold, and what a file's columns could become."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from middleware.cli.output import STANDARD_OUTPUT, kept_for_results, results, write_file
from middleware.cli.result_files import check_not_read
from middleware.model.errors import SlacklineError


def schema(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A scenario; or a CSV, JSON lines, Parquet or Arrow file.")],
    form: Annotated[str, typer.Option(help="What to write for a scenario: asyncapi, json (JSON Schema) or avro.")] = "asyncapi",
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="Write it to a file.", callback=kept_for_results)
    ] = STANDARD_OUTPUT,
) -> None:
    """The schema of a scenario's streams, as AsyncAPI 3; or, of a file, a mapping of its columns to begin with.

    Examples:

      [bold]slackline schema soccer --out soccer.asyncapi.json[/]

      [bold]slackline schema bookstore --form avro[/]

      [bold]slackline schema readings.csv --out readings.toml[/]
    """
    if Path(source).is_file():
        check_not_read([out], [source])
        text = _mapping(Path(source))
    else:
        text = _schemas(source, form, out)
    if out == STANDARD_OUTPUT:
        stream = results()
        stream.write(text)
        stream.flush()
    else:
        write_file(out, text.encode())


def _schemas(scenario: str, form: str, out: str) -> str:
    from middleware.recordings.schemas.asyncapi import asyncapi
    from middleware.recordings.schemas.convert import avro_schema, json_schema
    from middleware.runtime.scenario import load_scenario

    make = {"json": json_schema, "avro": avro_schema}.get(form)
    if make is None and form != "asyncapi":
        raise SlacklineError(f"--form {form}: it is asyncapi, json or avro")
    plan = load_scenario(scenario)
    check_not_read([out], plan.own_files)
    document = asyncapi(plan) if make is None else {name: make(kind) for name, kind in sorted(plan.types.items())}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _mapping(file: Path) -> str:
    from middleware.recordings.files.guess import guessed

    found = guessed(file)
    lines = [
        f"type = {_text(found.type)}",
        f"ts = {{ column = {_text(found.ts.column)}, unit = {_text(found.ts.unit)} }}",
        f"source = {{ {'column' if found.source.column else 'value'} = {_text(found.source.column or found.source.value)} }}",
        *([f"id = {_text(found.id)}"] if found.id else []),
        *(f"only = {{ {_key(name)} = {_text(text)} }}" for name, text in found.only.items()),
        "",
        "[fields]",
        *(
            f"{_key(name)} = {{ column = {_text(field.column)}, type = {_text(field.type)}"
            f"{', optional = true' * field.optional} }}"
            for name, field in found.fields.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if name.isascii() else _text(name)


def _text(value: str) -> str:
    return msgspec.json.encode(value).decode()
