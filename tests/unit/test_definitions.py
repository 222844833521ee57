"""What operators are made of, as text: by it a node tells whether stored state is of the same operator."""

from __future__ import annotations

from detectors.cql import compile_cql
from detectors.flow import Flow
from detectors.sequence.sequence_operator import SequenceQuery
from detectors.window import COUNT, MAX, SUM, Hopping, Session, Tumbling, Windows
from middleware.model.event import Event


class Tick(Event):
    sensor: int
    value: float


def windows(over=Tumbling(10), key="sensor", emit="close", **values):  # noqa: B008
    return Windows(Tick, over, values or {"n": COUNT}, key=key, emit=emit).definition


def test_windows_differ_in_kind_size_key_emission_and_values() -> None:
    made = [
        windows(),
        windows(Tumbling(8)),
        windows(Hopping(10, 5)),
        windows(Session(10)),
        windows(key=()),
        windows(emit="final"),
        windows(n=(MAX, "value")),
        windows(n=(SUM, "value")),
        windows(n=(SUM, "sensor")),
        windows(m=COUNT),
    ]
    assert len(set(made)) == len(made)
    assert windows() == made[0]
    code = [windows(n=(SUM, lambda event: event.value)) for _ in range(2)]
    assert code[0] == code[1], "addresses are no part of it"


def test_sequences_differ_by_their_text() -> None:
    texts = [f"EVENT SEQ(Tick a, Tick b) WITHIN {seconds} s RETURN Pair(a.value AS x)" for seconds in (2, 5)]
    assert len({SequenceQuery(text, [Tick]).definition for text in texts}) == 2


def cql(query: str, before: str = "") -> str:
    script = compile_cql(f"CREATE STREAM Tick (sensor Int, value Double); {before} {query} INTO Result;")
    return next(each.definition for each in script.operators if each.name.startswith("Result"))


def pair(name: str, size: int) -> str:
    return f"Tick [SIZE {size} seconds EVERY 1] AS {name}"


def test_cql_differs_by_what_a_query_means_not_by_what_stands_beside_it() -> None:
    queries = [
        "SELECT value FROM Tick WHERE value > 3",
        "SELECT value FROM Tick WHERE value > 4",
        "SELECT value FROM Tick WHERE sensor IN (1, 2)",
        "SELECT value FROM Tick WHERE sensor IN (1, 3)",
        "SELECT sum(value) AS s FROM Tick [SIZE 10 seconds EVERY 10 seconds]",
        "SELECT sum(value) AS s FROM Tick [SIZE 20 seconds EVERY 10 seconds]",
        "SELECT avg(value) AS s FROM Tick [SIZE 20 seconds EVERY 10 seconds]",
        *(f"SELECT a.value AS x FROM {pair('a', size)} JOIN {pair('b', 5)} ON a.sensor = b.sensor" for size in (5, 6)),
    ]
    made = [cql(query) for query in queries]
    assert len(set(made)) == len(made)
    assert [cql(query, "SELECT sensor FROM Tick WHERE value > 7 INTO Other;") for query in queries] == made


def test_flows_differ_by_their_operations() -> None:
    def flow(size: int) -> list[str]:
        made = Flow("f")
        made.source(Tick).group(lambda tick: tick.sensor, window=size).map(len, gives=int).sink(Count, lambda n: (n,))
        return [each.definition for each in made.operators().values()]

    assert flow(2) == flow(2) != flow(3)


class Count(Event):
    n: int
