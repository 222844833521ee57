"""The honest sources under torture: publishers in threads, out of order within a bound that they promise."""

from __future__ import annotations

import random
import threading
import time
from heapq import heappop, heappush

from slackline_torture.application import Reading

from middleware.model.errors import NetworkError
from middleware.model.event import END, Event
from middleware.model.time import MILLISECOND
from middleware.runtime.clients import Publisher

DISORDER = 150 * MILLISECOND
"""The most by which an event is published after its time."""

_PATIENCE = 180.0
_EVERY = 0.02
_AT_ONCE = 10


class Source(threading.Thread):
    """Publishes what it measures, a little late and out of order, and promises what is true, until ``end``.

    ``published``
        all events that it has handed to its publisher.
    ``error``
        what ended it before its time.
    """

    def __init__(self, name: str, address: str, seed: int, together: threading.Barrier) -> None:
        super().__init__(name=name, daemon=True)
        self._together = together
        self.published: list[Event] = []
        self.error: Exception | None = None
        self._random = random.Random(f"{seed} {name}")
        self._address = address
        self._ending = threading.Event()
        self._number = 0
        self._late: list[tuple[int, int, Event]] = []

    def run(self) -> None:
        try:
            with Publisher(self._address, name=self.name, types=[Reading], patience=_PATIENCE) as publisher:
                publisher.advance(Reading, 0)
                publisher.flush(_PATIENCE)
                self._together.wait(_PATIENCE)  # from here on the node knows of all: none's first words can be late
                while not self._ending.wait(_EVERY):
                    self._measure()
                    self._publish(publisher, time.time_ns())
                self._publish(publisher, END)
                publisher.advance(Reading, END)
                publisher.flush(_PATIENCE)
        except (NetworkError, threading.BrokenBarrierError) as error:
            self.error = error

    def end(self) -> None:
        """Publish what is still held back, and promise the end."""
        self._ending.set()

    def _measure(self) -> None:
        now, draw = time.time_ns(), self._random
        for _ in range(_AT_ONCE):
            self._number += 1
            event = Reading(
                draw.randrange(5), draw.randrange(50), ts=now - draw.randrange(20_000_000), id=self._number, source=self.name
            )
            heappush(self._late, (event.ts + draw.randrange(DISORDER), self._number, event))

    def _publish(self, publisher: Publisher, now: int) -> None:
        due: list[Event] = []
        while self._late and self._late[0][0] <= now:
            due.append(heappop(self._late)[2])
        if due:
            self.published += due
            publisher.publish(due)
        if now != END:
            publisher.advance(Reading, min((event.ts for _, _, event in self._late), default=now - DISORDER) - DISORDER)
