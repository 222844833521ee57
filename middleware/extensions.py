"""Extensions of Slackline by other packages: found by the entry points that they declare, never imported by name.

Groups, each with what its entry points name:

``slackline.commands``
    sub-commands of ``slackline``: a ``middleware.cli.command.CommandEntry``.
``slackline.benchmarks``
    benchmarks of ``slackline bench``: a function from a number of rounds to a list of measurements.
``slackline.expressions``
    ``columns``: the language of expressions in mappings: a function from a text and the types of columns to what it reads and
    the function that computes it.
``slackline.inputs``, ``slackline.outputs``
    connectors by the scheme of their addresses: a ``middleware.connect.messages.source.Source``, and a
    ``middleware.runtime.sinks.sink.Sink``, made from an address, a name and options.
``slackline.applications``
    what ``slackline simulate`` deploys: a function from a ``random.Random`` to an application.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from types import SimpleNamespace
from typing import Any, get_type_hints

import msgspec


def extensions(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group (such as ``commands``) by name, in order. None is loaded."""
    found = entry_points(group=f"slackline.{group}")
    return {point.name: point for point in sorted(found, key=lambda point: point.name)}


def fitting(make: Callable[..., object], options: Mapping[str, Any]) -> dict[str, Any]:
    """Options from a file as what makes a connector declares them: all its parameters but the first, and ``name``.

    A text is read as a number where one is expected: environment variables are texts. Raises ValueError that names the option.
    """
    place, *parameters = inspect.signature(make).parameters.values()
    own = {place.name, "name"}
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    known = {each.name: each.annotation for each in parameters if each.kind is not each.VAR_KEYWORD and each.name not in own}
    found = dict(options)
    for option, value in options.items():
        if option in known:
            try:
                with suppress(TypeError):  # of a type that is no plain value's: what is made judges it
                    found[option] = msgspec.convert(value, _evaluated(known[option], make), strict=False)
            except msgspec.ValidationError as error:  # not the value, which may be a password
                raise ValueError(f"option {option}: {error}") from None
        elif option in own or not takes_any:
            raise ValueError(f"there is no option {option!r}; there are {', '.join(known) or 'none'}")
    return found


def _evaluated(annotation: Any, make: Callable[..., object]) -> Any:
    """The type of an annotation; ``Any`` where it is imported for type checkers alone."""
    names = getattr(make if inspect.isfunction(make) else make.__init__, "__globals__", {})
    try:
        return get_type_hints(SimpleNamespace(__annotations__={"it": annotation}), names, include_extras=True)["it"]
    except NameError:
        return Any
