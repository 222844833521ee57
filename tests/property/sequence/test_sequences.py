"""The sequence operator against brute force: random queries, any history of the same events, the same results."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.sequence import SequenceQuery
from detectors.sequence.algorithm import Algorithm
from detectors.sequence.sequence_operator import SequenceOperation
from middleware.model.event import IDENTITY, Event
from middleware.model.operator import Origin
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from middleware.runtime.engine import run
from middleware.testing.operators import history, in_order, play
from tests.oracles.sequence_runs import plain_sequence
from tests.property.sequence.brute_force import Match, brute_force, match_ts
from tests.property.sequence.queries import TYPES, Drawn, events, query

seeds = st.integers(0, 2**32)


class Plain(SequenceQuery):
    """The same query, run by the oracle."""

    def start(self, name: str, level: int) -> SequenceOperation:
        return SequenceOperation(self.plan, Origin(name, level), plain_sequence)


def expected(drawn: Drawn, among: list[Event]) -> list[tuple]:
    """Time, identity and values of each result, by brute force."""
    return sorted(
        (match_ts(drawn.pattern, match), _identity(match), *_values(drawn, match))
        for match in brute_force(drawn.pattern, among)
    )


def _identity(match: Match) -> int:
    parts = [tuple((e.source, e.id) for e in part) if isinstance(part, tuple) else (part.source, part.id) for part in match]
    return Origin("Tested", 1).id(*parts)


def _values(drawn: Drawn, match: Match) -> list[int]:
    values = []
    for part in match:
        values += [len(part), sum(e.x for e in part)] if isinstance(part, tuple) else [part.x]
    return values


def found(results: list[Event]) -> list[tuple]:
    return sorted((event.ts, event.id, *(getattr(event, name) for name in event.__struct_fields__[:-4])) for event in results)


def check(drawn: Drawn, seed: int, restarts: set[int], **options: int) -> None:
    generator = Random(seed)
    there = events(seed, **options)
    split = generator.randrange(len(there) + 1)
    passing = [_renamed(event, 1000) for event in there[:split]] if generator.random() < 0.5 else []
    revised = []
    if generator.random() < 0.5 and there:
        chosen = there[: generator.randrange(len(there))]
        revised = [(_changed(event, generator), event) for event in chosen]
    kept = there[len(revised) :]
    moments = history(kept, generator, passing, revised, batch=generator.choice([1, 2, 8]))
    matches = expected(drawn, there)
    for operator in (SequenceQuery(drawn.text, TYPES), Plain(drawn.text, TYPES)):
        assert found(play(operator, in_order(there))) == matches, drawn.text
        assert found(play(operator, moments, restarts)) == matches, drawn.text


def _renamed(event: Event, by: int) -> Event:
    return type(event)(event.k, event.x, event.y, event.name, event.w, ts=event.ts, id=event.id + by, source=event.source)


def _changed(event: Event, generator: Random) -> Event:
    ts = max(0, event.ts + generator.randint(-4, 4))
    return type(event)(generator.randrange(2), generator.randrange(4), None, "ab", 1.0, ts=ts, id=event.id, source=event.source)


@given(seeds, seeds, st.sets(st.integers(0, 12)))
@settings(max_examples=200, deadline=None)
def test_any_history_comes_to_what_brute_force_finds(query_seed, seed, restarts):
    check(query(query_seed), seed, restarts)


@pytest.mark.parametrize("strategy", ["any", "next", "strict"])
@given(query_seed=seeds, seed=seeds)
@settings(max_examples=100, deadline=None)
def test_keyed(strategy, query_seed, seed):
    check(query(query_seed, (strategy,), keyed=True), seed, set(), most=20)


@given(seeds, seeds)
@settings(max_examples=100, deadline=None)
def test_many_events_without_kleene(query_seed, seed):
    check(query(query_seed, ("any",), kleene=False), seed, set(), most=30, span=60)


@given(seeds, seeds, st.integers(1, 9), st.sampled_from([0.0, 0.4, 1.0]), st.sampled_from([0, 5, 1000]))
@settings(max_examples=100, deadline=None)
def test_in_units_that_speculate(query_seed, seed, batch, alpha, floor):
    """Finals are those of brute force over all events but those listed as late."""
    drawn, there = query(query_seed), events(seed)
    policies = Policies(alpha=alpha, lateness=Lateness(1.0, floor))
    done = run(there, {"Tested": SequenceQuery(drawn.text, TYPES)}, policies=policies, batch=batch)
    late = done.late_identities()["Tested"]
    assert found(done.finals["Tested"]) == expected(drawn, [event for event in there if IDENTITY(event) not in late])


@pytest.mark.parametrize("algorithm", [Algorithm.SORT, Algorithm.CLOCK, Algorithm.PARTITION])
@given(query_seed=seeds, seed=seeds)
@settings(max_examples=80, deadline=None)
def test_every_algorithm_of_the_paper_finds_the_same(algorithm, query_seed, seed):
    drawn, there = query(query_seed, ("any",)), events(seed)
    operator = SequenceQuery(drawn.text, TYPES, algorithm=algorithm)
    moments = history(there, Random(seed), [], [], batch=Random(seed).choice([1, 8]))
    assert found(play(operator, moments, set())) == expected(drawn, there), drawn.text
    assert operator.work.filtered == 0 or algorithm is not Algorithm.PARTITION
