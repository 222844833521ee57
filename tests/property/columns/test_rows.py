"""Events made in the core from columns, and results stamped there, are those that Python makes."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from middleware import native
from middleware.model.block.block import Block
from middleware.model.block.rows import PlainRows, rows_of
from middleware.model.detector import Detector, key_function
from middleware.model.event import END, Event
from middleware.model.identity import Derivation
from middleware.ordering.lanes import lanes
from middleware.ordering.lanes.lane import Settings


class Plain(Event):
    number: int
    part: float
    name: str
    is_on: bool


class Gaps(Event):
    number: int | None
    part: float | None
    name: str | None


class Bounded(Event):
    number: Annotated[int, msgspec.Meta(ge=0)]
    names: list[str]


INT64, TIMES = st.integers(-(2**63), 2**63 - 1), st.integers(-(2**62) + 1, 2**62 - 1)
STAMP = {"ts": TIMES, "id": INT64, "source": st.sampled_from(["", "a", "bé"]), "level": st.integers(0, 2)}
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
KINDS = {
    Plain: st.builds(Plain, INT64, st.floats(allow_nan=False), NAMES, st.booleans(), **STAMP),
    Gaps: st.builds(Gaps, st.none() | INT64, st.none() | st.floats(allow_nan=False), st.none() | NAMES, **STAMP),
    Bounded: st.builds(Bounded, st.integers(0, 9), st.lists(NAMES, max_size=2), **STAMP),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), has_levels=st.booleans())
def test_events_of_columns(kind: Any, data: st.DataObject, has_levels: bool) -> None:
    events = data.draw(st.lists(KINDS[kind], max_size=20))
    if not has_levels:
        events = [msgspec.structs.replace(event, level=0, source="a") for event in events]
    columns = Block(kind, Block.from_events(kind, events).batch)
    start, stop = sorted(data.draw(st.tuples(st.integers(0, 25), st.integers(0, 25))))
    made = rows_of(kind, columns.batch).events(start, stop)
    assert made == events[start:stop] == PlainRows(kind, columns.batch).events(start, stop)
    assert list(map(repr, made)) == list(map(repr, events[start:stop]))


def test_a_piece_of_a_table_with_one_source() -> None:
    table = pa.table({"number": [1, 2, 3], "part": [1, 2, 3], "name": ["a", "b", "a"], "is_on": [True] * 3, "ts": [4, 5, 6]})
    columns = Block.of(Plain, table.append_column("id", [[0, 1, 2]]), source="x").slice(1, 3)
    assert columns.events() == PlainRows(Plain, columns.batch).events(0, 9)
    assert [event.part.__class__ for event in columns.events()] == [float, float]


class Answer(Event):
    part: float
    name: str | None = None


class Asked(Event):
    number: int
    name: str


ANSWERS = {
    "one": lambda event: Answer(1.5, "x", ts=event.ts + 1),
    "none": lambda event: None,
    "many": lambda event: [Answer(0.5, ts=event.ts), Answer(1.0, "y", ts=event.ts - 2), Asked(3, "", ts=event.ts)],
    "nothing": lambda event: [],
    "tuple": lambda event: (Answer(0.5, ts=event.ts),) * 2,
    "generator": lambda event: (Answer(0.5, ts=event.ts + at) for at in range(3)),
    "whole": lambda event: Answer(2, ts=event.ts),
    "numpy": lambda event: Answer(np.float64(2.5), np.str_("z"), ts=np.int64(event.ts)),  # type: ignore[arg-type]
    "text": lambda event: Answer("x", ts=event.ts),  # type: ignore[arg-type]
    "early": lambda event: Answer(1.0, ts=event.ts - 3),
    "mixed": lambda event: [Answer(1.0, ts=event.ts), 7],
    "undeclared": lambda event: event,
    "number": lambda event: 7,
    "never": lambda event: Answer(1.0, ts=2**62),
    "surrogate": lambda event: Answer(1.0, "\ud800", ts=event.ts),
}


class Answering(Detector):
    subscribes, publishes, backdate = (Asked,), (Answer, Asked), 2

    def on_event(self, event: Asked) -> Any:
        found = ANSWERS[event.name](event)
        return None if found is event and event.level else found


class ByNumber(Answering):
    key = "number"


class ByNames(Answering):
    key = staticmethod(lambda event: (event.number % 2, event.source))  # type: ignore[assignment]


class Timed(ByNumber):
    identity, publishes = "time", (Answer,)


ASKED = st.builds(
    Asked, st.integers(-1, 2), st.sampled_from(list(ANSWERS)), ts=st.integers(-9, 9), id=INT64, source=STAMP["source"]
)


@pytest.mark.parametrize("kind", [Answering, ByNumber, ByNames, Timed])
@given(ASKED)
def test_results_are_stamped_as_the_derivation_says(kind: type[Detector], event: Asked) -> None:
    detector = kind()
    made = lanes.lanes_for("A", detector, 1, Settings(keeps_history=False))
    assert isinstance(made, native.KeyedLanes)
    deltas = made.emit_final([[event]], [], 0, 0)
    failures = made.purge(END)
    expected = derived(detector, event)
    if isinstance(expected, str):
        assert expected in str(failures[0].failure)
        assert not deltas
    else:
        assert [(repr(each), type(each.id)) for delta in deltas for each in delta.inserts] == expected
        assert not failures


def derived(detector: Detector, event: Event) -> list[tuple[str, type]] | str:
    """What a detector gives for an event, stamped in Python, or what is raised."""
    try:
        key, result = key_function(detector), detector.on_event(event)
        found = Derivation("A", detector, 1, key(event) if key else None)(event, result) if result is not None else []
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return [(repr(each), type(each.id)) for each in found]
