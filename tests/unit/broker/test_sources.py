"""How far ahead a source may be, held against the plain rule."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.broker.ingress.sources import LEAD, UNDECIDED, PublisherState, SourcePolicy, Sources, agreed_wall
from middleware.model.event import END, MAX_TS, NEVER
from middleware.model.time import SECOND

IDLE, AHEAD = 100, 1_000
NAMES = ["a", "b", "c", "d"]
WHAT = ["attach", "leave", "reach", "hear"]
Key = tuple[str, str]


def by_the_rule(known: dict[Key, PublisherState], key: Key, now: int) -> int:
    """Without a wall clock, with no other active source: no limit. Else IDLE beyond the most advanced one, itself included."""
    others = [
        source.newest + now - source.newest_at
        for other, source in known.items()
        if other != key and source.newest != NEVER and now - source.received_at < IDLE
    ]
    return max(*others, known[key].newest) + IDLE if others else MAX_TS


steps = st.lists(
    st.tuples(st.sampled_from(WHAT), st.sampled_from(NAMES), st.integers(0, 60), st.integers(0, 5_000)),
    max_size=60,
)


@settings(deadline=None)
@given(steps)
def test_the_limit_of_a_recording_is_that_of_the_plain_rule_at_every_moment(steps: list[tuple[str, str, int, int]]) -> None:
    sources, now = Sources(SourcePolicy(IDLE, AHEAD), 0), 0
    known: dict[Key, PublisherState] = {}
    for what, name, pause, newest in steps:
        key = ("publisher", name)
        now += pause
        sources.tick(None, now, [])
        if what == "attach" and key not in sources:
            sources.attach(key, now)
            known[key] = PublisherState(now)
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
            limit = by_the_rule(known, each, now)
            assert sources.limit(each, 9_999, 9_999, now, by_clock=True) == limit
            assert sources.limit(each, 9_999, 9_999, now, by_clock=False) == MAX_TS
            if limit != MAX_TS:  # nothing waits, so nobody agrees
                assert sources.is_borne_out(each, limit, now, by_clock=True)
                most = max(source.newest for other, source in known.items() if other != each)
                assert not sources.is_borne_out(each, max(limit, most) + 1, now, by_clock=True)


@settings(deadline=None)
@given(steps)
def test_nobody_is_idle_where_all_are_declared_active(steps: list[tuple[str, str, int, int]]) -> None:
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


A, B, C = (("publisher", name) for name in "abc")


def at_the_wall(*keys: Key) -> Sources:
    """Sources whose wall clock shows WALL, and that have been there for long."""
    sources = Sources(SourcePolicy(IDLE * SECOND, AHEAD * SECOND), 0)
    sources.wall_is(WALL, 2 * IDLE * SECOND)
    for key in keys:
        sources.attach(key, 2 * IDLE * SECOND)
    return sources


WALL = 10**6 * SECOND
THEN = 2 * IDLE * SECOND


def limit(sources: Sources, key: Key, ts: int, now: int = THEN) -> int:
    return sources.limit(key, ts, ts, now, by_clock=True)


def test_live_events_are_taken_whoever_replays_what() -> None:
    sources = at_the_wall(A, B)
    sources.reached(B, WALL - 3 * AHEAD * SECOND, THEN)
    for ts in (WALL - AHEAD * SECOND, WALL, WALL + LEAD):
        assert limit(sources, A, ts) == WALL + LEAD and sources.is_borne_out(A, ts, THEN, by_clock=True)
    older = WALL - AHEAD * SECOND - 1
    assert limit(sources, A, older) < older and not sources.is_borne_out(A, older, THEN, by_clock=True)


def test_who_is_alone_is_believed_unless_something_of_the_present_came_lately() -> None:
    sources, early = at_the_wall(A), WALL + 10 * SECOND
    assert limit(sources, A, early) == WALL + AHEAD * SECOND
    assert sources.limit(A, WALL, early, THEN, by_clock=False) == WALL + LEAD, "it contradicts itself"
    sources.reached(A, WALL, THEN)
    assert limit(sources, A, early) == WALL + LEAD
    later = THEN + IDLE * SECOND
    assert limit(sources, A, early + IDLE * SECOND, later) == WALL + (IDLE + AHEAD) * SECOND
    assert not sources.is_borne_out(A, early + IDLE * SECOND, later, by_clock=False), "silence bears out nothing"


def test_a_clock_mark_of_another_node_is_what_another_says() -> None:
    sources, early = at_the_wall(A), WALL + 10 * SECOND
    sources.claims(("node", "b"), WALL, THEN)
    assert limit(sources, A, early) == WALL + LEAD
    sources.claims(("node", "b"), early, THEN)
    assert limit(sources, A, early) == early + LEAD and sources.is_borne_out(A, early, THEN, by_clock=False)


def test_two_that_say_the_same_bear_each_other_out_and_one_that_says_something_else_does_not() -> None:
    sources, early = at_the_wall(A, B, C), WALL + 500 * SECOND
    sources.reached(C, WALL, THEN)
    sources.withholds(A, early, THEN)
    assert not sources.is_borne_out(A, early, THEN, by_clock=True)
    assert not sources.is_borne_out(B, early - 200 * SECOND, THEN, by_clock=True)
    sources.withholds(B, early + SECOND, THEN)
    assert sources.is_borne_out(A, early, THEN, by_clock=True)


def test_a_promise_counts_up_to_what_has_come_and_an_end_counts() -> None:
    sources = at_the_wall(A)
    assert sources.counted(WALL - 7, THEN) == WALL - 7, "that of a recording counts in full"
    assert sources.counted(WALL + LEAD, THEN) == WALL + LEAD, "and one that is live"
    assert sources.counted(WALL + HOURS * SECOND, THEN) == WALL - IDLE * SECOND, "what others have sent is a moment old"
    assert sources.counted(WALL + HOURS * SECOND, THEN + 5) == WALL + 5 - IDLE * SECOND
    sources.reached(A, WALL + SECOND, THEN)
    assert sources.counted(WALL + HOURS * SECOND, THEN) == WALL + SECOND
    assert sources.counted(END, THEN) == END


@pytest.mark.parametrize(("idle", "ahead"), [(0, 1), (1, 0), (-5, 5)])
def test_a_policy_needs_times(idle: int, ahead: int) -> None:
    with pytest.raises(ValueError, match="is a duration above 0"):
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
def test_the_clock_of_a_node_is_in_doubt_only_where_it_is_alone(others: list[int], agreed: int) -> None:
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
        sources.wall_announced(name, 10 * SECOND + HOURS, 0)
    assert sources.behind == HOURS and sources.most(0) == 10 * SECOND + HOURS + AHEAD
    sources.wall_is(20 * SECOND, 0)
    assert sources.behind == 0
    sources.wall_is(10 * SECOND, 0)
    assert sources.behind == HOURS
    sources.leave("b")
    assert sources.behind == HOURS, "what comes of the other one is in time"
    sources.wall_announced("c", 10 * SECOND, 0)
    assert sources.behind == 0 and sources.most(0) == 10 * SECOND + AHEAD


def test_a_node_that_has_begun_lately_waits_for_a_second_clock() -> None:
    sources = Sources(SourcePolicy(IDLE, AHEAD), 0)
    assert not sources.clock_in_doubt(0), "nobody has announced the time"
    sources.wall_is(10 * SECOND, 0)
    sources.wall_announced("a", 10 * SECOND + HOURS, 0)
    assert sources.clock_in_doubt(0) and not sources.clock_in_doubt(UNDECIDED)
    sources.wall_announced("b", 10 * SECOND, 0)
    assert not sources.clock_in_doubt(0) and sources.behind == 0
    other = Sources(SourcePolicy(IDLE, AHEAD), 0)
    other.wall_is(10 * SECOND, 0)
    other.wall_announced("a", 10 * SECOND, 0)
    assert not other.clock_in_doubt(0), "one that agrees is enough"


def test_a_clock_stays_in_doubt_until_each_node_of_the_configuration_has_announced_its_own() -> None:
    """World 20261520273: cut off from the other node for longer than UNDECIDED, a node whose clock is wrong believed it."""
    nodes = [("node", "b"), ("node", "c")]
    sources = Sources(SourcePolicy(IDLE, AHEAD), 0, nodes)
    sources.wall_is(10 * SECOND, 0)
    sources.wall_announced(A, 10 * SECOND + HOURS, 0)
    assert sources.clock_in_doubt(UNDECIDED), "both other nodes are away"
    sources.leave(A)
    sources.wall_announced(nodes[0], 10 * SECOND + HOURS, 0)
    sources.leave(nodes[0])
    assert sources.clock_in_doubt(UNDECIDED) and sources.behind == 0, "one node has left its clock, the other is away"
    sources.wall_announced(A, 10 * SECOND + HOURS, 0)
    assert sources.behind == HOURS, "the node that left still counts"


def test_a_publisher_that_comes_back_under_another_name_does_not_count_twice() -> None:
    sources = Sources(SourcePolicy(IDLE, AHEAD), 0)
    sources.wall_is(10 * SECOND, 0)
    sources.wall_announced(A, 10 * SECOND + HOURS, 0)
    sources.leave(A)
    sources.wall_announced(B, 10 * SECOND + HOURS, 0)
    assert sources.behind == 0


def test_time_for_which_a_node_was_suspended_is_no_time_in_which_it_waited() -> None:
    """Seen by seed 1006294: suspended for 12 s, a node whose clock is wrong believed it, with one publisher there."""
    sources = Sources(SourcePolicy(IDLE, AHEAD), 0)
    sources.wall_is(10 * SECOND, 0)
    sources.wall_announced("a", 10 * SECOND + HOURS, 0)
    sources.could_not_speak(12 * SECOND, away=12 * SECOND)
    assert sources.clock_in_doubt(12 * SECOND) and not sources.clock_in_doubt(12 * SECOND + UNDECIDED)


def test_what_a_former_life_knew_of_the_clock_holds_until_somebody_agrees_with_it() -> None:
    sources = Sources(SourcePolicy(IDLE, AHEAD), 0)
    sources.was_behind(HOURS)
    sources.wall_is(10 * SECOND, 0)
    sources.wall_announced("a", 10 * SECOND + HOURS, 0)
    assert sources.behind == HOURS and not sources.clock_in_doubt(0), "one more that says so is one more"
    sources.wall_announced("b", 10 * SECOND, 0)
    assert sources.behind == 0


@pytest.mark.parametrize(("before", "limit"), [(NEVER, 5 + IDLE), (3 * AHEAD, 3 * AHEAD + IDLE)])
def test_an_old_event_that_comes_first_after_a_restart_does_not_make_others_run_ahead(before: int, limit: int) -> None:
    sources = Sources(SourcePolicy(IDLE, AHEAD), 0)
    sources.reached_before = before
    for key in (A, B):
        sources.attach(key, 0)
    sources.reached(A, 5, 0)
    assert sources.limit(B, 7 * AHEAD, 7 * AHEAD, 0, by_clock=True) == limit


def test_the_leader_may_resume_from_where_the_second_has_come_by_now() -> None:
    sources = Sources(SourcePolicy(IDLE, AHEAD), 0)
    for key, newest in ((A, 1_000), (B, 990)):
        sources.attach(key, 0)
        sources.reached(key, newest, 0)
    assert sources.limit(A, 9_999, 9_999, 50, by_clock=True) == 990 + 50 + IDLE
