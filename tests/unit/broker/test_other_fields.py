"""Values are sent without names: blocks whose type has other fields where they were made, or in another order, are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Annotated, Any, Literal, cast

import msgspec
import pytest

from middleware.broker.ingress.checks import Ingress
from middleware.connect.messages.message_blocks import Blocks, frames
from middleware.link.codec import OTHER_FIELDS, BlockHead, EventCodec, encode
from middleware.link.encoding import encode_delta
from middleware.link.gathering import Gathering
from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.event import Event, EventType, EventTypes
from middleware.model.schema import can_read, form_of, form_of_fields


def place(*fields: str) -> EventType:
    typed: list[Any] = [(name, int) for name in fields]
    return cast(EventType, msgspec.defstruct("Place", typed, bases=(Event,), frozen=True, array_like=True, gc=False))


PLACE = place("x", "y")
OTHERS = {"another order": place("y", "x"), "another name": place("x", "z"), "one more": place("x", "y", "z"), "none": place()}
COUNT = 200


def some(kind: EventType) -> list[Event]:
    own = kind.__struct_fields__[:-4]
    return [kind(*range(number, number + len(own)), ts=100 + number, id=number, source="s") for number in range(COUNT)]


def ways(kind: EventType) -> Iterator[Blocks]:
    """Blocks of these events, in each way in which blocks are made."""
    events = some(kind)
    yield encode_delta("Place", Delta(events), raw=True)
    yield encode_delta("Place", Delta(Block.from_events(kind, events)), raw=True)
    yield encode_delta("Place", Delta(retracts=events), raw=True)
    yield encode_delta("Place", Delta(revises=[(each, each) for each in events]), raw=True)
    for in_columns in (True, False):
        gathering = Gathering()
        assert gathering.add(events)
        yield gathering.take(in_columns)
    rows: list[Any] = [msgspec.structs.astuple(event) for event in events]
    yield next(iter(frames([kind] * COUNT, rows)))


@pytest.mark.parametrize("other", OTHERS.values(), ids=list(OTHERS))
@pytest.mark.parametrize("decode", [True, False], ids=["read here", "passed on"])
def test_they_are_rejected_where_they_come_in_and_the_sender_gets_the_fields(other: EventType, decode: bool) -> None:
    types = EventTypes([PLACE])
    for blocks in ways(other):
        ingress = Ingress(types, EventCodec(types), Counter())
        for head, block in blocks:
            head.runs = [("s", 0, COUNT - 1)] if head.plain else None
            assert ingress.admit(head, block, decode) == []
        assert ingress.drops == {OTHER_FIELDS: COUNT}
        assert ingress.samples[0].details == "where it is taken, Place has the fields x, y, in this order"


@pytest.mark.parametrize("other", OTHERS.values(), ids=list(OTHERS))
def test_a_reader_leaves_them_out_and_counts_them(other: EventType) -> None:
    for blocks in ways(other):
        drops: Counter[str] = Counter()
        assert not any(EventCodec(EventTypes([PLACE]), in_columns=True).decode(head, block, drops) for head, block in blocks)
        assert drops == {OTHER_FIELDS: COUNT}


def test_the_same_fields_in_another_class_are_taken() -> None:
    for blocks in ways(place("x", "y")):
        drops: Counter[str] = Counter()
        codec = EventCodec(EventTypes([PLACE]), in_columns=True)
        assert sum(len(codec.decode(head, block, drops)) for head, block in blocks) == COUNT
        assert not drops


KINDS = (int, float, str, bool, bytes)
VALUES = dict(zip(KINDS, (3, 0.5, "three", True, b"three"), strict=True))


def lot(kind: Any) -> EventType:
    return cast(EventType, msgspec.defstruct("Lot", [("size", kind)], bases=(Event,), frozen=True, array_like=True, gc=False))


@pytest.mark.parametrize("declared", KINDS)
@pytest.mark.parametrize("made", KINDS)
def test_fields_of_another_kind_are_rejected_just_where_no_value_could_be_read(made: type, declared: type) -> None:
    types = EventTypes([lot(declared)])
    ingress = Ingress(types, EventCodec(types), Counter())
    ((head, block),) = encode_delta("Lot", Delta([lot(made)(VALUES[made], ts=1, id=1, source="s")]), raw=True)
    head.runs = [("s", 1, 1)]
    try:
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(VALUES[made]), type=declared) == VALUES[made]
        assert len(ingress.admit(head, block, False)) == 1
    except msgspec.ValidationError:
        assert ingress.admit(head, block, False) == [] and ingress.drops == {OTHER_FIELDS: 1}
        text = f"where it is taken, Lot has fields of other kinds: size ({declared.__name__})"
        assert [sample.details for sample in ingress.samples] == [text]


class Other(msgspec.Struct):
    """None of the plain kinds."""


SHORT = Annotated[str, msgspec.Meta(max_length=9)]
ALIKE = [(int, int | None), (str, SHORT | None), (str, date), (int, Literal[3]), (Other, str)]


@pytest.mark.parametrize(("made", "declared"), [*ALIKE, *[(declared, made) for made, declared in ALIKE]])
def test_none_and_limits_and_other_kinds_are_for_each_value_to_fit(made: Any, declared: Any) -> None:
    assert can_read(form_of(lot(made)), form_of(lot(declared)))


def test_a_kind_that_cannot_be_named_here_is_any() -> None:
    nameless: Any = type("Place", (Event,), {"__annotations__": {"x": "Missing", "y": "str"}, "__module__": __name__})
    assert can_read(form_of(nameless), form_of(PLACE))
    assert not can_read(form_of(nameless), form_of(OTHERS["another order"]))


def test_blocks_of_former_versions_say_names_only() -> None:
    for names, is_taken in (("x", "y"), True), (("y", "x"), False):
        head, block = BlockHead("Place", COUNT, raw=True, form=form_of_fields(names)), encode(some(PLACE))
        assert (len(EventCodec(EventTypes([PLACE])).decode(head, block, Counter())) == COUNT) == is_taken


def test_who_does_not_say_what_fields_there_are_is_believed() -> None:
    head, block = BlockHead("Place", COUNT, raw=True), encode(some(PLACE))
    assert len(EventCodec(EventTypes([PLACE])).decode(head, block, Counter())) == COUNT
