"""Each row of "Changed code" in docs/guarantees.md, from the first start on, whenever the node was killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union

import msgspec
import pytest
from lives import Life

from middleware.broker.log.log_records import LocalBlock, ReceivedPayload, Record
from middleware.durability.checkpoint import StoredCheckpoint
from middleware.durability.durable_core import Write
from middleware.link.codec import BlockHead, Changes, Drops, EventCodec, encode
from middleware.model.detector import Detector, fields_of
from middleware.model.errors import DetectorError, StateError
from middleware.model.event import Event, EventType, EventTypes
from middleware.runtime.storage.store import Retention, Store


class Sum(Event):
    total: int


class Most(Event):
    sum: int


def tick_type(*fields: tuple[str, Any]) -> EventType:
    """A declaration of Tick; another one is another version of the code."""
    return msgspec.defstruct("Tick", fields, bases=(Event,), frozen=True, module=__name__)  # type: ignore[return-value]


Tick = tick_type(("price", int))


def sums(tick: EventType, version_: int = 1, migrate_: Callable[..., Any] | None = None) -> Detector:
    """The detector of a version of the code: it adds up prices."""

    class Sums(Detector):
        subscribes, publishes, version = (tick,), (Sum,), version_

        def __init__(self) -> None:
            self.total = 0

        def on_event(self, event: Any) -> Sum:
            self.total += event.price
            return Sum(self.total, ts=event.ts)

        if migrate_ is not None:
            migrate = migrate_

    return Sums()


class Largest(Detector):
    """Reads what Sums makes."""

    subscribes, publishes = (Sum,), (Most,)

    def on_event(self, event: Sum) -> Most:
        return Most(event.total, ts=event.ts)


def life(folder: Path, tick: EventType = Tick, detectors: Sequence[Detector] | None = None, **options: Any) -> Life:
    """A start; by default of Sums alone, with a subscriber to everything."""
    running = [sums(tick)] if detectors is None else detectors
    types = options.pop("types", None) or EventTypes([tick, Sum, Most])
    named = {type(each).__name__: each for each in running} if running else None
    return Life(folder, types, named, wants=["Sum", "Most"], raw=["Tick", "Other"], **options)


def ticks(*times: int, of: EventType = Tick) -> list[Event]:
    return [of(*([1] * (len(of.__struct_fields__) - 4)), ts=ts, id=ts, source="market") for ts in times]


def checkpointed(folder: Path) -> set[str]:
    """The types of which the checkpoint tells the fields."""
    store = Store(folder, "n")
    checkpoint = store.checkpoint()
    assert checkpoint is not None
    known = StoredCheckpoint(checkpoint, EventTypes()).known
    store.close()
    return set(known)


WITH_UNIT = tick_type(("price", int), ("unit", str))


@pytest.mark.parametrize("detectors", ["Sums", "none"])
@pytest.mark.parametrize("rebuild", [False, True])
def test_changed_fields_are_refused_from_the_first_event_on(tmp_path: Path, rebuild: bool, detectors: str) -> None:
    mine: dict[str, Any] = {} if detectors == "Sums" else {"detectors": []}
    first = life(tmp_path, **mine)
    first.feed(*ticks(1, 2, 3))
    first.kill()
    with pytest.raises(StateError, match=r"log.sqlite: .*was Tick\(price: int\), is Tick\(price: int, unit: str\).*new names"):
        life(tmp_path, WITH_UNIT, rebuild=rebuild, **mine)
    again = life(tmp_path, **mine)  # and nothing has happened to what was stored
    again.feed(*ticks(1, 2, 3, 4))
    assert again.broker.drops["duplicate"] == 3
    again.kill()


def test_a_type_is_held_to_the_fields_that_it_had_first_whichever_life_added_it(tmp_path: Path) -> None:
    class Other(Event):
        x: int

    life(tmp_path, types=EventTypes([Tick, Sum, Most])).kill()
    assert checkpointed(tmp_path) == {"Tick", "Sum", "Most"}
    life(tmp_path, types=EventTypes([Tick, Sum, Most, Other])).kill()
    assert checkpointed(tmp_path) == {"Tick", "Sum", "Most", "Other"}
    without = life(tmp_path)
    without.feed(*ticks(1))
    without.runner.end()
    without.kill()
    changed = msgspec.defstruct("Other", [("y", int)], bases=(Event,), frozen=True)
    with pytest.raises(StateError, match=r"was Other\(x: int\), is Other\(y: int\)"):
        life(tmp_path, types=EventTypes([Tick, Sum, Most, changed]))  # type: ignore[list-item]


def test_a_type_that_is_gone_is_missed_if_there_are_events_of_it(tmp_path: Path) -> None:
    class Other(Event):
        x: int

    types = EventTypes([Tick, Sum, Most, Other])
    life(tmp_path, types=types).kill()
    life(tmp_path).kill()  # nothing is lost
    first = life(tmp_path, types=types)
    first.feed(Other(1, ts=1, id=1, source="a"), Other(1, ts=2, id=2, source="a"))
    first.kill()
    with pytest.raises(StateError, match="stored events cannot be read any more: 2 of Other; put their types back"):
        life(tmp_path)


def test_events_that_their_type_takes_no_more_are_missed(tmp_path: Path) -> None:
    """What ``__post_init__`` refuses, no schema tells."""

    class Strict(Event):
        price: int

        def __post_init__(self) -> None:
            if self.price < 2:
                raise ValueError("too cheap")

    Strict.__name__ = "Tick"
    first = life(tmp_path)
    first.feed(*ticks(1, 2, 3))
    first.kill()
    with pytest.raises(StateError, match="cannot be read any more: 3 of Tick"):
        life(tmp_path, Strict)


def test_what_was_no_event_when_it_came_does_not_stop_a_node(tmp_path: Path) -> None:
    """What a node sends is logged as it came, and read behind that; what is no event is counted then."""
    life(tmp_path).kill()
    block = encode([Tick(1, ts=1, id=1, source="market"), ["no price", 2, 2, "market", 0]])
    entry = ReceivedPayload(("node", "far"), Changes(2, None, [BlockHead("Tick", 2)]), [block])
    number = stored(tmp_path)[-1].number + 1
    store = Store(tmp_path, "n")
    store.write(Write(Record(number, 0, [entry], True, 2, {})))
    store.close()
    again = life(tmp_path)
    assert again.runner.recovered.unreadable == 1
    assert again.runner.recovered.events == 1
    again.kill()


def test_a_new_detector_does_not_begin_in_the_middle(tmp_path: Path) -> None:
    first = life(tmp_path)
    first.feed(*ticks(1, 2, 3))
    first.kill()
    both = [sums(Tick), Largest()]
    with pytest.raises(DetectorError, match=r"detectors are new here: Largest; they would begin in the middle.*--rebuild"):
        life(tmp_path, detectors=both)
    again = life(tmp_path, detectors=both, rebuild=True)
    again.kill()
    made = {head.type: EventCodec(EventTypes([Sum, Most])).decode(head, block, Drops()) for head, block in again.sent}
    assert [(event.ts, event.sum) for event in made["Most"].inserts] == [(1, 1), (2, 2), (3, 3)]
    life(tmp_path, detectors=both).kill()


def test_detectors_are_new_to_a_log_that_was_kept_without_any(tmp_path: Path) -> None:
    first = life(tmp_path, detectors=[])
    first.feed(*ticks(1, 2, 3))
    first.kill()
    with pytest.raises(StateError, match=r"has no detectors: .*--rebuild"):
        life(tmp_path)
    life(tmp_path, rebuild=True).kill()
    with pytest.raises(StateError, match="the stored state has detectors, Sums, and none run here any more"):
        life(tmp_path, detectors=[])


@pytest.mark.parametrize("type_stays", [True, False])
def test_a_detector_that_is_gone_is_done_without(tmp_path: Path, type_stays: bool) -> None:
    """What was final of it stays; what was not is withdrawn, if there still is a type for it."""
    first = life(tmp_path, detectors=[sums(Tick), Largest()])
    assert first.hierarchy is not None
    first.feed(*ticks(*range(1, 11)))
    final = first.hierarchy.finals()["Largest"]
    first.kill()
    assert 1 <= final < 10
    types = EventTypes([Tick, Sum, Most] if type_stays else [Tick, Sum])
    with pytest.raises((DetectorError, StateError), match=r"Largest|Most"):
        life(tmp_path, types=types)
    again = life(tmp_path, types=types, rebuild=True)
    again.kill()
    withdrawn = [
        event.ts
        for record in stored(tmp_path)
        for entry in record.entries
        if isinstance(entry, LocalBlock) and entry.head.type == "Most"
        for event in EventCodec(EventTypes([Most])).decode(entry.head, entry.block, Drops()).retracts
    ]
    assert withdrawn == ([ts for ts in range(1, 11) if ts > final] if type_stays else [])
    life(tmp_path, types=types).kill()


def stored(folder: Path) -> list[Any]:
    store = Store(folder, "n")
    records = list(store.everything())
    store.close()
    return records


def raises(self: Detector, state: dict[str, Any], version: int) -> dict[str, Any]:
    return {"total": state["cents"]}


@pytest.mark.parametrize(
    ("migrate", "complaint"),
    [
        (raises, r"raised KeyError\('cents'\)"),
        (lambda self, state, version: None, "gave None, and not attributes by name"),
        (lambda self, state, version: "x", "gave 'x', and not attributes"),
        (lambda self, state, version: {"totals": 1}, "gave no total, which a new one has"),
    ],
)
def test_a_migration_that_fails_is_a_refusal(tmp_path: Path, migrate: Callable[..., Any], complaint: str) -> None:
    first = life(tmp_path)
    first.feed(*ticks(1, 2, 3))
    first.runner.end()
    first.kill()
    with pytest.raises(DetectorError, match=rf"Sums.migrate {complaint}.*of version 1 \(it is of version 2 now\)"):
        life(tmp_path, detectors=[sums(Tick, 2, migrate)])
    life(tmp_path).kill()


def test_a_snapshot_of_its_own_that_does_not_fit_is_a_refusal(tmp_path: Path) -> None:
    class Sums(Detector):
        subscribes, publishes = (Tick,), (Sum,)

        def __init__(self) -> None:
            self.total = 0

        def on_event(self, event: Any) -> Sum:
            self.total += event.price
            return Sum(self.total, ts=event.ts)

        def snapshot(self) -> Any:
            return self.total

        def restore(self, state: Any) -> None:
            self.total = state + 0

    class Changed(Sums):
        version = 2

        def migrate(self, state: Any, version: int) -> Any:
            return [state]

    Changed.__name__ = "Sums"
    first = life(tmp_path, detectors=[Sums()])
    first.feed(*ticks(1, 2, 3))
    first.kill()
    with pytest.raises(DetectorError, match=r"Sums.migrate gave what restore cannot take: TypeError"):
        life(tmp_path, detectors=[Changed()])


def test_another_key_is_another_computation(tmp_path: Path) -> None:
    class Sums(Detector):
        subscribes, publishes, key = (Tick,), (Sum,), "price"

    life(tmp_path).kill()
    with pytest.raises(DetectorError, match="was keyed by None; is keyed by 'price'"):
        life(tmp_path, detectors=[Sums()])


@pytest.mark.parametrize("key_", [None, "price"])
def test_another_version_is_refused_while_no_event_has_made_a_state_yet(tmp_path: Path, key_: str | None) -> None:
    def version(number: int) -> Detector:
        class Sums(Detector):
            subscribes, publishes, key, version = (Tick,), (Sum,), key_, number

            def on_event(self, event: Any) -> Sum:
                return Sum(event.price * number, ts=event.ts)

        return Sums()

    first = life(tmp_path, detectors=[version(1)])
    first.feed(*ticks(1, 2, 3))
    first.kill()
    with pytest.raises(DetectorError, match=r"its stored state of version 1: .*--rebuild"):
        life(tmp_path, detectors=[version(2)])


def test_a_rebuilt_and_a_migrated_node_may_crash_at_once(tmp_path: Path) -> None:
    def keeps(self: Detector, state: dict[str, Any], version: int) -> dict[str, Any]:
        return state

    first = life(tmp_path)
    first.feed(*ticks(1, 2, 3))
    first.kill()
    with pytest.raises(DetectorError, match="--rebuild"):
        life(tmp_path, detectors=[sums(Tick, 2)])
    life(tmp_path, detectors=[sums(Tick, 2)], rebuild=True).kill()
    again = life(tmp_path, detectors=[sums(Tick, 2)])
    assert again.runner.recovered.checkpoint
    again.kill()
    life(tmp_path, detectors=[sums(Tick, 3, keeps)]).kill()
    last = life(tmp_path, detectors=[sums(Tick, 3)])  # its state was migrated and stored: it is not asked again
    last.feed(*ticks(4))
    codec = EventCodec(EventTypes([Sum]))
    assert [event.total for sent in last.sent for event in codec.decode(*sent, Drops()).inserts][-1] == 4  # type: ignore[attr-defined]
    last.kill()


def test_a_log_that_was_cut_off_cannot_be_rebuilt_and_says_what_can_be_done(tmp_path: Path) -> None:
    first = life(tmp_path, retention=Retention(age=1))
    first.feed(*ticks(1, 2, 3))
    for _ in range(2):
        first.runner.end()
    first.kill()
    with pytest.raises(StateError, match=r"does not reach back to its beginning any more.*in a new state folder"):
        life(tmp_path, detectors=[sums(Tick), Largest()], rebuild=True)


class Inner(msgspec.Struct):
    x: int


class Pair(NamedTuple):
    a: int
    inner: Inner


class Colour(Enum):
    RED = 1


class Loop(msgspec.Struct):
    next: Loop | None = None


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Inner, "Inner(x: int)"),
        (list[Inner], "list(Inner(x: int))"),
        (dict[str, tuple[Pair, ...]], "dict(str, vartuple(Pair(a: int, inner: Inner(x: int))))"),
        (Inner | None, "Inner(x: int) | none"),
        (Union[int, str, None], "int | str | none"),  # noqa: UP007
        (Union[None, str, int], "int | str | none"),  # noqa: UP007
        (Colour, "Colour(RED=1)"),
        (Literal["b", "a"], "literal('a', 'b')"),
        (Annotated[int, msgspec.Meta(ge=3, description="words")], "int(ge=3)"),
        (Loop, "Loop(next: Loop | none)"),
        (tuple[Inner, Inner], "tuple(Inner(x: int), Inner)"),
    ],
)
def test_fields_are_described_all_the_way_down(kind: Any, text: str) -> None:
    assert fields_of(tick_type(("price", kind))) == f"Tick(price: {text})"
