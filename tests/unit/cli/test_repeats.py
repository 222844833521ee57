"""Events that come again, and others that come under the same source and id: these are skipped and reported."""

from __future__ import annotations

from math import nan

from slackline import Detector, Event, run

from middleware.cli.queries.query_feed import Repeats
from middleware.model.identity import clashing


class Seen(Event):
    value: float


class Copied(Event):
    value: float


class Copy(Detector):
    subscribes, publishes = (Seen,), (Copied,)

    def on_event(self, event: Seen) -> Copied:
        return Copied(event.value, ts=event.ts)


def seen(value: float, ts: int, number: int) -> Event:
    return Seen(value, ts=ts, id=number, source="plant")


EVENTS = [seen(1, 1, 7), seen(nan, 2, 8), seen(3, 3, 7), seen(nan, 2, 8), seen(1, 1, 7)]


def test_repeats_are_distinguished_from_clashes() -> None:
    assert clashing(EVENTS) == [EVENTS[2]]


def test_a_run_reports_how_many_events_it_skipped() -> None:
    result = run(EVENTS, [Copy()])
    assert (result.events, result.duplicates, result.clashes) == (2, 3, 1)
    assert repr(result) == "<Run: 2 events; 2 finals (Copy 2); 2 repeats; 1 skipped: source and id of others>"


def test_a_feed_tells_them_apart_where_it_can() -> None:
    repeats = Repeats()
    assert [event.ts for part in repeats.without([EVENTS], 2) for event in part] == [1, 2]
    assert repeats.notes(EVENTS + [seen(9, 9, 7)] * 50) == repeats.notes(EVENTS), "of those that have come"
    assert repeats.notes() == ["3 events came twice, and were taken once"]
    assert repeats.notes(EVENTS) == [
        "2 events came twice, and were taken once",
        "skipped 1 event with the source and id of another one, but other content: (plant, 7); "
        "each event needs an id of its own",
    ]
