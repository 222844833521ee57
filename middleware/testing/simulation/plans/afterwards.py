"""The time after the end of a simulated world: publishers offer types that have ended, and faults occur again."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from middleware.model.event import END, IDENTITY, Identity
from middleware.model.time import MILLISECOND
from middleware.ordering.records import Late
from middleware.ordering.unit import Unit
from middleware.testing.simulation.applications import Probe, Reading, a_stream
from middleware.testing.simulation.source_changes import Claim, earliest_time, with_changes
from middleware.testing.simulation.world_sources import SourcePlan

_NAMES = "xyz"


class Afterwards(msgspec.Struct):
    """The publishers that come once all streams have ended everywhere, and the incidents of that time.

    ``is_foreseen``: all offer their types before anyone sends."""

    sources: list[SourcePlan]
    incidents: list[Any]
    is_foreseen: bool = False


def afterwards(
    rng: random.Random, nodes: Sequence[str], before: Sequence[SourcePlan], incidents: list[Any], is_foreseen: bool
) -> Afterwards:
    """Publishers whose events are newer than all earlier ones, with few exceptions."""
    newest = max((each.event.ts for source in before for each in source.says), default=0)
    sources = []
    for name in _NAMES[: rng.choice([1, 1, 2, 3])]:
        kinds: list[type[Reading] | type[Probe]] = rng.choice([[Reading], [Probe], [Reading, Probe]])
        base = newest + rng.choice([-5, 1, 30, 300, 300])
        arrived = [replace(event, ts=max(0, event.ts + base)) for event in a_stream(rng, kinds, name)[:60]]
        says = with_changes(rng, arrived, rng.choice([0, 0.2]), rng.choice([0, 3]))
        source = SourcePlan(
            name=name,
            node=rng.choice(list(nodes)),
            kinds=[*kinds],
            says=says,
            promises=rng.random() < 0.5,
            leaves=False,
            offers=rng.random() < 0.6 or is_foreseen,
            start=rng.choice([0, 0, 0, 20, 100, 500, 1_500]) * MILLISECOND,
        )
        if rng.random() < 0.2:
            source.dies, source.away = rng.randint(1, len(says)), rng.choice([0, 50]) * MILLISECOND
        sources.append(source)
    return Afterwards(sources, incidents, is_foreseen)


def refused_in_time(
    rejected: Collection[Claim], before: Sequence[SourcePlan], later: Afterwards, final: int, margin: int
) -> list[Claim]:
    """The events of a source that came alone afterwards that were rejected, though newer by a ``margin`` than all that was
    sent before, and than what was ``final``: each event in all its versions."""
    newest = _newest(before, final) + margin
    lows: dict[Identity, int] = {}
    for each in (each for source in _alone(later) for each in source.says):
        lows[IDENTITY(each.event)] = min(earliest_time(each), lows.get(IDENTITY(each.event), END))
    return [each for each in rejected if lows.get((each[1], each[2]), newest) > newest]


def late_in_time(
    late: Iterable[tuple[Unit, Late]], before: Sequence[SourcePlan], later: Afterwards, final: int, margin: int
) -> list[Late]:
    """The events of such a source that units have listed as late, though the clock was not far enough for that."""
    newest, names = _newest(before, final) + margin, {source.name for source in _alone(later)}
    found = [(unit.policies.lateness.floor, each) for unit, each in late if each.event.source in names]
    return [each for floor, each in found if each.event.ts > newest and each.final > each.clk - floor]


def _alone(later: Afterwards) -> list[SourcePlan]:
    """The source that comes, if it is the only one, stays, and offers its types: else events of one source may be final
    before another source, or another type, comes."""
    return [
        each for each in later.sources if len(later.sources) == 1 and not each.dies and (each.offers or len(each.kinds) == 1)
    ]


def _newest(before: Sequence[SourcePlan], final: int) -> int:
    return max([final, *(each.event.ts for source in before for each in source.says)])
