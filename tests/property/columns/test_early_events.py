"""A unit that reads early results of another learns the same delays from columns, and from the time above which they are early,
as from rows with a list."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.event import Event
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness, MaxSlack, QuantileSlack, SlackPolicy
from middleware.ordering.slack.robust import RobustSlack

from .applications import Doubling, Reading

SLACKS: dict[str, Callable[[], SlackPolicy]] = {"robust": RobustSlack, "most": MaxSlack, "quantile": QuantileSlack}

STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(1, 60), st.sampled_from([0, 1])), min_size=1, max_size=12),
        st.none() | st.integers(-5, 70),  # the time above which they are early
        st.none() | st.integers(0, 70),  # the clock mark
        st.booleans(),
    ),
    max_size=8,
)


def readings(times: list[tuple[int, int]], start: int) -> list[Event]:
    return [Reading(n % 3, n, ts=ts, id=start + n, source="ab"[n % 2], level=level) for n, (ts, level) in enumerate(times)]


@pytest.mark.parametrize("kind", SLACKS)
@given(STEPS, st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_delays_of_early_events(kind: str, steps: list[tuple], alpha: float, floor: int) -> None:  # type: ignore[type-arg]
    policies = Policies(alpha=alpha, lateness=Lateness(1.0, floor), slack=SLACKS[kind])
    units = {form: unit_for("Doubling", Doubling(), 2, policies) for form in ("rows", "listed", "since")}
    number = 0
    for times, since, mark, more in steps:
        events = readings(times, number)
        number += len(events)
        early = None if since is None or max(times)[0] <= since else [max(0, event.ts - since) for event in events]
        forms = {
            "rows": Delta(list(events), early=early),
            "listed": Delta(Block.from_events(Reading, events), early=early),
            "since": Delta(Block.from_events(Reading, events), early=since),
        }
        found = {}
        for form, delta in forms.items():
            unit = units[form]
            results = [event for out in unit.push(delta, mark, more=more) for event in out.inserts]
            unit.check()
            statistics = unit.statistics()
            late = sorted(each.event.id for each in unit.late)
            found[form] = (sorted(map(repr, results)), statistics.clk, statistics.k, statistics.final, unit.lateness, late)
        assert found["since"] == found["listed"] == found["rows"]


@pytest.mark.parametrize("k_plus", [-(2**63), 2**63, 2**64])
def test_a_k_plus_that_no_node_would_send_is_taken(k_plus: int) -> None:
    events = readings([(7, 1), (9, 1)], 0)
    for new in (events, Block.from_events(Reading, events)):
        unit = unit_for("Doubling", Doubling(), 2, Policies(alpha=0.0))
        unit.push(Delta(new, early=[k_plus, 0]), 9)
        assert unit.statistics().clk == 9
