"""Slackline: complex event processing middleware for event streams that arrive out of order.

The public names of Slackline are importable from here. Modules with I/O (``run``, ``Node``, ``Publisher``, ...) are imported at
their first use: ``import middleware`` stays light. Everything else has its own folder (docs/architecture.md).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from middleware.model.block.block import Block
from middleware.model.change import Change, Delta, Insert, Retract, Revise, Watermark
from middleware.model.detector import Detector
from middleware.model.errors import SlacklineError
from middleware.model.event import END, Event, EventTypes
from middleware.model.operator import Operator

if TYPE_CHECKING:
    from middleware.ordering.policies import Policies
    from middleware.ordering.slack.kslack import Lateness
    from middleware.recordings.tables.table_run import run
    from middleware.runtime.clients import Publisher, Receipt, Subscriber
    from middleware.runtime.clients.asynchronous import AsyncPublisher, AsyncSubscriber
    from middleware.runtime.engine import Run
    from middleware.runtime.node import Node
    from middleware.runtime.transport.keys import Keys

__version__ = "0.1.0"

_LATER = {
    "AsyncPublisher": "middleware.runtime.clients.asynchronous",
    "AsyncSubscriber": "middleware.runtime.clients.asynchronous",
    "Lateness": "middleware.ordering.slack.kslack",
    "Keys": "middleware.runtime.transport.keys",
    "Node": "middleware.runtime.node",
    "Policies": "middleware.ordering.policies",
    "Publisher": "middleware.runtime.clients",
    "Receipt": "middleware.runtime.clients",
    "Run": "middleware.runtime.engine",
    "Subscriber": "middleware.runtime.clients",
    "run": "middleware.recordings.tables.table_run",
}
"""Where the names are that are imported when they are first used."""

__all__ = [
    "END",
    "AsyncPublisher",
    "AsyncSubscriber",
    "Block",
    "Change",
    "Delta",
    "Detector",
    "Event",
    "EventTypes",
    "Insert",
    "Keys",
    "Lateness",
    "Node",
    "Operator",
    "Policies",
    "Publisher",
    "Receipt",
    "Retract",
    "Revise",
    "Run",
    "SlacklineError",
    "Subscriber",
    "Watermark",
    "run",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, getattr(import_module(_LATER[name]), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
