"""Records of a unit: the events that came too late for it, and its statistics."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from middleware.model.event import Event
from middleware.ordering.lanes.retraction import EventResults


class Late(msgspec.Struct, frozen=True):
    """An entry of the late ledger: an event beyond the allowed lateness, and the unit's clk, K and ``final`` then (ns)."""

    event: Event
    change: str
    clk: int
    k: int
    final: int


class LedgerEntries(NamedTuple):
    """Entries of a unit for the ledger: ``late`` events; ``failed`` ones, at which its detector raised or that it skipped."""

    unit: str
    late: list[Late]
    failed: list[EventResults]


class UnitStatistics(msgspec.Struct, frozen=True):
    """The statistics of a unit. ``executed`` counts detector calls, so ``executed - emitted`` were replays.

    ``waiting``, ``held``: events in its buffers now: not emitted yet; emitted, and kept because they may still be disturbed.
    ``halted``: why it publishes nothing more, if it has halted.
    """

    detector: str
    alpha: float
    k: int
    clk: int
    final: int
    received: int
    emitted: int
    executed: int
    waiting: int
    held: int
    late: int
    duplicates: int
    unknown: int
    rollbacks: int
    early_stops: int
    snapshots: int
    failures: int
    keys: int
    spacing: int
    retraction: str
    switches: int
    spent: float
    corrections: float
    inserted: int
    revised: int
    retracted: int
    halted: str | None = None
