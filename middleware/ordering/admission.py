"""Admission: events that arrive move the clock of a unit; those that come too late enter no result."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, cast

from middleware.model.block.mixed_block import AnyBlock
from middleware.model.change import Delta
from middleware.model.event import Event
from middleware.ordering.slack.measuring import Less, less_k_plus, measure, survey
from middleware.ordering.timeline import Timeline

if TYPE_CHECKING:
    from middleware.model.block.arrays import Array


Admitted = tuple["list[Event] | AnyBlock", list[Event], bool]
"""The events in time, in their order of arrival; the late events, at or before ``final``, which enter no result; and whether
each event in time is later than all before it."""


def admit(timeline: Timeline, delta: Delta, arrived: list[Event] | AnyBlock, mark: int | None, more: bool) -> Admitted:
    """Measure the delays of new events, move the clock, and separate late events from the others. O(n).

    ``arrived``: all that is new in ``delta``, at least one event. ``mark``, ``more``: see ``Unit.push``.
    """
    clock, final, top = timeline.clock, timeline.final, timeline.newest
    policy = clock.policy
    seen = survey(arrived, top, clock.clk, policy.only_earliest)
    timeline.newest = seen.newest
    less = less_k_plus(delta, arrived) if delta.is_early else None
    late: list[Event] = []
    kept = arrived
    if seen.earliest <= final:
        late, kept, kept_less = _split_off_late(arrived, less, final)
        if not policy.counts_late:  # the delay of an event that is in no result says nothing of the slack
            clock.miss(late, cast(list[Event], arrived))
            arrived, less, seen = kept, kept_less, survey(kept, top, clock.clk, policy.only_earliest)
    measure(clock, timeline.ticking, arrived, seen, less, mark, more, top)
    return kept, late, not seen.delayed


def _split_off_late(
    arrived: list[Event] | AnyBlock, less: Less | None, final: int
) -> tuple[list[Event], list[Event] | AnyBlock, Less | None]:
    """The late events; the others, and their times less K+. O(n)."""
    if isinstance(arrived, list):
        in_time = [event.ts > final for event in arrived]
        late = [event for event in arrived if event.ts <= final]
        return late, list(compress(arrived, in_time)), None if less is None else list(compress(cast(list[int], less), in_time))
    good = arrived.times > final
    return list(arrived.filter(~good).events()), arrived.filter(good), None if less is None else cast("Array", less)[good]
