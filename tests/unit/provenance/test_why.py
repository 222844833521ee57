"""Why a result came: it follows from what is named, and from no less; and what corrected it is named, too."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from slackline import Detector, Event, run

from detectors.sequence import SequenceQuery
from middleware.model.change import Delta, Retract, Revise
from middleware.model.errors import RunError
from middleware.model.event import IDENTITY
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import MaxSlack
from middleware.provenance.known_past import Arrival, NodeStep, Past
from middleware.provenance.smallest import smallest
from middleware.provenance.why import MOST_LISTED, Cause, explain
from middleware.runtime.engine import Run


class Tick(Event):
    stock: str
    price: float


class Rise(Event):
    stock: str
    by: float


class Streak(Event):
    stock: str
    rises: int


class Volume(Event):
    ticks: int


class Rises(Detector):
    subscribes, publishes, key = (Tick,), (Rise,), "stock"

    def __init__(self) -> None:
        self.last: float | None = None

    def on_event(self, event: Tick) -> Rise | None:
        last, self.last = self.last, event.price
        return Rise(event.stock, event.price - last, ts=event.ts) if last is not None and event.price > last else None


class Streaks(Detector):
    """Three rises within ten nanoseconds."""

    subscribes, publishes, key = (Rise,), (Streak,), "stock"

    def __init__(self) -> None:
        self.times: list[int] = []

    def on_event(self, event: Rise) -> Iterator[Streak]:
        self.times = [ts for ts in self.times if ts > event.ts - 10] + [event.ts]
        if len(self.times) >= 3:
            yield Streak(event.stock, len(self.times), ts=event.ts)


class Volumes(Detector):
    subscribes, publishes = (Tick,), (Volume,)

    def __init__(self) -> None:
        self.ticks = 0

    def on_event(self, event: Tick) -> Volume | None:
        self.ticks += 1
        return Volume(self.ticks, ts=event.ts) if self.ticks % 50 == 0 else None


def tick(ts: int, price: float, stock: str = "a") -> Tick:
    return Tick(stock, price, ts=ts, id=ts, source=stock)


def detectors() -> list[Detector]:
    return [Rises(), Streaks(), Volumes()]


def ran(events: list[Tick], **options: Any) -> Run:
    return run(events, detectors(), policies=Policies(alpha=0.0, slack=MaxSlack), batch=options.pop("batch", 4), **options)


def walk(cause: Cause) -> Iterator[Cause]:
    yield cause
    for each in cause.of:
        yield from walk(each)


def test_a_result_rests_on_these_raw_events_and_no_others() -> None:
    events = [tick(ts, price) for ts, price in enumerate([9, 9, 1, 2, 3, 3, 4, 0, 0], 1)]
    result = ran(events)
    (streak,) = result.finals["Streaks"]
    why = result.why(streak)
    assert why.stands
    assert [event.ts for event in why.raw] == [3, 4, 5, 6, 7]
    assert why.cause is not None and all(each.exact for each in walk(why.cause))
    assert [each.event.ts for each in why.cause.of] == [7, 4, 5], "what triggered it stands first"
    assert why.after == {"times": "[4, 5, 7]"} and why.before == {"times": "[4, 5]"}


@pytest.mark.parametrize("seed", range(6))
def test_the_raw_events_that_are_named_give_the_result_again(seed: int) -> None:
    chance = random.Random(seed)
    events = [tick(ts, float(chance.randrange(9)), chance.choice("ab")) for ts in range(1, 120)]
    events.sort(key=lambda event: event.ts + chance.randrange(12))
    result = ran(events)
    everything = [*result.finals["Rises"], *result.finals["Streaks"]]
    assert result.finals["Streaks"]
    for event in everything:
        why = result.why(event)
        assert why.stands and why.cause is not None
        again = ran(sorted(why.raw, key=lambda each: each.ts)).finals[event.source]
        assert event in again
        for left_out in why.raw if event.source == "Rises" else ():
            fewer = [each for each in why.raw if each is not left_out]
            assert event not in ran(fewer).finals["Rises"]


@pytest.mark.parametrize("batch", [1, 3])
def test_each_correction_names_the_late_event_that_made_it(batch: int) -> None:
    events = [tick(1, 1), tick(10, 1, "b"), tick(3, 3), tick(20, 1, "b"), tick(2, 2.5), tick(30, 1, "b"), tick(4, 9)]
    result = ran(events, batch=batch)
    rise = next(each for each in result.finals["Rises"] if each.ts == 3)
    history = result.why(rise).history
    revised = [moment for moment in history if isinstance(moment.change, Revise)]
    assert [[late.event.ts for late in moment.by] for moment in revised] == [[2]]
    assert "because this came late" in str(result.why(rise))


def test_a_withdrawn_result_is_explained_though_it_does_not_stand() -> None:
    withdrawn: list[Event] = []
    events = [tick(1, 1), tick(3, 3), tick(10, 1, "b"), tick(2, 5), tick(20, 1, "b")]

    def watch(batch: Any) -> None:
        withdrawn.extend(event for delta in batch.deltas.values() for event in delta.retracts)

    result = ran(events, batch=1, watch=watch)
    (gone,) = withdrawn
    why = result.why(gone)
    assert not why.stands and why.cause is None
    assert isinstance(why.history[-1].change, Retract)
    assert why.history[-1].by == [Arrival(tick(2, 5), 8)]
    assert "withdrawn" in str(why) and "late, by 8ns" in str(why)


def test_many_causes_are_summed_up() -> None:
    result = ran([tick(ts, 1.0) for ts in range(1, 101)])
    why = result.why(result.finals["Volumes"][1])
    assert why.cause is not None
    assert [each.event.ts for each in why.cause.of] == [100]
    assert [(bunch.type, bunch.count, bunch.first, bunch.last) for bunch in why.cause.more] == [("Tick", 99, 1, 99)]
    assert len(why.raw) <= MOST_LISTED


def test_a_late_event_that_was_skipped_is_no_cause() -> None:
    events = [*(tick(ts, float(ts % 3)) for ts in range(1, 40)), tick(5, 99.0), tick(5_000_000_000, 1)]
    events[39] = Tick("a", 99.0, ts=1, id=999, source="z")
    result = run(events, detectors(), batch=1)
    for rise in result.finals["Rises"]:
        assert result.why(rise).stands


def test_a_change_that_came_too_late_is_no_cause_either() -> None:
    one, two, three = (tick(ts, float(ts)) for ts in (1, 2, 3))
    result = run([one, two, three], detectors(), batch=1)
    past = Past(Rise, {"Rises": Rises()})
    published = [Delta(list(result.finals["Rises"]))]
    past.take(
        [
            NodeStep(1, [Delta([one, two, three])], published),
            NodeStep(2, [Delta(revises=[(two, tick(2, 9.0))], retracts=[three])], []),
        ]
    )
    assert [explain(rise, past).stands for rise in result.finals["Rises"]] == [False, False]
    past.refused = {"Rises": {IDENTITY(two), IDENTITY(three)}}
    assert [explain(rise, past).stands for rise in result.finals["Rises"]] == [True, True]


def test_the_state_is_shown_whatever_it_holds() -> None:
    result = run([tick(1, 1.0), tick(2, 2.0)], [Keeping()])
    why = result.why(result.finals["Keeping"][1])
    assert (why.before, why.after) == ({"seen": "[Decimal('1.0')]"}, {"seen": "[Decimal('1.0'), Decimal('2.0')]"})


class Keeping(Detector):
    subscribes, publishes = (Tick,), (Volume,)

    def __init__(self) -> None:
        self.seen: list[Decimal] = []

    def on_event(self, event):
        self.seen.append(Decimal(str(event.price)))
        return Volume(len(self.seen), ts=event.ts)


def test_asking_changes_nothing_and_nothing_is_kept_that_is_not_asked_for() -> None:
    events = [tick(ts, float(ts % 5)) for ts in range(1, 60)]
    one, other = ran(events), ran(events)
    one.why(one.finals["Rises"][0])
    assert one == other
    with pytest.raises(RunError, match="only the result of run"):
        Run({}, {}, []).why(one.finals["Rises"][0])


def test_a_result_that_never_was_is_reported_as_such() -> None:
    result = ran([tick(1, 1), tick(2, 2)])
    why = result.why(Rise("a", 7.0, ts=2, id=1, source="Rises"))
    assert not why.stands
    assert "never published" in str(why)


class Shelf(Event):
    tag: int


class Checkout(Event):
    tag: int


class Exit(Event):
    tag: int


def test_a_sequence_names_its_events_and_a_withdrawn_one_what_stands_in_between() -> None:
    theft = SequenceQuery(
        "EVENT SEQ(Shelf s, !(Checkout c), Exit e) WHERE s.tag = c.tag AND c.tag = e.tag WITHIN 1 hour "
        "RETURN Theft(s.tag AS tag)",
        [Shelf, Checkout, Exit],
    )
    gone: list[Event] = []
    seen = [
        Shelf(7, ts=1, id=1, source="shelf"),
        Shelf(8, ts=2, id=2, source="shelf"),
        Exit(8, ts=5, id=1, source="gate"),
        Exit(7, ts=6, id=2, source="gate"),
        Checkout(8, ts=4, id=1, source="counter"),
    ]
    result = run(seen, [theft], batch=1, watch=lambda batch: gone.extend(e for d in batch.deltas.values() for e in d.retracts))
    why = result.why(result.finals["Theft"][0])
    assert why.stands and why.raw == [seen[0], seen[3]]
    assert [moment.by for moment in result.why(gone[0]).history] == [[], [Arrival(seen[4], 2)]]


def test_smallest_keeps_what_is_needed() -> None:
    assert smallest(range(20), lambda part: 7 in part and 13 in part, attempts=200) == [7, 13]
    assert IDENTITY(tick(1, 1)) == ("a", 1)


class Share(Detector):
    """Its key cannot be computed for a price of 0, and has no hash for a price of 5."""

    subscribes, publishes = (Tick,), (Volume,)

    @staticmethod
    def key(event: Tick) -> object:
        return [] if event.price == 5 else 12 // event.price

    def __init__(self) -> None:
        self.ticks = 0

    def on_event(self, event: Tick) -> Volume:
        self.ticks += 1
        return Volume(self.ticks, ts=event.ts)


@pytest.mark.parametrize("prices", [(0, 1, 2, 1), (1, 0, 2, 1), (5, 1, 2, 1), (1, 5, 1, 1), (0, 5, 0, 1)])
def test_an_event_whose_key_cannot_be_computed_is_part_of_no_reason(prices: tuple[float, ...]) -> None:
    ticks = [Tick("x", price, ts=ts, id=ts + 1, source="s") for ts, price in enumerate(prices)]
    result = run(ticks, [Share()], failing="skip")
    last = result.finals["Share"][-1]
    expected = [tick for tick in ticks if tick.price == 1]
    assert last.ticks == len(expected)
    assert list(result.why(last).raw) == expected
