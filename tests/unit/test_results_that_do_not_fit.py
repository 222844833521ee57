"""Results that their declared type does not take: they are quarantined while they stand, and cost no others."""

from __future__ import annotations

import sys
from enum import Enum, StrEnum
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import pytest
from slackline import Block, Delta, Detector, Event, EventTypes, Lateness, Policies, run

from detectors.cql import compile_cql
from detectors.flow import Flow
from detectors.sequence import SequenceQuery
from detectors.window import COUNT, MEAN, MEDIAN, Hopping, Session, Sliding, Windows
from middleware import native
from middleware.model.block.rows import reader_of
from middleware.model.operator import Operation, applied
from middleware.model.time import SECOND

PATIENT = Policies(alpha=0.0, lateness=Lateness(floor=100 * SECOND))


class Plain(Enum):
    """Of numbers, and not a number itself."""

    X = 1


class Color(StrEnum):
    RED = "red"


class Reading(Event):
    sensor: int
    celsius: float | None


class Heat(Event):
    sensor: int
    start: int
    end: int
    mean: float


class Order(Event):
    side: str
    count: int


class Sound(Event):
    side: Literal["buy", "sell"]
    count: Annotated[int, msgspec.Meta(ge=0)]


class Kept(Event):
    of: Plain


class Copied(Event):
    of: Plain


class Pair(Event):
    first: Plain
    last: Plain


class Copy(Detector):
    subscribes, publishes = (Kept,), (Copied,)

    def on_event(self, event: Kept) -> Copied:
        return Copied(event.of, ts=event.ts)


@pytest.mark.parametrize("emit", ["close", "final", "change"])
@pytest.mark.parametrize("kind", [Hopping(10 * SECOND, every=10 * SECOND), Session(3 * SECOND), Sliding(5 * SECOND)])
@pytest.mark.parametrize("aggregate", [MEAN, MEDIAN])
def test_a_window_without_a_value_costs_no_other_window(emit: Any, kind: Any, aggregate: Any) -> None:
    values = ((20.0, 1), (22.0, 12), (None, 25), (24.0, 36))
    events = [Reading(1, celsius, ts=at * SECOND, id=at, source="s") for celsius, at in values]
    windows = Windows(Reading, kind, {"mean": (aggregate, "celsius")}, key="sensor", result=Heat, emit=emit, name="Heats")
    for order in (events, events[::-1]):
        found = run(order, [windows], batch=1, failing="skip", policies=PATIENT)
        assert [each.mean for each in found.finals["Heats"]] == [20.0, 22.0, 24.0] and not found.halted
        (failure,) = found.failures["Heats"]
        assert "Heat does not take what was aggregated" in failure.traceback


def test_a_value_that_comes_late_mends_a_result() -> None:
    events = [Reading(1, celsius, ts=at, id=at, source="s") for celsius, at in ((None, 1), (4.0, 12), (2.0, 3), (6.0, 30))]
    windows = Windows(Reading, Hopping(10, every=10), {"mean": (MEAN, "celsius")}, key="sensor", result=Heat, name="Heats")
    found = run(events, [windows], batch=1)
    assert [each.mean for each in found.finals["Heats"]] == [2.0, 4.0, 6.0] and not found.failures


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO Sound SELECT side, count FROM Order",
        "INSERT INTO Sound SELECT side, COALESCE(max(count), 0) AS count FROM Order [SIZE 1 nanosecond] GROUP BY side",
    ],
)
@pytest.mark.parametrize("columns", [False, True])
def test_what_a_query_gives_is_held_against_all_that_a_type_says(query: str, columns: bool) -> None:
    given = [("buy", 1), ("sell", -1), ("other", 2), ("sell", 5)]
    events = [Order(side, count, ts=at, id=at, source="s") for at, (side, count) in enumerate(given, 1)]
    operators = compile_cql(query, [Order, Sound]).operators
    if columns:
        pyarrow = pytest.importorskip("pyarrow")
        from slackline import run as run_table

        ids = list(range(1, 5))
        sides, counts = zip(*given, strict=True)
        table = pyarrow.table({"side": sides, "count": counts, "ts": ids, "id": ids, "source": ["s"] * 4})
        found = run_table({Order: table}, operators, failing="skip")
    else:
        found = run(events, operators, failing="skip")
    (name,) = found.finals
    assert [(each.side, each.count) for each in found.finals[name]] == [("buy", 1), ("sell", 5)]
    assert len(found.failures[name]) == 2
    assert all("is not published: Sound: " in failure.traceback for failure in found.failures[name])


def test_members_of_an_enum_of_numbers_are_published() -> None:
    events = [Kept(Plain.X, ts=at, id=at, source="s") for at in range(1, 4)]
    sequence = SequenceQuery(
        "EVENT SEQ(Kept a, Kept b) WITHIN 1 nanosecond RETURN Pair(a.of AS first, b.of AS last)",
        EventTypes([Kept, Pair]),
        "Pairs",
    )
    windows = Windows(Kept, Hopping(10, every=10), {"n": COUNT}, key="of", name="Counts")
    flow = Flow("flow")
    flow.source(Kept).map(lambda kept: [kept.of], gives=Plain).stateful(lambda n, of: ((n or 0) + 1, [(of,)]), key=str).sink(
        Copied
    )
    assert [each.of for each in run(events, [Copy()]).finals["Copy"]] == [Plain.X] * 3
    assert [(each.first, each.last) for each in run(events, [sequence]).finals["Pairs"]] == [(Plain.X, Plain.X)] * 2
    assert [(each.of, each.n) for each in run(events, [windows]).finals["Counts"]] == [(Plain.X, 3)]
    for parts in (1, 2):
        found = run(events, flow.operators(parts)).finals.values()
        assert [each.of for some in found for each in some if isinstance(each, Copied)] == [Plain.X] * 3


