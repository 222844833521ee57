"""What properties of units draw: the policies by which they run. Events are drawn where their detectors are."""

from __future__ import annotations

from hypothesis import strategies as st

from middleware.ordering.lanes.retraction import Retraction
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import FixedSlack, Lateness, MaxSlack, QuantileSlack

SLACK = st.sampled_from([None, MaxSlack, lambda: FixedSlack(4), lambda: QuantileSlack(0.9, 16)])
FAILING = st.sampled_from(["skip", "skip", "stop"])


def policies(**instead: st.SearchStrategy[object]) -> st.SearchStrategy[Policies]:
    """Policies of all kinds, but for slack and what failures lead to: as by default. ``instead``: others, by field."""
    fields: dict[str, st.SearchStrategy[object]] = {
        "alpha": st.sampled_from([0.0, 0.3, 0.5, 1.0]),
        "lateness": st.sampled_from([Lateness(1, 0), Lateness(2, 0), Lateness(2, 20), Lateness(1, 1000)]),
        "retraction": st.sampled_from(list(Retraction)),
        "spacing": st.sampled_from([1, 2, 5, 24, 128]),
    }
    return st.builds(Policies, **(fields | instead))
