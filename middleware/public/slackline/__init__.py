"""Slackline, as its users import it: all public names of one package.

``import slackline`` loads nothing else: each name is imported from the module that defines it when it is first used, so that a
program which needs no sockets loads none.

>>> import slackline as sl
>>> class Hit(sl.Event):
...     ball: int
>>> class Hits(sl.Detector):
...     subscribes, publishes = (Hit,), ()
...     def on_event(self, event: Hit) -> None:
...         print("ball", event.ball)
>>> _ = sl.run([Hit(4, ts=1_000)], [Hits()])
ball 4
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

from slackline import shared_names

shared_names.join()


def _homes() -> dict[str, str]:
    """The module that defines each public name, as type checkers read it."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom))
    return {name.name: node.module or "" for node in imports for name in node.names}


_HOMES = _homes()
__all__ = sorted(_HOMES)  # noqa: PLE0605 (the stub says the same to type checkers)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, getattr(import_module(_HOMES[name]), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
