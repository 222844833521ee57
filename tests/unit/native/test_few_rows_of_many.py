"""Where few rows of a block are held, the others do not live as long as they do."""

from __future__ import annotations

import gc
import random

import pyarrow as pa
import pytest

from detectors.cql.cql_script import compile_cql
from detectors.sequence.sequence_operator import SequenceQuery
from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.event import NEVER, Event
from middleware.model.operator import Operator


class Offer(Event):
    lot: int
    price: float | None
    name: str


class Sale(Event):
    lot: int
    price: float | None
    name: str


TYPES = [Offer, Sale]
LONG = "[SIZE 1000000 nanoseconds EVERY 1 WHERE lot > 0]"
JOIN = f"SELECT a.price AS price, b.name AS name, b.ts AS at FROM Offer AS a {LONG} JOIN Sale AS b {LONG} ON"
WITHIN = "WITHIN 1000000 ns RETURN a.price AS price, b.name AS name, a.ts AS since"
OPERATORS = {
    "a join": lambda: compile_cql(f"{JOIN} a.lot = b.lot INTO Hits", TYPES).operators[-1],
    "a join by text, with a condition": lambda: compile_cql(
        f"{JOIN} a.name = b.name AND a.price < b.price INTO Hits", TYPES
    ).operators[-1],
    "a sequence": lambda: SequenceQuery(f"EVENT SEQ(Offer a, Sale b) WHERE a.lot > 0 AND b.lot > 2 {WITHIN}", TYPES, "Q"),
    "a sequence without, of an event in two roles": lambda: SequenceQuery(
        f"EVENT SEQ(Offer a, !(Sale c), Sale b) WHERE a.lot > 0 AND b.lot > 0 AND c.lot = 2 {WITHIN}", TYPES, "Q"
    ),
}
ROWS, STEPS = 300, 16


def steps(seed: int) -> list[list[Event]]:
    """Many events, few of which have a lot."""
    rng, made = random.Random(seed), []
    for step in range(STEPS):
        chosen = set(rng.sample(range(ROWS), rng.choice([0, 1, 3, 20])))
        kind = rng.choice(TYPES)
        values = [(rng.randrange(1, 4), rng.choice([None, 0.5, 1.5, 2.5]), rng.choice("ab")) for _ in range(ROWS)]
        made.append(
            [
                kind(*(value if at in chosen else (0, *value[1:])), ts=step * ROWS + at, id=step * ROWS + at, source=value[2])
                for at, value in enumerate(values)
            ]
        )
    return made


def results(operator: Operator, seed: int, as_columns: bool) -> tuple[list[str], int]:
    """What an operation gives, with some of what came withdrawn; and how much of Arrow's memory it holds then."""
    operation, rng, found = operator.start("T", 1), random.Random(seed), set[str]()
    gc.collect()
    before = pa.total_allocated_bytes()
    for events in steps(seed):
        given = Delta(Block(type(events[0]), Block.from_events(type(events[0]), events).batch))
        gone = rng.sample([event for event in events if event.lot], 1) if any(event.lot for event in events) else []  # type: ignore[attr-defined]
        for delta in (given if as_columns else Delta(events), Delta(retracts=gone)):
            out = operation.apply(delta, events[-1].ts, NEVER)
            assert not out.revises
            found.update(map(repr, out.inserts))
            found.difference_update(map(repr, out.retracts))
    del given, delta, out
    gc.collect()
    assert operation.held > 0
    return sorted(found), pa.total_allocated_bytes() - before


@pytest.mark.parametrize("name", OPERATORS)
def test_they_mean_the_same_and_the_others_are_gone(name: str) -> None:
    expected, _ = results(OPERATORS[name](), 1, False)
    found, held = results(OPERATORS[name](), 1, True)
    assert found == expected
    assert found
    one = Block.from_events(Offer, [Offer(1, 0.5, "a", ts=at, id=at, source="a") for at in range(ROWS)]).batch.nbytes
    assert held < 5 * one, f"of {STEPS} blocks"
