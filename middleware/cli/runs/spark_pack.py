"""``slackline spark``: what a cluster of Spark needs to run Slackline's jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from middleware.cli.output import console

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_show_locals=False)


@app.callback()
def spark() -> None:
    """The needs of a cluster of Spark to run Slackline's jobs."""


@app.command()
def pack(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The archive to write, such as slackline.tar.gz.")],
) -> None:
    """Pack Slackline, and the packages that it needs, for executors that have neither.

    Your own modules, and those of scenarios, are not in it: they are sent with each job. Executors need the Python of this
    process, and Spark unpacks the archive where they start:

      spark.archives                  slackline.tar.gz#slackline
      spark.executorEnv.PYTHONPATH    ./slackline

    Example:

      [bold]slackline spark pack slackline.tar.gz[/]
    """
    from middleware.spark.pack import pack as write

    screen = console(None)
    with screen.status("packing ..."):
        found = write(file)
    screen.print(f"{file}: Slackline, {', '.join(found)}", soft_wrap=True, highlight=False)
    screen.print(f"spark.archives {file.resolve()}#slackline", soft_wrap=True, markup=False, highlight=False)
    screen.print("spark.executorEnv.PYTHONPATH ./slackline", soft_wrap=True, markup=False, highlight=False)
