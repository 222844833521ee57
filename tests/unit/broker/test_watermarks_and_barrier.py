"""Promises of several origins combined, and the barrier that lets final events go."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from middleware import native
from middleware.broker.watermarks.combining import CombinedWatermarks
from middleware.delivery.barrier import Barrier
from middleware.model.block.block import Block
from middleware.model.block.rows import reader_of
from middleware.model.change import Batch, Delta
from middleware.model.event import END, NEVER, ORDER, Event


class Hit(Event):
    text: str = ""


class Pass(Event):
    pass


def hit(ts: int, number: int | None = None, text: str = "") -> Hit:
    return Hit(text, ts=ts, id=ts if number is None else number, source="a")


def test_the_least_promise_counts_and_none_leaves_a_raw_type_open() -> None:
    promises = CombinedWatermarks()
    promises.offer("p1", ["Hit"])
    assert promises.values == {}
    assert promises.open == {"Hit"}
    promises.promise("p1", {"Hit": 10})
    assert promises.values == {"Hit": 10}
    promises.offer("p2", ["Hit"])
    assert promises.values == {}
    promises.promise("p2", {"Hit": 7})
    assert promises.values == {"Hit": 10}, "never back"
    promises.promise("p2", {"Hit": 20})
    assert promises.values == {"Hit": 10}
    promises.promise("p1", {"Hit": 15})
    assert promises.values == {"Hit": 15}
    promises.leave("p1")
    assert promises.values == {"Hit": 20}
    assert not promises.open


def test_a_promise_of_a_type_that_nobody_reads_may_go_back_until_somebody_does() -> None:
    """World 20261595469: a node that read nothing had events of another node rejected, as if it had called them final."""
    promises = CombinedWatermarks(reads=["Pass"])
    promises.promise("p1", {"Hit": 10, "Pass": 10})
    assert (promises.floor("Hit"), promises.floor("Pass")) == (NEVER, 10)
    promises.promise("p2", {"Hit": 7, "Pass": 7})
    assert promises.values == {"Hit": 7, "Pass": 10}
    promises.read(["Hi*", "Hit"])
    promises.promise("p3", {"Hit": 5})
    assert promises.values == {"Hit": 7, "Pass": 10} and promises.floor("Hit") == 7
    again = CombinedWatermarks(reads=["Other"])
    again.restore(promises.state())
    again.offer("p4", ["Other"])
    again.promise("p4", {"Hit": 1, "Other": 3})
    assert again.values == {"Hit": 7, "Pass": 10, "Other": 3} and again.floor("Other") == 3
    for number in range(2_000):
        again.read([f"T{number}"])
    again.promise("p5", {"Further": 1})
    assert again.floor("Further") == 1, "beyond so many patterns, all types count as read"


def test_a_node_may_take_back_what_it_promised_of_a_derived_type_that_nobody_reads() -> None:
    promises = CombinedWatermarks(reads=["Pass"])
    promises.offer("node", [], ["Goal", "Pass"])
    for until in (5, 8, 6):
        promises.promise("node", {"Goal": until, "Pass": until}, is_node=True)
    assert promises.values == {"Goal": 6, "Pass": 8}
    assert (promises.floor("Goal"), promises.floor("Pass")) == (NEVER, 8)


def test_a_derived_type_is_held_at_never_until_it_is_promised() -> None:
    promises = CombinedWatermarks()
    promises.offer("node", [], ["Pass"])
    assert promises.values == {"Pass": NEVER}
    promises.promise("node", {"Pass": 5})
    promises.leave("node")
    assert promises.values == {"Pass": 5}, "held where it was: the node may come back"
    promises.offer("node", [], ["Pass"])
    promises.promise("node", {"Pass": 9})
    assert promises.values == {"Pass": 9}


def test_a_type_has_ended_when_all_its_origins_have_ended_it() -> None:
    promises = CombinedWatermarks()
    for origin in ("p1", "p2"):
        promises.offer(origin, ["Hit"])
        promises.promise(origin, {"Hit": END})
    promises.leave("p1")
    promises.leave("p2")
    assert promises.values == {"Hit": END}
    promises.offer("p3", ["Hit"])
    assert promises.open == {"Hit"}, "a new publisher opens it again"
    promises.leave("p3")
    assert promises.values == {"Hit": END}


def test_an_origin_that_dies_before_the_end_leaves_a_raw_type_open() -> None:
    promises = CombinedWatermarks()
    promises.promise("p1", {"Hit": 5})
    promises.leave("p1")
    assert promises.values == {}
    assert promises.open == {"Hit"}
    version = promises.version
    promises.leave("p1")
    promises.promise("p2", {})
    assert promises.version == version


def test_an_end_after_the_last_message_of_a_dead_peer_counts_once_that_peer_expires() -> None:
    for outlived in ([], ["Hit"]):
        promises = CombinedWatermarks(keeps_ends=False)
        for origin in ("long dead", "dead", "restarted"):
            promises.offer(origin, ["Hit"])
        promises.leave("long dead")
        promises.promise("restarted", {"Hit": END})
        promises.leave("restarted")
        assert promises.open == {"Hit"}
        promises.leave("dead", outlived)
        assert promises.values == dict.fromkeys(outlived, END)


def test_who_left_before_an_end_was_promised_does_not_open_the_type_again() -> None:
    promises = CombinedWatermarks(keeps_ends=False)
    promises.offer("dead", ["Hit"])
    promises.leave("dead")
    promises.promise("restarted", {"Hit": END})
    promises.leave("restarted")
    assert promises.values == {"Hit": END}


origins = st.sampled_from("xyz")
steps = st.lists(st.tuples(origins, st.sampled_from(["offer", "promise", "leave"]), st.integers(0, 20)), max_size=40)


@given(steps)
def test_combined_watermark_never_goes_back_and_never_beyond_a_live_origin(moves: list[tuple[str, str, int]]) -> None:
    promises, promised, last = CombinedWatermarks(), dict[str, int | None](), NEVER
    for origin, what, until in moves:
        if what == "offer":
            promises.offer(origin, ["Hit"])
            promised.setdefault(origin, None)
        elif what == "promise":
            promises.promise(origin, {"Hit": until})
            promised[origin] = max(until, promised.get(origin) or 0)
        else:
            promises.leave(origin)
            promised.pop(origin, None)
        value = promises.values.get("Hit")
        if any(promise is None for promise in promised.values()):
            assert value is None
            assert "Hit" in promises.open
        elif promised:
            least = min(promise for promise in promised.values() if promise is not None)
            assert value == max(last, least)
        if value is not None:
            assert value >= last
            last = value


@given(st.lists(st.tuples(st.integers(1, 30), st.sampled_from(["insert", "revise", "retract", "watermark"])), max_size=60))
def test_the_barrier_lets_each_final_event_go_once_in_total_order(moves: list[tuple[int, str]]) -> None:
    barrier, there, promised, number = Barrier(["Hit"]), dict[int, Hit](), 0, 0
    released: list[Event] = []
    for ts, what in moves:
        batch = Batch({"Hit": Delta()}, {})
        changeable = [event for event in there.values() if event.ts > promised]
        if what == "insert" and ts > promised:
            number += 1
            there[number] = hit(ts, number)
            batch.deltas["Hit"].inserts.append(there[number])
        elif what == "revise" and changeable and ts > promised:
            new = hit(ts, changeable[0].id, "new")
            batch.deltas["Hit"].revises.append((changeable[0], new))
            there[new.id] = new
        elif what == "retract" and changeable:
            batch.deltas["Hit"].retracts.append(there.pop(changeable[0].id))
        elif what == "watermark":
            promised = max(promised, ts)
            batch.watermarks["Hit"] = promised
        released += barrier.take(batch)
        assert released == sorted((e for e in there.values() if e.ts <= promised), key=ORDER)
    assert not barrier.violations
    released += barrier.take(Batch(watermarks={"Hit": END}))
    assert released == sorted(there.values(), key=ORDER)
    assert len(barrier) == 0


came_as = st.sampled_from(["rows", "columns", "blocks", "blocks"])
read_as = st.sampled_from(["rows", "columns", "deltas", "deltas"])
steps = st.sampled_from(["insert", "insert", "revise", "retract", "watermark"])


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 30), steps, came_as, read_as)))
def test_the_barrier_lets_the_same_go_in_columns(moves: list[tuple[int, str, str, str]]) -> None:
    """What is inserted in either form, and taken in either form."""
    plain, barrier = Barrier(["Hit"]), Barrier(["Hit"])
    there: list[Event] = []
    for number, (ts, what, came, read) in enumerate(moves):
        batch = Batch({"Hit": Delta()}, {})
        if what == "insert":
            new: list[Event] = [hit(ts + n % 3, 10 * number + n) for n in range(4)]
            there += new
            columns = given_as(came, new)
            batch.deltas["Hit"] = Delta(columns or new)
        elif what == "watermark":
            batch.watermarks["Hit"] = ts
        elif there:  # it may be final already
            old = there.pop(ts % len(there))
            if what == "retract":
                batch.deltas["Hit"].retracts.append(old)
            else:
                there.append(hit(ts, old.id, "new"))
                batch.deltas["Hit"].revises.append((old, there[-1]))
        expected = plain.take(Batch({"Hit": batch.deltas["Hit"]}, batch.watermarks))
        if read == "columns":
            free = barrier.take_columns(batch, drops=Counter())
            assert [event for columns in free.values() for event in columns.events()] == expected
        elif read == "deltas":
            assert [event for free in barrier.take_deltas(batch).values() for event in free.inserts] == expected
        else:
            assert barrier.take(batch) == expected
        assert (len(barrier), barrier.violations, barrier.watermark) == (len(plain), plain.violations, plain.watermark)
    assert barrier.forget() == len(plain) and len(barrier) == 0


def given_as(came: str, events: list[Event]) -> Block | None:
    if came == "rows":
        return None
    kind = type(events[0])
    if came == "columns":
        return Block.from_events(kind, events)
    half = len(events) // 2
    first, second = (native.in_columns(reader_of(kind), part) for part in (events[:half], events[half:]))
    return Block.from_core(kind, first).joined([Block.from_core(kind, second)])


marks = st.sampled_from([None, None, "Hit", "Pass"])
each = st.tuples(st.integers(1, 9), st.booleans(), st.integers(0, 1), st.sampled_from("ab"))
several = st.lists(each, min_size=1, max_size=9)


@settings(deadline=None)
@given(st.lists(st.tuples(several, marks, st.integers(1, 9), came_as, st.booleans()), max_size=12), read_as)
def test_events_of_several_types_go_in_total_order(moves: list[Any], read: str) -> None:
    """With sources and levels; in deltas and columns by type. Pickled on the way, it continues."""
    plain, barrier, number = Barrier(["Hit", "Pass"]), Barrier(["Hit", "Pass"]), 0
    for drawn, mark, until, came, is_pickled in moves:
        batch, rows = Batch({}, {mark: until} if mark else {}), Batch({}, {mark: until} if mark else {})
        for kind in (Hit, Pass):
            events = list[Event]()
            for ts, is_hit, level, source in drawn:
                number += 1
                if is_hit == (kind is Hit):
                    events.append(kind(ts=ts, id=number, source=source, level=level))
            columns = given_as(came, events) if events else None
            batch.deltas[kind.__name__] = Delta(columns or events)
            rows.deltas[kind.__name__] = Delta(events)
        if is_pickled:
            barrier = pickle.loads(pickle.dumps(barrier))
        expected = plain.take(rows)
        by_type = [[event for event in expected if type(event) is kind] for kind in (Hit, Pass)]
        if read == "rows":
            assert barrier.take(batch) == expected
        elif read == "columns":
            found = barrier.take_columns(batch, drops=Counter())
            assert [found[name].events() if name in found else [] for name in ("Hit", "Pass")] == by_type
        else:
            free = barrier.take_deltas(batch)
            assert [free[name].inserts if name in free else [] for name in ("Hit", "Pass")] == by_type
        assert (len(barrier), barrier.violations, barrier.watermark) == (len(plain), plain.violations, plain.watermark)


def test_the_barrier_waits_for_every_type_it_knows() -> None:
    barrier = Barrier(["Hit", "Pass"])
    assert barrier.take(Batch({"Hit": Delta([hit(1)])}, {"Hit": 9})) == []
    assert barrier.take(Batch({}, {"Pass": 0})) == []
    assert barrier.take(Batch({}, {"Pass": 1})) == [hit(1)]
    wide = Barrier(["*"])
    assert wide.take(Batch({"Hit": Delta([hit(1)])}, {"Pass": 9})) == []
    assert wide.take(Batch({}, {"Hit": 3, "Pass": 9})) == [hit(1)]
    assert wide.watermark == 3


name = st.sampled_from(["Hit", "Pass"])


@given(st.lists(st.tuples(name, st.integers(0, 2), st.sets(name)), max_size=8))
@example([("Hit", 0, {"Hit"}), ("Pass", 1, {"Hit"})])
def test_a_type_that_is_new_makes_nothing_final_before_it_promises(moves: list[tuple[str, int, set[str]]]) -> None:
    """In deltas, too, which pass on what is final as it comes."""
    plain, barrier, now = Barrier(["*"]), Barrier(["*"]), 1
    for number, (kind, passed, promising) in enumerate(moves):
        now += passed
        event: Event = {"Hit": Hit, "Pass": Pass}[kind](ts=now, id=number, source="s")
        batch = Batch({kind: Delta([event])}, dict.fromkeys(promising, now))
        expected = plain.take(batch)
        free = barrier.take_deltas(batch)
        assert sorted((event for delta in free.values() for event in delta.inserts), key=ORDER) == expected
        assert (len(barrier), barrier.violations, barrier.watermark) == (len(plain), plain.violations, plain.watermark)


def test_a_barrier_that_joins_a_stream_holds_what_earlier_events_become() -> None:
    barrier = Barrier(["Hit"], joins=True)
    assert barrier.take(Batch({"Hit": Delta([hit(9)])}, {"Hit": 3})) == []
    changes = Delta([], [(hit(5), hit(5, text="new")), (hit(6), hit(2))], [hit(7)])
    assert barrier.take(Batch({"Hit": changes}, {"Hit": 4})) == []
    assert barrier.violations == {"event at or below the watermark promised": 1}
    assert barrier.take(Batch({"Hit": Delta([], [(hit(3), hit(8))], [hit(4)])}, {"Hit": END})) == [hit(5, text="new"), hit(9)]
    assert barrier.violations == {
        "event at or below the watermark promised": 1,
        "revision of what is final or unknown": 1,
        "retraction of what is final or unknown": 1,
    }


def test_changes_to_what_is_final_are_counted_and_not_let_go() -> None:
    barrier = Barrier(["Hit"])
    assert barrier.take(Batch({"Hit": Delta([hit(1), hit(5)])}, {"Hit": 3})) == [hit(1)]
    late = Delta([hit(2)], [(hit(1), hit(1, text="new"))], [hit(1)])
    assert barrier.take(Batch({"Hit": late}, {"Hit": 2})) == []
    assert barrier.violations == {
        "event at or below the watermark promised": 1,
        "revision of what is final or unknown": 1,
        "retraction of what is final or unknown": 1,
    }
    assert barrier.take(Batch({}, {"Hit": END})) == [hit(5)]
