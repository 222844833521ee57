"""Policies that mean nothing are refused where they are written, not by the first event."""

from __future__ import annotations

from typing import Any

import pytest
from slackline import Lateness, Policies

from middleware.ordering.lanes.retraction import Retraction
from middleware.ordering.slack.kslack import FixedSlack, MaxSlack


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"alpha": float("nan")}, "alpha must be a number from 0"),
        ({"slack": MaxSlack()}, "a class or a function"),
        ({"lateness": "5s"}, r"lateness must be a Lateness\(...\), not '5s'"),
        ({"alpha": "plain"}, 'or "buffering", not .plain.'),
        ({"alpha": "buffering"}, 'set failing = "stop"'),
        ({"retraction": "none"}, "one of on-demand, full, auto"),
        ({"spacing": 2.5}, "whole number of events"),
    ],
)
def test_what_means_nothing_is_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Policies(**given)


def test_nanoseconds_are_whole_numbers() -> None:
    """As a float, a watermark of today would be up to 128 ns off."""
    for made in (lambda: Lateness(floor=5e9), lambda: FixedSlack(1e9)):  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="a whole number"):
            made()
    with pytest.raises(ValueError, match="factor >= 1"):
        Lateness(factor=float("inf"))


def test_retraction_may_be_a_text() -> None:
    assert Policies(retraction="full").retraction is Retraction.FULL  # type: ignore[arg-type]
