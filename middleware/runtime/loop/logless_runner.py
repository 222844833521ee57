"""Ends the steps of a node without a log: what a step sends leaves at once."""

from __future__ import annotations

from middleware.broker.broker import Broker
from middleware.broker.effects import Effects


class LoglessRunner:
    """The runner of a node without a log; see ``DurableRunner``. ``worked``: how long the node has worked (ns)."""

    is_durable = False
    due_at = None

    def __init__(self, broker: Broker) -> None:
        self.worked = 0
        self._broker = broker

    def settle(self, now: int) -> list[Effects]:
        """End a step; returns what is to be done now."""
        return [self._broker.settle(now)]

    def status(self) -> None:
        """There is no log to report on."""

    def end(self) -> None:
        """Nothing is to be stored."""
