"""The index on several workers, and pages that come at a steady rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from middleware.model.errors import NetworkError
from middleware.model.event import END, Event
from middleware.model.time import SECOND
from middleware.runtime.clients import Publisher
from middleware.runtime.plan import PolicyPlan
from middleware.runtime.scenario import Scenario, load_scenario
from scenarios.search.index import Page

PATIENCE = 60.0
"""Seconds that the last results may take to become final."""

MOST_LATE = SECOND // 5
"""How late (ns) pages come that do not come in order."""

_BLOCKING = PolicyPlan(alpha=1.0, slack="3600s")
"""An operation that holds its input back, in order, until the watermark tells that none is missing."""


class Mode(StrEnum):
    """Where items wait until their order is sure."""

    OPTIMISTIC = "optimistic"
    """Nowhere but at the barrier."""

    IOP = "in-order"
    """Before every operation (in-order processing, section IV.A)."""

    OOP = "blocked windows"
    """Before the operations with state alone (out-of-order processing, IV.B)."""


class Writer(threading.Thread):
    """Publishes pages as they are given, at a steady rate; every ``punctuation`` pages it promises what will not come any more.

    ``written``: by ts of a page, when (ns, monotonic) it was published.
    """

    def __init__(self, address: str, given: Sequence[Event], rate: float, punctuation: int) -> None:
        super().__init__(name="writer", daemon=True)
        self.written: dict[int, int] = {}
        self.behind = 0
        self.failure: str | None = None
        self._address, self._pages, self._rate, self._punctuation = address, given, rate, punctuation

    def run(self) -> None:
        try:
            self._publish()
        except NetworkError as error:
            self.failure = str(error)

    def _publish(self) -> None:
        with Publisher(self._address, name="writer", types=[Page]) as publisher:
            promised = promises(self._pages)
            start = time.monotonic_ns() + SECOND // 10
            for number, page in enumerate(self._pages):
                due = start + round(number * SECOND / self._rate)
                if (ahead := due - time.monotonic_ns()) > 0:
                    time.sleep(ahead / SECOND)
                self.behind = max(self.behind, -ahead)
                self.written[page.ts] = time.monotonic_ns()
                publisher.publish([page])
                if number % self._punctuation == self._punctuation - 1:
                    publisher.advance(Page, promised[number])
            publisher.advance(Page, END)
            publisher.flush(PATIENCE)


def promises(given: Sequence[Event]) -> list[int]:
    """For each event, in order of arrival: the time up to which nothing comes after it."""
    found, least = [], max((event.ts for event in given), default=0) + 1
    for event in reversed(given):
        found.append(least - 1)
        least = min(least, event.ts)
    return found[::-1]


def placed(workers: int, mode: Mode) -> Scenario:
    """The scenario on so many workers, without the updates by page, its policies as the mode has them."""
    partitioned = load_scenario("search").with_workers(workers)
    settings = {**partitioned.plan.settings, "updates": False}
    nodes = tuple(msgspec.structs.replace(node, detectors=_without_updates(node.detectors)) for node in partitioned.plan.nodes)
    changed = msgspec.structs.replace(partitioned.plan, settings=settings, nodes=nodes, results=("search.Posted",))
    without_updates = Scenario(changed, partitioned.file)
    blocking: Iterable[str] = ()
    if mode is Mode.IOP:
        blocking = without_updates.detectors
    elif mode is Mode.OOP:
        blocking = [name for name in without_updates.detectors if name.startswith("search.post")]
    policies = {**changed.policies_for, **dict.fromkeys(blocking, _BLOCKING)}
    return Scenario(msgspec.structs.replace(changed, policies_for=policies), partitioned.file)


def _without_updates(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if not name.startswith("search.gather"))
