"""A result is what it was when it was given, whatever its detector does with what it gave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from slackline import Detector, Event, Lateness, Policies, run

from middleware.model.errors import DetectorError
from middleware.model.values.carried import carried
from middleware.testing.oracle import oracle


class Tick(Event):
    x: int


class Stat(msgspec.Struct):
    n: int = 0


@dataclass
class Count:
    n: int = 0


class OfStruct(Event):
    of: Stat


class OfDataclass(Event):
    of: Count


class OfStructs(Event):
    of: dict[str, list[Stat]]


class OfMaybe(Event):
    of: Stat | None


class OfAnything(Event):
    of: Any


class OfLists(Event):
    of: list


def grow(stat: Any) -> None:
    stat.n += 1


CASES: list[tuple[type[Event], Callable[[], Any], Callable[[Any], Any]]] = [
    (OfStruct, Stat, grow),
    (OfDataclass, Count, grow),
    (OfStructs, lambda: {"a": [Stat()]}, lambda held: grow(held["a"][0])),
    (OfMaybe, Stat, grow),
    (OfAnything, list, lambda held: held.append(1)),
    (OfAnything, Stat, grow),
    (OfAnything, lambda: {"a": [0]}, lambda held: held["a"].append(1)),
    (OfLists, lambda: [[]], lambda held: held[0].append(1)),
]


@pytest.mark.parametrize(("result", "made", "change"), CASES)
@pytest.mark.parametrize("keyed", [False, True])
def test_results_do_not_change_with_what_their_detector_keeps(
    result: Any, made: Callable[[], Any], change: Callable[[Any], Any], keyed: bool
) -> None:
    class Keeps(Detector):
        subscribes, publishes = (Tick,), (result,)
        key = (lambda event: 0) if keyed else None

        def __init__(self) -> None:
            self.held = made()

        def on_event(self, event: Event) -> Event:
            change(self.held)
            given: Event = result(self.held, ts=event.ts)
            return given

    held, expected = made(), []
    for _ in range(5):
        change(held)
        expected.append(repr(carried(result(held, ts=1)).of))
    events = [Tick(at, ts=at, id=at, source="s") for at in (1, 2, 4, 3, 5)]
    for batch in (1, 256):
        found = run(events, {"Keeps": Keeps()}, batch=batch, policies=Policies(alpha=0.0, lateness=Lateness(floor=100)))
        assert [repr(event.of) for event in found.finals["Keeps"]] == expected
    assert [repr(event.of) for event in oracle(events, {"Keeps": Keeps()})["Keeps"]] == expected


def test_a_key_is_set_in_the_class() -> None:
    class Sets(Detector):
        subscribes, publishes = (Tick,), (OfAnything,)

        def __init__(self) -> None:
            self.key = "x"

    class Computes(Detector):
        subscribes, publishes = (Tick,), (OfAnything,)

        @property
        def key(self) -> str:
            return "x"

    for detector in (Sets(), Computes()):
        with pytest.raises(DetectorError, match=r"\.key is read from the class"):
            run([Tick(1, ts=1, id=1, source="s")], [detector])