class Ping(Event):
    color: str


class Pong(Event):
    color: Color


class Total(Event):
    color: str
    count: int


class Colored(NamedTuple):
    color: str


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_a_member_of_an_enum_of_texts_is_one_key_with_its_text(parts: int) -> None:
    flow = Flow("mixed")
    texts = flow.source(Ping).map(lambda event: [Colored(event.color)], gives=Colored)
    members = flow.source(Pong).map(lambda event: [Colored(event.color)], gives=Colored)
    both = texts.union(members)
    counted = both.stateful(lambda n, one: ((n or 0) + 1, [(str(one.color), (n or 0) + 1)]), key=lambda one: one.color)
    counted.sink(Total)
    events = [
        Ping("red", ts=1, id=1, source="p"),
        Pong(Color.RED, ts=2, id=1, source="q"),
        Ping("red", ts=3, id=2, source="p"),
    ]
    found = run(events, flow.operators(parts), batch=1).finals.values()
    assert sorted(each.count for some in found for each in some if isinstance(each, Total)) == [1, 2, 3]


class Tagged(Event):
    tags: frozenset[Any]


@pytest.mark.parametrize("emit", ["close", "change"])
def test_equal_sets_are_shown_alike_whichever_came_first(emit: Any) -> None:
    events = [Tagged(frozenset({tag}), ts=at, id=at, source="s") for at, tag in ((1, 1.0), (2, 1))]
    windows = Windows(Tagged, Hopping(10, every=10), {"n": COUNT}, key="tags", emit=emit, name="Counts")
    shown = [repr(run(order, [windows], batch=1).finals["Counts"]) for order in (events, events[::-1])]
    assert shown[0] == shown[1] and "frozenset({1})" in shown[0]


class Note(Event):
    key: int
    text: str


class Both(Event):
    one: str
    two: str


LARGE = {
    "a projection": "INSERT INTO Both SELECT text AS one, text AS two FROM Note",
    "a join": """INSERT INTO Both SELECT a.text AS one, b.text AS two FROM Note AS a [SIZE 1 second EVERY 1]
                 JOIN Note AS b [SIZE 1 second EVERY 1] ON a.key = b.key""",
    "a sequence": "EVENT SEQ(Note a, Note b) WHERE [key] WITHIN 10 s RETURN Both(a.text AS one, b.text AS two)",
    "windows": "INSERT INTO Both SELECT text AS one, text AS two FROM Note [SIZE 1 nanosecond] GROUP BY text",
}
"""Operators whose results hold texts of two events, or one text twice."""


@pytest.mark.parametrize("kind", LARGE)
@pytest.mark.parametrize("columns", [False, True])
def test_results_with_more_text_than_a_frame_holds_are_quarantined(kind: str, columns: bool) -> None:
    """Of texts that fit into a frame each, results may hold two. No node could send such a result, so none counts it."""
    large = "x" * (3 << 20)
    notes = [Note(1, text, ts=at, id=at, source="s") for at, text in enumerate(("a", large, "b", large), 1)]
    if kind == "a sequence":
        operators: list[Any] = [SequenceQuery(LARGE[kind], EventTypes([Note, Both]), "Pairs")]
    else:
        operators = list(compile_cql(LARGE[kind], [Note, Both]).operators)
    if columns:
        pyarrow = pytest.importorskip("pyarrow")
        from slackline import run as run_table

        stamps = {"ts": [1, 2, 3, 4], "id": [1, 2, 3, 4], "source": ["s"] * 4}
        table = pyarrow.table({"key": [1] * 4, "text": [each.text for each in notes], **stamps})
        found = run_table({Note: table}, operators, failing="skip")
    else:
        found = run(notes, operators, failing="skip")
    (finals,), (failures,) = found.finals.values(), found.failures.values()
    texts = [len(each.one) + len(each.two) for each in finals if isinstance(each, Both)]
    assert texts and len(texts) == len(finals) and max(texts) < 2**22
    assert failures and all("bytes, at most" in failure.traceback for failure in failures)


Wide = msgspec.defstruct("Wide", [(f"text{at}", str) for at in range(100)], bases=(Event,), frozen=True)


class Widening(Detector):
    subscribes, publishes = (Note,), (Wide,)

    def on_event(self, event: Note) -> Event:
        result: Event = Wide(*[event.text] * 100, ts=event.ts)
        return result


def test_many_texts_of_middling_size_are_counted_together() -> None:
    notes = [Note(1, text, ts=at, id=at, source="s") for at, text in enumerate(("a", "x" * 60_000, "b"), 1)]
    found = run(notes, [Widening()], failing="skip")
    assert [each.ts for each in found.finals["Widening"]] == [1, 3]
    assert "Wide takes 6,000," in found.failures["Widening"][0].traceback


def test_results_in_columns_are_counted_where_there_is_no_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of the core come without the extra ``tables``, and so do results made of them."""
    reader = reader_of(Both)
    assert reader is not None
    made = native.in_columns(reader, [Both("x", "y", ts=1, id=1, source="s")])
    assert made is not None
    results = Delta(Block.from_core(Both, made))

    class Giving(Operation):
        def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
            return results

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert applied(Giving(), Delta(), 1, 1) is results
