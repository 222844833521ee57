"""Slackline: complex event processing middleware for event streams that arrive out of order.

The vocabulary of the whole project is importable from here; everything else has its own folder (docs/architecture.md).
"""

from middleware.change import Advance, Change, Delta, Insert, Retract, Revise
from middleware.detector import Detector
from middleware.errors import SlacklineError
from middleware.event import Event

__version__ = "0.1.0"

__all__ = ["Advance", "Change", "Delta", "Detector", "Event", "Insert", "Retract", "Revise", "SlacklineError"]
