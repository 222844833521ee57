"""Identities seen, against a plain set; subscription patterns and the routing table."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware import native
from middleware.broker.ingress.seen import (
    SeenIds,
    runs_in,
    skipped,
)
from middleware.broker.routing import RoutingTable, check_pattern, fitted, is_subscribed, matches
from middleware.link.codec import Run
from middleware.model.block.block import Block
from middleware.model.errors import EventError
from middleware.model.event import Event
from tests.oracles import intervals

ids = st.integers(-20, 20)

KINDS = [intervals.Intervals, native.Intervals]
TAKERS = [intervals.take_new, native.take_new]
TAKERS_OF_IDS = [intervals.take_ids, native.take_ids]


def runs_in_columns(events: list[Event], most: int) -> list[Run] | None:
    return runs_in(Block.from_events(Event, events).batch, most) if events else []


FINDERS = [intervals.runs_of, runs_in_columns, native.runs_of]


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.one_of(ids, st.tuples(ids, st.integers(0, 6)))))
def test_intervals_are_a_set(kind: type[native.Intervals], steps: list[int | tuple[int, int]]) -> None:
    held, naive = kind(), set[int]()
    for step in steps:
        if isinstance(step, int):
            assert held.add(step) == (step not in naive)
            naive.add(step)
        else:
            first, last = step[0], step[0] + step[1]
            numbers = set(range(first, last + 1))
            assert held.overlaps(first, last) == bool(numbers & naive)
            is_new = not numbers & naive
            assert held.add_new_run(first, last) == is_new
            naive |= numbers if is_new else set()
        held.check()
    assert {number for number in range(-30, 40) if number in held} == naive
    starts, stops = held.bounds()
    assert {n for start, stop in zip(starts, stops, strict=True) for n in range(start, stop)} == naive
    assert len(held) == len(starts) and kind(starts, stops).bounds() == (starts, stops)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_may_be_the_least_and_the_largest(kind: type[native.Intervals]) -> None:
    held, least, most = kind(), -(2**63), 2**63 - 1
    assert [held.add(number) for number in (most, least, most, least)] == [True, True, False, False]
    assert held.add_new_run(least + 1, most - 1) and held.overlaps(most, most)
    assert held.bounds() == ([least], [2**63])
    assert kind(*held.bounds()).bounds() == ([least], [2**63])


events_of = st.builds(lambda source, number: Event(ts=1, source=source, id=number), st.sampled_from(["", *"abc"]), ids)


@pytest.mark.parametrize("leaves_out", [None, ""])
@given(st.lists(st.lists(events_of)))
def test_new_events_are_taken_as_the_oracle_takes_them(leaves_out: str | None, batches: list[list[Event]]) -> None:
    naive = set[tuple[str, int]]()
    held: list[dict[str, native.Intervals]] = [{} for _ in KINDS]
    for arrived in batches:
        expected = []
        for event in arrived:
            if event.source != leaves_out and (event.source, event.id) not in naive:
                naive.add((event.source, event.id))
                expected.append(event)
        for kind, take, sources in zip(KINDS, TAKERS, held, strict=True):
            new = take(arrived, lambda s, k=kind, known=sources: None if s == leaves_out else known.setdefault(s, k()))
            assert list(map(id, new)) == list(map(id, expected))
            assert (new is arrived) == (len(new) == len(arrived))
            assert len(skipped(arrived, new)) == len(arrived) - len(new)


def test_memory_grows_with_gaps_only() -> None:
    seen = SeenIds()
    for number in range(0, 10_000, 2):
        assert seen.add("a", number)
    assert seen.gaps() == 5_000
    for number in range(1, 10_000, 2):
        assert seen.add("a", number)
    assert seen.gaps() == 1


@given(st.lists(st.lists(st.tuples(st.sampled_from([0, 1, 2]), ids), max_size=40), max_size=6))
def test_ids_in_columns_are_taken_as_the_oracle_takes_them(batches: list[list[tuple[int, int]]]) -> None:
    naive = set[tuple[int, int]]()
    held = [[kind() for _ in range(3)] for kind in KINDS]
    for batch in batches:
        numbers = b"".join(number.to_bytes(8, "little", signed=True) for _, number in batch)
        codes = b"".join(code.to_bytes(4, "little") for code, _ in batch)
        expected = None
        if len(set(batch)) == len(batch):
            expected = bytes(identity not in naive for identity in batch)
            naive.update(batch)
        for take, sources in zip(TAKERS_OF_IDS, held, strict=True):
            assert take(numbers, codes, sources) == expected
    for sources in held:
        assert all((number in sources[code]) == ((code, number) in naive) for code in range(3) for number in range(-30, 31))


@pytest.mark.parametrize("find", FINDERS)
@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), ids), max_size=30))
def test_runs_stand_for_their_identities_and_are_taken_once(
    find: Callable[[list[Event], int], list[Run] | None], identities: list[tuple[str, int]]
) -> None:
    runs = find([Event(ts=1, source=source, id=number) for source, number in identities], 100)
    if len(set(identities)) < len(identities):
        assert runs is None
        return
    assert runs is not None
    assert sorted((s, n) for s, first, last in runs for n in range(first, last + 1)) == sorted(identities)
    seen = SeenIds()
    assert seen.add_runs(runs)
    assert all(identity in seen for identity in identities)
    assert seen.add_runs(runs) == (not identities)


@given(st.lists(st.tuples(st.sampled_from("abc"), ids, st.sampled_from(["add", "of", "runs", "state"])), max_size=60))
def test_a_state_stays_as_it_was_whatever_is_seen_later(steps: list[tuple[str, int, str]]) -> None:
    seen, naive = SeenIds(), set[tuple[str, int]]()
    states = []
    for source, number, kind in steps:
        if kind == "state":
            state = seen.state()
            states.append((state, deepcopy(state)))
            continue
        if kind == "add":
            is_new = seen.add(source, number)
        elif kind == "of":
            is_new = seen.of(source).add(number)
        else:
            is_new = seen.add_runs([(source, number, number)])
        assert is_new == ((source, number) not in naive)
        naive.add((source, number))
    assert all(state == then for state, then in states)
    again = SeenIds()
    again.restore(seen.state())
    assert {(source, number) for source in "abc" for number in range(-30, 31) if (source, number) in again} == naive


def test_unsound_runs_are_refused_whole() -> None:
    seen = SeenIds()
    assert not seen.add_runs([("a", 5, 4)])
    assert not seen.add_runs([("a", 1, 5), ("a", 5, 9)])
    assert seen.gaps() == 0
    apart: list[Event] = [Event(ts=1, source="a", id=n) for n in range(0, 100, 2)]
    assert [find(apart, 10) for find in FINDERS] == [None for _ in FINDERS]


@pytest.mark.parametrize("pattern", ["", "a*", "*a", "a.*.b", "**", "a.**"])
def test_patterns_that_mean_nothing_are_refused(pattern: str) -> None:
    with pytest.raises(EventError, match="is no subscription"):
        check_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "name", "covered"),
    [
        ("*", "a", True),
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", True),
        ("a.*", "a", False),
        ("a.*", "ab.c", False),
        ("a", "a", True),
    ],
)
def test_patterns(pattern: str, name: str, covered: bool) -> None:
    assert matches(check_pattern(pattern), name) is covered


def test_a_route_names_each_subscriber_once_and_follows_changes() -> None:
    table: RoutingTable[str] = RoutingTable()
    table.subscribe("one", ["soccer.Hit", "soccer.*", "*"])
    table.subscribe("two", ["soccer.Hit"])
    assert table.route("soccer.Hit") == ("one", "two")
    assert table.route("tennis.Hit") == ("one",)
    table.subscribe("one", [])
    assert table.route("soccer.Hit") == ("two",)
    assert table.route("tennis.Hit") == ()
    assert table.patterns() == {"soccer.Hit"}
    assert table.patterns(["one"]) == frozenset()


def test_a_flood_of_names_does_not_fill_the_memory() -> None:
    table: RoutingTable[str] = RoutingTable()
    table.subscribe("one", ["*"])
    for number in range(70_000):
        assert table.route(f"Type{number}") == ("one",)
        if number % 1_000 == 0:
            table.check()


names = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(".".join)
patterns = st.one_of(names, names.map(lambda name: f"{name}.*"), st.just("*"))


@given(st.frozensets(patterns, max_size=12), st.frozensets(names, max_size=12))
def test_a_set_of_patterns_covers_what_one_of_them_does(given: frozenset[str], types: frozenset[str]) -> None:
    for name in types:
        assert is_subscribed(given, name) == any(matches(pattern, name) for pattern in given)


@given(st.frozensets(patterns, max_size=12), st.frozensets(names, max_size=12), st.integers(1, 12), st.integers(1, 60))
def test_fitted_patterns_cover_all_that_was_asked_for(
    given: frozenset[str], types: frozenset[str], most: int, most_bytes: int
) -> None:
    few = fitted(given, most, most_bytes)
    assert len(few) <= most
    assert sum(map(len, few)) <= most_bytes
    assert all(is_subscribed(few, name) for name in types if is_subscribed(given, name))
    exact = fitted(given, 100, 10_000)
    assert all(is_subscribed(exact, name) == is_subscribed(given, name) for name in types)


@pytest.mark.parametrize("seed", range(20))
def test_parts_show_what_was_seen_as_a_checkpoint_began_whatever_comes_meanwhile(seed):
    rng, seen = Random(seed), SeenIds()
    sources = [f"s{number}" for number in range(30)]
    for _ in range(3):  # checkpoints; the second is dropped half way
        for _ in range(100):
            seen.add(rng.choice(sources[:20]), rng.randrange(50))
        then, found = seen.state(), {}
        seen.begin()
        while part := seen.part(rng.randrange(1, 4)):
            assert not found.keys() & part.keys()
            found |= part
            for _ in range(rng.randrange(5)):
                seen.add(rng.choice(sources), rng.randrange(50))
                seen.take_new([Event(ts=1, id=rng.randrange(50), source=rng.choice(sources))])
                seen.add_runs([(rng.choice(sources), 60, 61), (rng.choice(sources), 70, 72)])
            if rng.random() < 0.02:
                break
        else:
            assert found == then
    again = SeenIds()
    again.restore(seen.state())
    assert again.state() == seen.state()


def test_a_checkpoint_looks_at_few_sources_in_a_step(monkeypatch):
    looked = []

    class Counted(intervals.Intervals):
        def bounds(self):
            looked.append(self)
            return super().bounds()

    monkeypatch.setattr("middleware.broker.ingress.seen.Intervals", Counted)
    seen = SeenIds()
    for number in range(5_000):
        seen.add(f"s{number}", 1)
    seen.begin()
    assert not looked
    while part := seen.part(100):
        assert len(looked) <= len(part) <= 100
        looked.clear()
        seen.add("s4999", 5)
        seen.add("s4999", 7)
        assert len(looked) <= 1, "it is copied at its first change"
        looked.clear()
