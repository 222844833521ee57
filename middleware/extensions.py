"""What other packages add to Slackline: found by the entry points that they declare, never imported by name.

Groups, each with what its entry points name:

``slackline.commands``
    sub-commands of ``slackline``: a ``middleware.cli.command.Entry``.
``slackline.benchmarks``
    benchmarks of ``slackline bench``: a function from a number of rounds to a list of measurements.
``slackline.expressions``
    ``columns``: the language of expressions in mappings: a function from a text and the types of columns to what it reads and
    the function that computes it.
``slackline.inputs``, ``slackline.outputs``
    connectors by the scheme of their addresses: a ``middleware.connect.source.Source``, and a
    ``middleware.runtime.sinks.sink.Sink``, made from an address, a name and options.
``slackline.applications``
    what ``slackline simulate`` deploys: a function from a ``random.Random`` to an application.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points


def extensions(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group (such as ``commands``) by name, in order. None is loaded."""
    found = entry_points(group=f"slackline.{group}")
    return {point.name: point for point in sorted(found, key=lambda point: point.name)}
