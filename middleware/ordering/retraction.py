"""What a replay means for those who read the results: the difference, or everything (DEBS'13, section 4.3)."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import NamedTuple

from msgspec.structs import astuple, fields

from middleware.change import Delta
from middleware.event import Event, EventType, Int64, Timestamp
from middleware.state import exactly


class Retraction(StrEnum):
    """How results of disturbed events are corrected.

    ``ON_DEMAND``
        replay, compare with what was published, send the difference only; stop where the state is what it was (4.3.2).
    ``FULL``
        withdraw all results behind the disturbed event at once, then replay (4.3.1).
    ``AUTO``
        whichever of the two has cost less lately, here and downstream (``costs.RetractionChoice``).
    """

    ON_DEMAND = "on-demand"
    FULL = "full"
    AUTO = "auto"


class Published(NamedTuple):
    """What a detector derived from one event. ``failure`` is the traceback if it raised instead."""

    cause: Event
    events: list[Event]
    failure: str | None = None


def k_plus(results: list[Published], clk: int, k: int) -> list[int] | None:
    """K+ of each result: how much earlier its cause was emitted than after its full slack; None if none was early."""
    early = [max(0, cause.ts + k - clk) for cause, events, _ in results for _ in events]
    return early if any(early) else None


def inserted(results: list[Published], clk: int, k: int) -> Delta:
    """The change that publishes results for the first time."""
    return Delta([event for published in results for event in published.events], k_plus=k_plus(results, clk, k))


def withdrawn(results: list[Published]) -> Delta:
    """The change that takes results back."""
    return Delta(retracts=[event for published in results for event in published.events])


def difference(old: list[Published], new: list[Published], clk: int, k: int) -> Delta:
    """The change that turns one run's results into another's: nothing for a result that came out the same again."""
    before = {event.id: event for published in old for event in published.events}
    fresh: list[Published] = []
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
            elif not _same(was, event):
                delta.revises.append((was, event))
        if changed:
            fresh.append(Published(cause, changed, failure))
    delta.retracts += before.values()
    delta.inserts = [event for published in fresh for event in published.events]
    delta.k_plus = k_plus(fresh, clk, k)
    return delta


_SCALARS = (int, float, str, bool, bytes, Timestamp, Int64)


@cache
def _has_scalars_only(event_type: EventType) -> bool:
    return all(field.type in _SCALARS for field in fields(event_type))


def _same(was: Event, event: Event) -> bool:
    """Whether nobody could tell two contents apart. Scalars that are checked and ``==`` can differ in the sign of 0 only."""
    if was != event:
        return False
    return (_has_scalars_only(was.__class__) and 0.0 not in astuple(was)) or exactly(was, event)


def combined(deltas: list[Delta]) -> Delta:
    """Several changes with no identity in common as one."""
    if len(deltas) == 1:
        return deltas[0]
    whole = Delta()
    for delta in deltas:
        whole.inserts += delta.inserts
        whole.revises += delta.revises
        whole.retracts += delta.retracts
    if any(delta.k_plus for delta in deltas):
        whole.k_plus = [early for delta in deltas for early in delta.k_plus or [0] * len(delta.inserts)]
    return whole
