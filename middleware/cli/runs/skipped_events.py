"""Events that a run skipped because they came too late or too far ahead, and whether the recording itself has them so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from shutil import copyfile, rmtree
from typing import TYPE_CHECKING

import msgspec

from middleware.broker.ingress.receipts import LOST
from middleware.model.event import IDENTITY, NEVER, Event, Identity
from middleware.model.quantities import format_duration, spoken_duration, two_digits_up
from middleware.runtime.storage.late_ledger import FILE, LedgerEntry, Query, read_ledger

if TYPE_CHECKING:
    from middleware.broker.effects import BrokerStatistics
    from middleware.runtime.cluster import Cluster
    from middleware.runtime.scenario import Scenario

_TYPES_SHOWN = 5


class SkippedEvents(msgspec.Struct, frozen=True):
    """Events that one detector of a node skipped (``detector`` "": all of them), for one reason.

    ``types``
        how many of each type.
    ``worst``
        by how much (ns) the latest came too late, or the furthest was too far ahead.
    ``recorded``
        how many of them the recording itself has later than the detector's allowed lateness.
    ``needed``
        an allowed lateness (ns) that takes those which the recording itself has so late; 0 if there are none.
    ``ledger``
        where all of them are reported.
    """

    node: str
    detector: str
    reason: str
    count: int
    types: dict[str, int]
    worst: int
    recorded: int
    needed: int
    ledger: str

    def text(self) -> str:
        """It all in one sentence."""
        types = ", ".join(f"{count:,} {name}" for name, count in Counter(self.types).most_common(_TYPES_SHOWN))
        rest = f" and {len(self.types) - _TYPES_SHOWN} more types" if len(self.types) > _TYPES_SHOWN else ""
        who = f"{self.detector} on node {self.node} did without" if self.detector else f"node {self.node} rejected"
        how = "too far ahead, at most by" if self.reason == "ahead" else "too late, at most by"
        same = (
            "the recording itself has " + ("all" if self.recorded == self.count else f"{self.recorded:,}") + " of them so late"
        )
        same += f' (lateness = "{format_duration(self.needed)}" takes these)' if self.recorded else ""
        return f"{who} {self.count:,} events that came {how} {spoken_duration(self.worst)}: {types}{rest}; {same}"


def copy_ledgers(cluster: Cluster, folder: Path) -> dict[str, Path]:
    """The late ledgers of the nodes in which there is anything, copied to ``folder`` (instead of those of the run before), as
    the cluster's own go with it.
    """
    rmtree(folder, ignore_errors=True)
    found = {}
    for name in cluster.addresses:
        state = cluster.state(name)
        if (state / FILE).exists() and any(_entries(state)):
            (folder / name).mkdir(parents=True)
            for file in state.glob(f"{FILE.partition('.')[0]}.*"):  # with what SQLite keeps beside it, and what waits
                copyfile(file, folder / name / file.name)
            found[name] = folder / name
    return found


def skipped_events(plan: Scenario, ledgers: Mapping[str, Path], recorded: Mapping[Identity, int]) -> list[SkippedEvents]:
    """The entries in ledgers of a run, by node, detector and reason. ``recorded``: the lateness of events in the recording."""
    policies = plan.policies()
    found = []
    for node, ledger in ledgers.items():
        groups: dict[tuple[str, str], list[LedgerEntry]] = {}
        for entry in _entries(ledger):
            groups.setdefault((entry.detector, entry.reason), []).append(entry)
        for (detector, reason), entries in groups.items():
            least = (policies.get(detector) or policies[""]).lateness.floor
            behind = [recorded.get((entry.source, entry.id), NEVER) for entry in entries] if reason == "late" else []
            so_late = [by for by in behind if by > least]
            needed = two_digits_up(max(so_late, default=-1) + 1)
            types = dict(Counter(entry.type for entry in entries))
            worst = max(entry.lateness for entry in entries)
            found.append(SkippedEvents(node, detector, reason, len(entries), types, worst, len(so_late), needed, str(ledger)))
    return sorted(found, key=lambda one: -one.count)


def lost(broker: BrokerStatistics) -> dict[str, int]:
    """Events that a broker dropped, by reason, without listing them."""
    return {reason: count for reason, count in broker.drops.items() if reason in LOST}


def lateness(arrived: Iterable[Event]) -> dict[Identity, int]:
    """How far (ns) each event that arrived behind a later one was behind the newest before it. O(events)."""
    newest, behind = NEVER, {}
    for event in arrived:
        if event.ts < newest:
            behind[IDENTITY(event)] = newest - event.ts
        else:
            newest = event.ts
    return behind


def _entries(ledger: Path) -> Iterator[LedgerEntry]:
    return (entry for entry in read_ledger(ledger, Query()) if entry.reason in ("late", "ahead"))
