"""The findings of a run: detections by type, early and final, and the latest ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from middleware.cli.output import table
from middleware.cli.runs.live import fields_of
from middleware.model.event import Event, type_name
from middleware.model.quantities import spoken_time

if TYPE_CHECKING:
    from rich.console import RenderableType

    from middleware.runtime.clients.collector import Collector

_ROWS = 24
"""Types that a table has; the JSON has all."""

_LATEST = 10
"""Detections that are shown by themselves."""


class DetectionLatency(msgspec.Struct):
    """Milliseconds from the replayed moment of an event to the delivery of the content that stayed."""

    mean: float
    p99: float
    count: int


class Detections(msgspec.Struct):
    """Detections of one type: how many were published ``early``, ``revised`` and ``withdrawn``, and how many are ``final``.

    ``first``, ``last``
        times of the first and the last final one (ns); None if there is none.
    """

    early: int = 0
    revised: int = 0
    withdrawn: int = 0
    final: int = 0
    first: int | None = None
    last: int | None = None

    @property
    def corrected(self) -> int:
        """Publications that were revised or withdrawn."""
        return self.revised + self.withdrawn


def found_by_type(collector: Collector, derived: Sequence[str]) -> dict[str, Detections]:
    """The number of results per derived type, including types with none. O(finals)."""
    found = {name: Detections() for name in derived}
    for name, changes in collector.changes.items():
        each = found.setdefault(name, Detections())
        each.early, each.revised, each.withdrawn = (changes[kind] for kind in ("inserted", "revised", "retracted"))
    for event in collector.finals:  # in total order
        each = found.setdefault(type_name(event.__class__), Detections())
        each.final += 1
        each.first, each.last = event.ts if each.first is None else each.first, event.ts
    return found


def latest(finals: Sequence[Event], results: Sequence[str]) -> list[Event]:
    """The last few final detections of these types, the newest last."""
    chosen = frozenset(results)
    newest = (event for event in reversed(finals) if type_name(event.__class__) in chosen)
    return [event for event, _ in zip(newest, range(_LATEST), strict=False)][::-1]


def pictured(
    mode: str,
    found: Mapping[str, Detections],
    results: Sequence[str],
    latencies: Mapping[str, Mapping[str, DetectionLatency]],
    newest: Sequence[tuple[str, str, str]],
) -> Iterator[RenderableType]:
    """The findings of a run, for people: the ``results`` by type, with their latencies by mode, then the ``newest`` lines."""
    shown = [name for name in results if name in found] or list(found)
    chosen = sorted(sorted(shown, key=lambda name: -found[name].final)[:_ROWS])
    rows = [_row(name, found[name], [each.get(name) for each in latencies.values()]) for name in chosen]
    timed = [f"{each} (ms)" for each in latencies]
    drawn = table(["detection", "final", "early", "revised", "withdrawn", *timed, "last at"], rows, names=1, kept=2)
    drawn.title = f"what was found ({mode})"
    notes = ["ms: how long after its time a detection that stayed was there, mean / p99"] * any(latencies.values())
    if others := {name for name in found.keys() - set(chosen) if found[name].final or found[name].early}:
        count = sum(found[name].final for name in others)
        notes.append(f"and {count:,} of {len(others)} other types, on which these rest or that are rarer (all: --json FILE)")
    drawn.caption = "\n".join(notes) or None
    yield drawn
    if newest:
        yield table(["at", "latest", "what"], newest, names=3)


def _row(name: str, found: Detections, latencies: Sequence[DetectionLatency | None]) -> list[str]:
    timed = [f"{each.mean:,.0f} / {each.p99:,.0f}" if each is not None else "" for each in latencies]
    last = spoken_time(found.last) if found.last is not None else ""
    return [name, *(f"{n:,}" for n in (found.final, found.early, found.revised, found.withdrawn)), *timed, last]


def lines(events: Sequence[Event]) -> list[tuple[str, str, str]]:
    """Detections as they are shown: when, type, and what their fields say."""
    return [(spoken_time(event.ts), type_name(event.__class__), fields_of(event)) for event in events]
