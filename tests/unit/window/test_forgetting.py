"""What windows hold: keys are forgotten with what they held, and what is done for each event does not grow with them."""

import pytest
from slackline import Delta, Event

from detectors.window import CONCAT, COUNT, Counted, Hopping, Landmark, Session, Sliding, Tumbling, Windows
from detectors.window.content import Content, WindowEntry
from detectors.window.kinds import WindowKind


class Visit(Event):
    user: int


PLAIN = {"n": COUNT, "all": (CONCAT, "user")}
FORGETFUL = [Session(10), Sliding(10), Tumbling(10), Hopping(30, 10), Landmark(0, 10, 50), Session(1)]


@pytest.mark.parametrize("emit", ["close", "change", "final"])
@pytest.mark.parametrize("kind", FORGETFUL, ids=repr)
def test_keys_that_hold_nothing_are_forgotten(kind, emit):
    operation = Windows(Visit, kind, PLAIN, key="user", emit=emit).start("w", 1)
    most = 0
    for number in range(1, 2_000):
        operation.apply(Delta([Visit(number, ts=number * 10, id=number)]), number * 10, number * 10 - 100)
        most = max(most, operation.keys)
    assert most <= 10 + 10 * max(1, kind.retention // 20)
    operation.apply(Delta(), 30_000, 30_000)
    assert operation.keys == operation.held == 0
    operation.apply(Delta([Visit(7, ts=30_005, id=7)]), 30_006, 30_001)  # a key that was forgotten may come again
    assert operation.keys == 1


def test_count_windows_keep_their_keys_since_they_go_by_rank():
    operation = Windows(Visit, Counted(1, 2), PLAIN, key="user").start("w", 1)
    operation.apply(Delta([Visit(1, ts=1, id=1), Visit(2, ts=1, id=2), Visit(2, ts=2, id=3)]), 5, 5)
    assert (operation.held, operation.keys) == (0, 2)
    (found,) = operation.apply(Delta([Visit(1, ts=6, id=6)]), 6, 5).inserts
    assert (found.user, found.end) == (1, 6)


class Watched(WindowKind):
    """A kind that counts how often it is asked what a key need not hold any more."""

    def __init__(self, kind):
        self.kind, self.asked = kind, 0
        self.retention, self.content = kind.retention, kind.content
        self.touched, self.ends, self.due = kind.touched, kind.ends, kind.due

    def next(self, content, after):
        return self.kind.next(content, after)

    def at(self, content, end):
        return self.kind.at(content, end)

    def droppable(self, content, final):
        self.asked += 1
        return self.kind.droppable(content, final)


@pytest.mark.parametrize("kind", [Session(3), Sliding(3), Landmark(0, 1, 2), Landmark(0, 1)], ids=repr)
def test_forgetting_looks_at_keys_a_few_times_an_event_however_many_there_are(kind):
    """Progress lags far behind, so that many keys hold something: they are not all looked at whenever time passes."""
    watched = Watched(kind)
    operation = Windows(Visit, watched, PLAIN, key="user").start("w", 1)
    for number in range(1, 3_000):
        operation.apply(Delta([Visit(number, ts=number, id=number)]), number, number - 1_000)
    assert operation.keys > 900
    assert watched.asked <= 3 * 3_000


def test_runs_know_where_they_begin():
    content = Content([], 5)
    for ts in (0, 4, 20, 9, 30):
        content.insert([WindowEntry((ts, 0, "", ts), ())])
    assert content.starts == [0, 20, 30]
    content.insert([WindowEntry((ts, 0, "", ts), ()) for ts in (25, 14, 17)])
    assert content.starts == [0] and content.run(30) == (0, 8) == content.run(0)
    content.remove([(20, 0, "", 20)])
    assert content.starts == [0, 25] and content.run(4) == (0, 5) and content.run(30) == (5, 7)
    content.drop(5)
    assert content.starts == [25]
    content.drop(2)
    assert content.starts == [] and len(content) == 0
