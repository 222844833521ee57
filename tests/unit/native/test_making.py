"""What the native core makes itself is what ``msgspec.convert`` makes; whatever it cannot make so is left to Python."""

from dataclasses import replace
from typing import Annotated, Any, Literal, Optional

import msgspec
import pytest

from detectors.outcomes import unchecked
from detectors.sequence.sequence_operator import SequenceOperation, SequenceQuery
from detectors.window.aggregation.monoids import COUNT
from detectors.window.kinds import Tumbling
from detectors.window.windows import Windows
from middleware.model.block.recipe import recipe
from middleware.model.change import Delta
from middleware.model.event import END, Event, Int64, Timestamp
from middleware.model.operator import Origin
from tests.oracles.sequence_runs import plain_sequence


class Start(Event):
    tag: int
    value: Any = None


class Stop(Event):
    tag: int


class Whole(Event):
    tag: int
    value: int | None


class Real(Event):
    tag: int
    value: float


class Text(Event):
    tag: int
    value: str


class Truth(Event):
    tag: int
    value: bool


class Anything(Event):
    tag: int
    value: Any


class Checked(Event):
    tag: int
    value: Annotated[int, msgspec.Meta(gt=3)]


RESULTS = (Whole, Real, Text, Truth, Anything, Checked)
VALUES = (None, 0, 3, 2**62, 2**63, -(2**70), True, 1.0, float("nan"), "x", b"y", [1], (1, 2), {"a": 1}, object)


def event_type(annotation, **options):
    return msgspec.defstruct("Made", [("value", annotation)], bases=(Event,), frozen=True, **options)


@pytest.mark.parametrize(
    ("annotation", "takes"),
    [
        (int, ("int", False)),
        (int | None, ("int", True)),
        (Optional[float], ("float", True)),  # noqa: UP045
        (str, ("str", False)),
        (bool, ("bool", False)),
        (Any, ("any", False)),
        (Int64, ("long", False)),
        (Timestamp | None, ("time", True)),
    ],
)
def test_plain_fields_are_made(annotation, takes):
    made = recipe(event_type(annotation))
    assert made is not None
    assert made[1][0] == ("value", *takes)


@pytest.mark.parametrize(
    "annotation", [list[int], tuple[int], Literal["x"], Annotated[int, msgspec.Meta(gt=3)], int | float, type[int], Event, None]
)
def test_other_fields_are_left_to_msgspec(annotation):
    assert recipe(event_type(annotation)) is None


def test_types_that_do_more_than_hold_values_are_left_to_msgspec():
    assert recipe(event_type(int, tag="m")) is None
    assert recipe(event_type(int, gc=True)) is None
    assert recipe(event_type(int, namespace={"__post_init__": lambda self: None})) is None


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result.__name__)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_of_the_wrong_type_fails_as_it_does_in_python(result, value):
    text = "EVENT SEQ(Start a, Stop b) WHERE [tag] WITHIN 1 s RETURN Anything(a.tag AS tag, a.value AS value)"
    plan = replace(SequenceQuery(text, [Start, Stop, Anything]).plan, result=result)
    events = [Start(1, value, ts=5, id=1, source="s"), Start(1, 7, ts=6, id=2, source="s"), Stop(1, ts=9, id=3, source="s")]
    outcomes = []
    for studied in (None, plain_sequence):
        operation = SequenceOperation(plan, Origin("Q", 1), studied)
        out = operation.apply(Delta(events), END, END)
        failures = sorted((event.id, text) for event, text in operation.failures.values())
        outcomes.append(([repr(event) for event in sorted(out.inserts, key=lambda event: event.id)], failures))
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0][0]) + len(outcomes[0][1]) == 2


def test_what_is_made_compares_hashes_encodes_and_dies_as_any_event():
    query = SequenceQuery(
        "EVENT SEQ(Start a, Stop b) WHERE [tag] WITHIN 1 s RETURN Whole(a.tag AS tag, 4 AS value)", [Start, Stop, Whole]
    )
    events = [Start(1, ts=5, id=1, source="s"), Stop(1, ts=9, id=3, source="s")]
    (made,) = query.start("Q", 1).apply(Delta(events), END, END).inserts
    equal = unchecked(Whole, msgspec.structs.astuple(made))
    assert (made, hash(made), msgspec.msgpack.encode(made)) == (equal, hash(equal), msgspec.msgpack.encode(equal))
    assert made == Whole(1, 4, ts=9, id=made.id, source="Q", level=1)


def test_one_field_is_read_from_more_types_than_are_remembered():
    """Each type has the key at another place, or none but a property."""
    types = [
        msgspec.defstruct(f"T{number}", [*((f"f{n}", int) for n in range(number)), ("tag", int)], bases=(Event,), frozen=True)
        for number in range(20)
    ]
    windows = Windows(tuple(types), Tumbling(10), {"count": COUNT}, key="tag")
    events = [kind(*range(100, 100 + n), n, ts=n % 9 + 1, id=n, source="s") for n, kind in enumerate(types) for _ in range(2)]
    results = windows.start("W", 1).apply(Delta(events), END, END).inserts
    assert sorted((each.tag, each.count) for each in results) == [(n, 2) for n in range(20)]
