"""How far ahead a source may be, held against the plain rule."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.broker.ingress.sources import UNDECIDED, Source, SourcePolicy, Sources, agreed_wall
from middleware.model.event import MAX_TS, NEVER
from middleware.model.time import SECOND

IDLE, AHEAD = 100, 1_000
NAMES = ["a", "b", "c", "d"]
WHAT = ["attach", "leave", "reach", "hear"]


def by_the_rule(known: dict[tuple[str, str], Source], key: tuple[str, str], now: int) -> int:
    """No other active source: no limit. Else the most advanced other one, the time since, and AHEAD."""
    others = [
        source.newest + now - source.newest_at
        for other, source in known.items()
        if other != key and source.newest != NEVER and now - source.received_at < IDLE
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
    known: dict[tuple[str, str], Source] = {}
    for what, name, pause, newest in steps:
        key = ("publisher", name)
        now += pause
        sources.tick(None, now, [])
        if what == "attach" and key not in sources:
            sources.attach(key, now)
            known[key] = Source(now)
        elif key not in sources:
            continue
        elif what == "leave":
            sources.leave(key)
            del known[key]
        elif what == "reach":
            sources.received(key, now)
            sources.reached(key, newest, now)
            known[key].received_at = now
            if newest > known[key].newest:
                known[key].newest, known[key].newest_at = newest, now
        elif what == "hear":
            sources.received(key, now)
            known[key].received_at = now
        for each in known:
            assert sources.limit(each, now, by_clock=True) == by_the_rule(known, each, now)
            assert sources.limit(each, now, by_clock=False) == MAX_TS


@settings(deadline=None)
@given(steps)
def test_nobody_is_idle_while_it_is_said_that_all_are_astir(steps: list[tuple[str, str, int, int]]) -> None:
    sources, looked, now = Sources(SourcePolicy(IDLE, AHEAD), 0), Sources(SourcePolicy(IDLE, AHEAD), 0), 0
    clock: int | None = None
    for what, name, pause, newest in steps:
        key = ("publisher", name)
        now += pause
        held = [key] if newest % 7 == 0 else []
        idle = looked.tick(clock, now, held)
        if sources.is_astir(clock, now) and not held:
            assert idle == ([], False)
        else:
            assert sources.tick(clock, now, held) == idle
        for each in (sources, looked):
            if what == "attach":
                each.attach(key, now)
            elif what == "leave":
                each.leave(key)
            elif key in each:
                each.received(key, now)
        if what == "reach":
            clock = newest if clock is None else max(newest, clock)


def test_nobody_lies_beyond_the_wall_clock() -> None:
    sources = Sources(SourcePolicy(IDLE, AHEAD), 50)
    sources.wall_is(1_000_000, 50)
    sources.attach(("publisher", "a"), 50)
    assert sources.limit(("publisher", "a"), 70, by_clock=False) == 1_000_020 + AHEAD


@pytest.mark.parametrize(("idle", "ahead"), [(0, 1), (1, 0), (-5, 5)])
def test_a_policy_needs_times(idle: int, ahead: int) -> None:
    with pytest.raises(ValueError, match="times > 0"):
        SourcePolicy(idle, ahead)


HOURS = 3 * AHEAD


@pytest.mark.parametrize(
    ("others", "agreed"),
    [
        ([], 0),
        ([HOURS], 0),  # one against one: nobody knows, and a source with a wrong clock is the commoner fault
        ([HOURS, HOURS + AHEAD], HOURS),
        ([HOURS + AHEAD, HOURS, HOURS + 5], HOURS),
        ([HOURS, 3 * HOURS], 0),  # they do not agree
        ([HOURS, HOURS, 30 * HOURS], HOURS),  # most do
        ([HOURS, HOURS, HOURS, AHEAD], 0),  # one agrees with the node
        ([-HOURS, -HOURS], 0),  # a clock that is ahead turns nothing away
        ([AHEAD, AHEAD], 0),
    ],
)
def test_a_node_doubts_its_clock_only_where_it_is_alone(others: list[int], agreed: int) -> None:
    assert agreed_wall(0, others, AHEAD) == agreed


@given(st.lists(st.integers(-5 * AHEAD, 5 * AHEAD), max_size=8), st.integers(-(10**6), 10**6))
def test_the_clock_gone_by_is_one_that_somebody_has_and_no_single_liar_moves_it_far(others: list[int], shift: int) -> None:
    wall = agreed_wall(0, others, AHEAD)
    assert wall in (0, *others) and wall >= 0
    assert agreed_wall(shift, [each + shift for each in others], AHEAD) == wall + shift, "only differences count"
    honest = [0] * max(1, len(others))
    assert agreed_wall(0, [*honest, *others], AHEAD) == 0
    for liar in (-(10**9), 10**9):
        assert agreed_wall(0, [HOURS, HOURS, HOURS, liar], AHEAD) in (0, HOURS)


def test_the_clock_is_believed_again_when_it_is_set_or_another_agrees_not_when_others_leave() -> None:
    sources = Sources(SourcePolicy(IDLE, AHEAD), 0)
    sources.wall_is(10 * SECOND, 0)
    for name in "ab":
        sources.told_wall(name, 10 * SECOND + HOURS, 0)
    assert sources.behind == HOURS and sources.limit("a", 0, by_clock=False) == 10 * SECOND + HOURS + AHEAD
    sources.wall_is(20 * SECOND, 0)
    assert sources.behind == 0
    sources.wall_is(10 * SECOND, 0)
    assert sources.behind == HOURS
    sources.leave("b")
    assert sources.behind == HOURS, "what comes of the other one is in time"
    sources.told_wall("c", 10 * SECOND, 0)
    assert sources.behind == 0 and sources.limit("a", 0, by_clock=False) == 10 * SECOND + AHEAD


def test_a_node_that_has_begun_lately_waits_for_a_second_clock() -> None:
    sources = Sources(SourcePolicy(IDLE, AHEAD), 0)
    assert not sources.is_undecided(0), "nobody has said what time it is"
    sources.wall_is(10 * SECOND, 0)
    sources.told_wall("a", 10 * SECOND + HOURS, 0)
    assert sources.is_undecided(0) and not sources.is_undecided(UNDECIDED)
    sources.told_wall("b", 10 * SECOND, 0)
    assert not sources.is_undecided(0) and sources.behind == 0
    other = Sources(SourcePolicy(IDLE, AHEAD), 0)
    other.wall_is(10 * SECOND, 0)
    other.told_wall("a", 10 * SECOND, 0)
    assert not other.is_undecided(0), "one that agrees is enough"


def test_time_for_which_a_node_was_suspended_is_no_time_in_which_it_waited() -> None:
    """Seen by seed 1006294: suspended for 12 s, a node whose clock is wrong believed it, with one publisher there."""
    sources = Sources(SourcePolicy(IDLE, AHEAD), 0)
    sources.wall_is(10 * SECOND, 0)
    sources.told_wall("a", 10 * SECOND + HOURS, 0)
    sources.could_not_speak(12 * SECOND, away=12 * SECOND)
    assert sources.is_undecided(12 * SECOND) and not sources.is_undecided(12 * SECOND + UNDECIDED)


def test_what_a_former_life_knew_of_the_clock_holds_until_somebody_agrees_with_it() -> None:
    sources = Sources(SourcePolicy(IDLE, AHEAD), 0)
    sources.was_behind(HOURS)
    sources.wall_is(10 * SECOND, 0)
    sources.told_wall("a", 10 * SECOND + HOURS, 0)
    assert sources.behind == HOURS and not sources.is_undecided(0), "one more that says so is one more"
    sources.told_wall("b", 10 * SECOND, 0)
    assert sources.behind == 0


@pytest.mark.parametrize(("before", "limit"), [(NEVER, 5 + AHEAD), (3 * AHEAD, 4 * AHEAD)])
def test_an_old_event_that_comes_first_after_a_restart_does_not_make_others_run_ahead(before: int, limit: int) -> None:
    sources = Sources(SourcePolicy(IDLE, AHEAD), 0)
    sources.reached_before = before
    for name in "ab":
        sources.attach(name, 0)
    sources.reached("a", 5, 0)
    assert sources.limit("b", 0, by_clock=True) == limit
