"""The core of a subscription, without link or network: arrivals, reads, and commits."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.delivery.barrier import Barrier
from middleware.delivery.subscription import Interruption, Subscription
from middleware.link.codec import (
    Changes,
    Commit,
    EventCodec,
    Gap,
    Interest,
    LastCommit,
    Ready,
    SinkPosition,
    decode_payload,
    encode,
)
from middleware.link.encoding import encode_delta
from middleware.link.frames import Parts, payload_size
from middleware.model.block.block import Block
from middleware.model.change import Batch, Delta, Insert
from middleware.model.event import END, NEVER, ORDER, Event, EventTypes


class Tick(Event):
    n: int = 0


def tick(ts: int, n: int = 0) -> Tick:
    return Tick(n, ts=ts, id=ts, source="t")


def payload(
    inserts: list[Tick] | None = None,
    until: int | None = None,
    log_offset: tuple[int, int] = (0, 0),
    retracts: list[Tick] | None = None,
    in_columns: bool = False,
) -> Parts:
    delta = Delta(list(inserts or []), retracts=list(retracts or []))
    if in_columns and inserts:
        delta = Delta(Block.from_events(Tick, inserts), retracts=delta.retracts, early=inserts[0].ts)
    blocks = encode_delta("Tick", delta, fewest=1) if delta else []
    changes = Changes(None, {"Tick": until} if until is not None else None, [head for head, _ in blocks], *log_offset)
    return [encode(changes), *(block for _, block in blocks)]


def subscription(final: bool = True, resumes: bool = False, after: SinkPosition | None = None) -> Subscription:
    return Subscription(["Tick"], EventCodec(EventTypes([Tick])), final=final, resumes=resumes, after=after)


def finals(reader: Subscription) -> list[int]:
    """The times of what is final, of all that there is to take."""
    found: list[int] = []
    while reader.pending:
        found += [change.event.ts for change in reader.changes(reader.take()[0]) if isinstance(change, Insert)]
    return found


def interest(parts: Parts) -> Interest:
    found = decode_payload(parts)
    assert isinstance(found, Interest)
    return found


def test_what_arrived_together_is_read_together_but_never_across_a_gap() -> None:
    reader = subscription()
    for parts in (payload([tick(1)]), payload([tick(2)]), [encode(Gap(0, 0))], payload([tick(3)], until=5), payload([tick(7)])):
        reader.receive(parts)
    before, _ = reader.take()
    assert len(before) == 2 and not reader.interruptions
    assert reader.changes(before) == []
    behind, _ = reader.take()
    assert reader.interruptions == [Interruption(2)], "both were held back"
    assert len(behind) == 2
    assert [change.event.ts for change in reader.changes(behind) if isinstance(change, Insert)] == [3]
    assert reader.drops == {"interruption": 1}


def test_all_the_credit_is_given_back_and_no_more() -> None:
    reader = subscription()
    sent = [
        [encode(Ready(1))],
        payload([tick(1)]),
        [encode(LastCommit(None))],
        payload(until=3),
        [encode(Gap(0, 0))],
        [b"\xc1"],
    ]
    for parts in sent:
        reader.receive(parts)
    given = 0
    while reader.pending:
        given += reader.take()[1]
    assert given == sum(map(payload_size, sent))
    assert reader.ready


def test_what_came_over_a_link_that_is_gone_costs_nothing_of_the_next_one() -> None:
    reader = subscription()
    reader.receive(payload([tick(1)], log_offset=(7, 1)))
    reader.restarted()
    reader.receive(payload([tick(2)], log_offset=(7, 2)))
    arrived, size = reader.take()
    assert len(arrived) == 2, "it is read all the same"
    assert size == payload_size(payload([tick(2)], log_offset=(7, 2)))


def test_a_node_with_a_log_knows_the_position_and_one_without_has_left_a_gap() -> None:
    with_log, without = subscription(), subscription()
    with_log.receive(payload([tick(1)], log_offset=(7, 3)))
    without.receive(payload([tick(1)]))
    again = interest(with_log.restarted())
    assert (again.line, again.offset) == (7, 3)
    assert interest(without.restarted()).line == 0
    for reader in (with_log, without):
        reader.receive(payload([tick(2)], until=2, log_offset=(7, 4) if reader is with_log else (0, 0)))
    assert (finals(with_log), with_log.drops) == ([1, 2], {})
    assert (finals(without), without.drops) == ([2], {"interruption": 1})


def test_who_was_promised_nothing_yet_misses_nothing_in_a_restart() -> None:
    reader, ready = subscription(), subscription()
    reader.restarted()
    ready.receive([encode(Ready(1))])
    ready.restarted()
    assert not ready.ready
    ready.restarted()  # still nothing has arrived: one gap is enough
    for each in (reader, ready):
        each.receive(payload([tick(1)], until=1))
        assert finals(each) == [1]
    assert reader.drops == {}
    assert ready.drops == {"interruption": 1}


@pytest.mark.parametrize(("word", "gaps"), [(LastCommit(None), 0), (Gap(7, 0), 1), (Ready(1), 1)])
def test_a_name_has_its_place_in_a_restart_if_the_node_still_knows_it(word: LastCommit | Gap | Ready, gaps: int) -> None:
    reader = subscription(resumes=True)
    reader.restarted()  # before anything has arrived
    reader.restarted()
    reader.receive([encode(word)])
    reader.receive(payload([tick(1)], until=1, log_offset=(8, 1)))
    assert finals(reader) == [1]
    assert reader.drops["interruption"] == gaps


def test_a_node_that_comes_back_without_the_log_that_it_had_has_left_a_gap() -> None:
    reader = subscription()
    reader.receive(payload([tick(1)], log_offset=(7, 1)))
    reader.restarted()
    reader.receive(payload([tick(2)], until=2))
    assert finals(reader) == [2]
    assert reader.drops == {"interruption": 1}


def test_a_payload_that_cannot_be_read_may_have_withdrawn_something() -> None:
    reader = subscription()
    reader.receive(payload([tick(1)]))
    reader.receive([payload(until=1)[0], b"one part too many"])
    reader.receive(payload(until=1))
    assert finals(reader) == []
    assert reader.drops["interruption"] == 1
    assert reader.drops.total() == 2


def test_a_name_resumes_behind_what_was_committed_to_the_node() -> None:
    reader = subscription(resumes=True)
    reader.receive([encode(LastCommit(ORDER(tick(2))))])
    reader.receive(payload([tick(1), tick(2), tick(3)], until=3, log_offset=(7, 3)))
    assert finals(reader) == [3]
    sink = subscription(resumes=True, after=ORDER(tick(1)))
    sink.receive([encode(LastCommit(ORDER(tick(1))))])
    sink.receive(payload([tick(1), tick(2), tick(3)], until=3, log_offset=(7, 3)))
    assert finals(sink) == [2, 3]
    assert sink.drops == {}


def test_a_sink_that_has_less_than_was_committed_has_a_gap() -> None:
    sink = subscription(resumes=True, after=ORDER(tick(1)))
    sink.receive([encode(LastCommit(ORDER(tick(4))))])
    sink.receive(payload([tick(5)], until=5, log_offset=(7, 5)))
    arrived, _ = sink.take()
    assert sink.interruptions == [Interruption(0, ORDER(tick(4)))]
    assert len(sink.changes(arrived)) == 2


def test_watermarks_are_announced_once_and_cover_what_is_buffered() -> None:
    reader = subscription(resumes=True)
    assert reader.commit() is None
    reader.receive(payload([tick(1)], until=1, log_offset=(7, 1)))
    reader.receive(payload([tick(9)], log_offset=(7, 2)))
    assert finals(reader) == [1]
    assert reader.commit() == [encode(Commit(7, 0, ORDER(tick(1))))], "both came together"
    assert reader.commit() is None
    reader.receive(payload(until=9, log_offset=(7, 3)))
    assert finals(reader) == [9]
    assert reader.commit() == [encode(Commit(7, 3, ORDER(tick(9))))]
    reader.receive([encode(Gap(8, 3))])
    reader.receive(payload(until=END, log_offset=(8, 3)))
    assert finals(reader) == []
    assert reader.commit() == [encode(Commit(8, 3, ORDER(tick(9))))], "the same place in another log is news"
    unnamed = subscription()
    unnamed.receive(payload([tick(1)], until=1, log_offset=(7, 1)))
    assert (finals(unnamed), unnamed.commit()) == ([1], None)


def test_an_early_reader_commits_the_place_of_what_it_took() -> None:
    reader = subscription(final=False, resumes=True)
    for offset in (1, 2):
        reader.receive(payload([tick(offset)], log_offset=(7, offset)))
    assert len(reader.changes(reader.take()[0])) == 2
    reader.receive(payload([tick(3)], log_offset=(7, 3)))
    assert reader.commit() == [encode(Commit(7, 2))]


@pytest.mark.parametrize("seed", range(20))
def test_killed_at_any_moment_and_served_from_its_cursor_on_a_sink_has_each_final_once(seed: int) -> None:
    """A log of steps; a sink that reads any number at once, is killed, and comes back under its name with its mark."""
    rng = random.Random(seed)
    log = a_log(rng)
    stored: list[Event] = []
    offset, at, end = 0, 0, len(log)
    reader = subscription(resumes=True)
    while at < end or reader.pending:
        for _ in range(rng.randint(0, 4)):
            if at < end:
                reader.receive(log[at])
                at += 1
        arrived, _ = reader.take()
        stored += [change.event for change in reader.changes(arrived) if isinstance(change, Insert)]
        if rng.random() < 0.7 and (commit := reader.commit()) is not None:
            committed = decode_payload(commit)
            assert isinstance(committed, Commit)
            offset = committed.offset
        if rng.random() < 0.2:
            reader = subscription(resumes=True, after=ORDER(stored[-1]) if stored else None)
            at = offset
        assert reader.drops == {}
    assert stored == plain(log)


@pytest.mark.parametrize("seed", range(30))
def test_finals_are_the_same_however_much_is_taken_at_once_and_in_whatever_form(seed: int) -> None:
    rng = random.Random(seed)
    log = a_log(rng, in_columns=True)
    reader, found, at = subscription(), list[Event](), 0
    while at < len(log) or reader.pending:
        for parts in log[at : (at := at + rng.randint(0, 9))]:
            reader.receive(parts)
        arrived, _ = reader.take()
        form = rng.choice(["changes", "batch", "deltas", "table"])
        if form == "changes":
            found += [change.event for change in reader.changes(arrived) if isinstance(change, Insert)]
        elif form == "batch":
            found += [event for delta in reader.batch(arrived).deltas.values() for event in delta.inserts]
        elif form == "deltas":
            found += [event for delta in reader.deltas(arrived) for event in delta.inserts]
        else:
            tables = reader.tables(arrived).values()
            found += [event for table in tables for event in Block.of(Tick, table).events()]
    assert found == plain(log)
    assert reader.drops == {}


def a_log(rng: random.Random, in_columns: bool = False) -> list[Parts]:
    """Payloads one offset apart: insertions, retractions, revisions by retraction, and promises that are kept."""
    provisional: dict[int, Tick] = {}
    log: list[Parts] = []
    until = 0
    for offset in range(1, 40):
        retracts = [provisional.pop(ts) for ts in list(provisional) if ts > until and rng.random() < 0.2]
        inserts = {ts: tick(ts, offset) for ts in rng.sample(range(until + 1, until + 12), 3) if ts not in provisional}
        provisional |= inserts
        if rng.random() < 0.5:
            until += rng.randint(0, 6)
        log.append(payload(list(inserts.values()), until, (7, offset), retracts, in_columns and rng.random() < 0.8))
    return [*log, payload(until=END, log_offset=(7, 40))]


def plain(log: list[Parts]) -> list[Event]:
    """What a barrier makes of it, payload by payload."""
    codec, barrier, found = EventCodec(EventTypes([Tick])), Barrier(["Tick"]), list[Event]()
    for parts in log:
        changes = decode_payload(parts)
        assert isinstance(changes, Changes)
        delta = Delta()
        for head, block in zip(changes.blocks, parts[1:], strict=True):
            part = codec.decode(head, block, {})  # type: ignore[arg-type]
            delta = Delta([*delta.inserts, *part.inserts], retracts=delta.retracts + part.retracts)
        found += barrier.take(Batch({"Tick": delta}, changes.watermarks or {}))
    assert not barrier.violations
    return found


@settings(max_examples=140, deadline=None)
@given(
    st.lists(
        st.one_of(st.binary(max_size=40), st.sampled_from([encode(Ready(1)), encode(Gap(0, 0)), encode(LastCommit(None))]))
    )
)
def test_whatever_a_node_says_the_reader_lives_and_owes_no_credit(words: list[bytes]) -> None:
    reader = subscription(resumes=True)
    sent = [[word] for word in words] + [payload([tick(1)], until=1, log_offset=(7, 1))]
    given_back = 0
    for parts in sent:
        reader.receive(parts)
    while reader.pending:
        arrived, size = reader.take()
        reader.changes(arrived)
        given_back += size
    assert given_back == sum(map(payload_size, sent))


def test_what_has_stopped_is_reported_and_what_came_before_stands() -> None:
    reader = subscription()
    for parts in (payload([tick(1), tick(4)]), [encode(Gap(0, 0, ["Low"], True))], payload(until=3)):
        reader.receive(parts)
    assert finals(reader) == [1], "it was withdrawn by name, so the rest is still good"
    assert reader.interruptions == [Interruption(0, stopped=("Low",))]


def test_what_was_promised_before_its_publishers_left_counts() -> None:
    reader = subscription()
    reader.receive(payload([tick(1), tick(9)], 5))
    reader.receive(payload([], NEVER))
    assert finals(reader) == [1] and reader.watermark == 5
