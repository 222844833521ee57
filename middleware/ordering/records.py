"""Records of a unit: the events that came too late for it, and its statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from middleware.model.event import IDENTITY, Event
from middleware.model.quantities import format_duration, two_digits_up
from middleware.model.words import listed
from middleware.ordering.lanes.retraction import EventResults


class Late(msgspec.Struct, frozen=True):
    """An entry of the late ledger: an event beyond the allowed lateness, and the unit's clk, K and ``final`` (ns) before it
    arrived."""

    event: Event
    change: str
    clk: int
    k: int
    final: int


class LateSummary(NamedTuple):
    """The number of events that detectors listed as late, how late they came, and an allowed lateness that takes them all.

    ``counts``
        the number of listed events by detector.
    ``worst``
        the time (ns) between the latest of them and the watermark that it missed.
    ``lateness``
        an allowed lateness (ns) with which none of them is late, rounded up to two digits.
    """

    events: int
    counts: dict[str, int]
    worst: int
    lateness: int

    @classmethod
    def of(cls, ledgers: Mapping[str, Sequence[Late]]) -> LateSummary | None:
        """The summary of ledgers by detector; None if nothing is late. O(entries)."""
        entries = [entry for ledger in ledgers.values() for entry in ledger]
        if not entries:
            return None
        # An event that is the allowed lateness behind clk is late already, hence one more. If more events are taken, clk moves
        # no less than it did, so that this much is enough, whatever K was.
        behind = max(entry.clk - entry.event.ts for entry in entries) + 1
        return cls(
            len({IDENTITY(entry.event) for entry in entries}),
            {name: len(ledger) for name, ledger in ledgers.items() if ledger},
            max(entry.final - entry.event.ts for entry in entries),
            two_digits_up(behind),
        )

    def __str__(self) -> str:
        what = "1 event came too late and is" if self.events == 1 else f"{self.events:,} events came too late and are"
        most = "by" if self.events == 1 else "at most by"
        most_first = sorted(self.counts.items(), key=lambda item: -item[1])
        counts = listed((f"{name} {count:,}" for name, count in most_first), 3)
        return f"{what} skipped, {most} {format_duration(self.worst)} ({counts})"


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
