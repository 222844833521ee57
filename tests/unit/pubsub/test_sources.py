"""How far ahead a source may be, held against the plain rule."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.event import MAX_TS, NEVER
from middleware.pubsub.sources import SourcePolicy, Sources

IDLE, AHEAD = 100, 1_000
NAMES = ["a", "b", "c", "d"]
WHAT = ["attach", "leave", "reach", "hear"]


def by_the_rule(sources: Sources, key: tuple[str, str], now: int) -> int:
    """No other active source: no limit. Else the most advanced other one, the time since, and AHEAD."""
    others = [
        source.newest + now - source.newest_at
        for other, source in sources._known.items()
        if other != key and source.newest != NEVER and now - source.heard_at < IDLE
    ]
    return min(max(others) + AHEAD, MAX_TS) if others else MAX_TS


steps = st.lists(
    st.tuples(st.sampled_from(WHAT), st.sampled_from(NAMES), st.integers(0, 60), st.integers(0, 5_000)),
    max_size=60,
)


@settings(deadline=None)
@given(steps)
def test_the_limit_is_that_of_the_plain_rule_at_every_moment(steps: list[tuple[str, str, int, int]]) -> None:
    sources, now = Sources(SourcePolicy(IDLE, AHEAD), 0), 0
    for what, name, pause, newest in steps:
        key = ("publisher", name)
        now += pause
        sources.tick(None, now, [])
        if what == "attach" and key not in sources:
            sources.attach(key, now)  # type: ignore[arg-type]
        elif key not in sources:
            continue
        elif what == "leave":
            sources.leave(key)  # type: ignore[arg-type]
        elif what == "reach":
            sources.heard(key, now)  # type: ignore[arg-type]
            sources.reached(key, newest, now)  # type: ignore[arg-type]
        elif what == "hear":
            sources.heard(key, now)  # type: ignore[arg-type]
        for each in list(sources._known):
            assert sources.limit(each, now, by_clock=True) == by_the_rule(sources, each, now)  # type: ignore[arg-type]
            assert sources.limit(each, now, by_clock=False) == MAX_TS


def test_nobody_lies_beyond_the_wall_clock() -> None:
    sources = Sources(SourcePolicy(IDLE, AHEAD), 50)
    sources.wall_is(1_000_000, 50)
    sources.attach(("publisher", "a"), 50)
    assert sources.limit(("publisher", "a"), 70, by_clock=False) == 1_000_020 + AHEAD


@pytest.mark.parametrize(("idle", "ahead"), [(0, 1), (1, 0), (-5, 5)])
def test_a_policy_needs_times(idle: int, ahead: int) -> None:
    with pytest.raises(ValueError, match="times > 0"):
        SourcePolicy(idle, ahead)
