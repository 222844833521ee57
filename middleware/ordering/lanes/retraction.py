"""The changes that readers get after a replay: the difference, or everything (DEBS'13, section 4.3)."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from middleware.model.change import Delta
from middleware.model.event import Event
from middleware.model.values.state import same_event

SKIPPED = "skipped: its detector had stopped at an earlier event"
"""The failure of an event that came after its detector had stopped."""


class Retraction(StrEnum):
    """How results of disturbed events are corrected.

    ``ON_DEMAND``
        replay, compare with what was published, send only the difference; stop where the state is as it was before (4.3.2).
    ``FULL``
        withdraw all results behind the disturbed event at once, then replay (4.3.1).
    ``AUTO``
        whichever of the two has cost less lately, here and downstream (``costs.RetractionChoice``).
    """

    ON_DEMAND = "on-demand"
    FULL = "full"
    AUTO = "auto"


class EventResults(NamedTuple):
    """The results that a detector derived from one event. ``failure`` is the traceback if it raised instead."""

    cause: Event
    events: list[Event]
    failure: str | None = None


def left_out(event: Event) -> EventResults:
    """The record of an event that came after its detector had stopped, so that no reader takes it for used."""
    return EventResults(event, [], SKIPPED)


def k_plus(results: list[EventResults], clk: int, k: int) -> list[int] | None:
    """K+ of each result: how much earlier its cause was emitted than with full slack; None if none was early."""
    early = [max(0, cause.ts + k - clk) for cause, events, _ in results for _ in events]
    return early if any(early) else None


def inserted(results: list[EventResults], clk: int, k: int) -> Delta:
    """The change that publishes results for the first time."""
    return Delta([event for published in results for event in published.events], early=k_plus(results, clk, k))


def withdrawn(results: list[EventResults]) -> Delta:
    """The change that retracts results."""
    return Delta(retracts=[event for published in results for event in published.events])


def difference(old: list[EventResults], new: list[EventResults], clk: int, k: int) -> Delta:
    """The change that turns one run's results into another's; results that came out the same are not in it."""
    before = {event.id: event for published in old for event in published.events}
    fresh: list[EventResults] = []
    delta = Delta()
    for cause, events, failure in new:
        changed = []
        for event in events:
            was = before.pop(event.id, None)
            if was is None:
                changed.append(event)
            elif was.__class__ is not event.__class__:
                delta.retracts.append(was)
                changed.append(event)
            elif not same_event(was, event):
                delta.revises.append((was, event))
        if changed:
            fresh.append(EventResults(cause, changed, failure))
    delta.retracts += before.values()
    delta.new = [event for published in fresh for event in published.events]
    delta.early = k_plus(fresh, clk, k)
    return delta
