"""Much that came at once, in runs: so few events are still in the processor's caches when the detector has run them."""

from __future__ import annotations

from collections.abc import Iterator, Sized

from middleware.model.change import Delta
from middleware.model.event import Event

RUN = 1_024
"""The most events in a run."""

MANY_LANES = 64
"""With so many lanes, an event that is late because of where a run ends has few others run again."""


def is_much(delta: Delta, alpha: float, lanes: Sized) -> bool:
    """Whether raw events are to be taken in runs: where a unit speculates, that must not have many others run again."""
    return delta.inserted >= 2 * RUN and delta.k_plus is None and (alpha == 1 or len(lanes) >= MANY_LANES)


def runs_of(delta: Delta) -> Iterator[tuple[Delta, bool]]:
    """Changes in runs, in order, each made when it is asked for; what is not new goes first. Second: whether it is the last."""
    runs = delta.columns.runs(RUN) if delta.columns is not None else _runs(delta.inserts)
    revises, retracts, left = delta.revises, delta.retracts, delta.inserted
    for events in runs:
        left -= len(events)
        yield Delta(events, revises, retracts), not left
        revises, retracts = [], []


def _runs(events: list[Event]) -> Iterator[list[Event]]:
    return (events[start : start + RUN] for start in range(0, len(events), RUN))
