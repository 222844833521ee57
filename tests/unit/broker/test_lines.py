"""A log that lacks its end continues under another identity: a reader within the common part continues, any other gets a
gap."""

from __future__ import annotations

from middleware.broker.log.log import Log
from middleware.broker.log.log_records import PeerKey, Record
from middleware.link.codec import BlockHead, Interest
from middleware.model.event import END

NODE: PeerKey = ("node", "b")
SUBSCRIBER: PeerKey = ("subscriber", "s")


def logged(log: Log, blocks: int) -> list[Record]:
    records = []
    for _ in range(blocks):
        log.made(BlockHead("Ping", 1), b"x")
        record = log.close({})
        assert record is not None
        records.append(record)
    return records


def cut(common: int = 6) -> Log:
    log = Log(1, lambda offset, size: iter(()))
    logged(log, 6)
    log.subscribed(NODE, Interest(1, ["Ping"]))
    log.subscribed(SUBSCRIBER, Interest(1, ["Ping"], resumes=True))
    log.renewed(2, common)
    log.broken([], ["Ping"])
    logged(log, 4)
    return log


def at(line: int, offset: int) -> Interest:
    return Interest(1, ["Ping"], line=line, offset=offset)


def test_a_reader_of_what_both_have_resumes_where_it_was() -> None:
    log = cut()
    for offset in (0, 4, 6):  # the break comes to it in its place, as block 7
        assert log.start_of(NODE, at(1, offset)) == (offset, False)


def test_a_reader_of_what_is_lost_has_a_gap_and_resumes_where_the_log_was_cut() -> None:
    log = cut()
    for offset in (7, 9, 10, 50):
        assert log.start_of(NODE, at(1, offset)) == (6, True)
    assert log.start_of(NODE, at(2, 9)) == (9, False)
    assert log.start_of(NODE, at(99, 3)) == (0, True)


def test_what_a_reader_of_a_former_line_subscribed_to_may_be_lost_with_its_end() -> None:
    """World 20261597811: a node that had read types made since the cut got no gap, as its subscription had been cut off."""
    for line, is_told in ((1, True), (2, False)):
        log = cut()
        log.subscribed(NODE, Interest(2, ["Pong"]))
        log.subscribed(NODE, Interest(3, ["Ping", "Pong"], line=line, offset=6))
        assert log.readers[NODE].was_subscribed(7, "Ping") == is_told


def test_a_log_that_is_cut_again_counts_only_what_all_have() -> None:
    log = cut()
    log.renewed(3, 4)
    assert log.start_of(NODE, at(1, 4)) == log.start_of(NODE, at(2, 4)) == (4, False)
    assert log.start_of(NODE, at(1, 5)) == log.start_of(NODE, at(2, 5)) == (4, True)


def test_another_log_has_nothing_in_common() -> None:
    log = cut(0)
    assert log.start_of(NODE, at(1, 3)) == (0, True)


def test_identities_outlive_the_process() -> None:
    log = cut()
    restored = Log(1, lambda offset, size: iter(()))
    restored.restore(log.state())
    assert (restored.line, restored.former) == (log.line, log.former) == (2, {1: 6})
    again = Log(1, lambda offset, size: iter(()))
    for record in logged(Log(1, lambda offset, size: iter(())), 3):
        again.passed(record)
    lost = Log(1, lambda offset, size: iter(()))
    lost.renewed(7, 3)
    record = lost.close({})
    assert record is not None
    again.passed(record)
    assert (again.line, again.former) == (7, {1: 3})


def test_many_losses_are_remembered_in_bounds() -> None:
    log = Log(1, lambda offset, size: iter(()))
    for line in range(2, 100):
        log.renewed(line, 5)
    assert len(log.former) == 16
    assert min(log.former) == 83


def test_a_reader_shows_that_a_log_is_older_than_what_it_has() -> None:
    log = cut()
    log.began = 7
    for is_first, most in ((True, 7), (False, log.offset)):
        assert not log.is_outrun(NODE, at(2, most), 0, is_first)
        assert log.is_outrun(NODE, at(2, most + 1), 0, is_first)
        assert not log.is_outrun(NODE, at(1, 10**6), 0, is_first), "it has another log's places"
    marked = Interest(1, ["Ping"], resumes=True, after=(50, 0, "s", 1))
    assert log.is_outrun(SUBSCRIBER, marked, 49, True)
    assert not log.is_outrun(SUBSCRIBER, marked, 50, True)
    assert not log.is_outrun(("subscriber", "new"), marked, 49, True), "its finals may be of another node"


def test_a_reader_is_not_stuck_where_nothing_stored_can_be_read() -> None:
    """All that is stored behind its place is damaged: it continues with what is not stored yet, and sees by its number that
    something is missing before it.
    """
    log = Log(1, lambda offset, size: iter(()))
    logged(log, 3)
    log.kept(3)
    assert log.blocks_after(1) == ([], 3)
    assert log.oldest == 3, "so a reader gets a gap"
    logged(log, 2)
    found, reached = log.blocks_after(1)
    assert ([number for number, *_ in found], reached) == ([4, 5], 5)


def test_a_reader_is_not_stuck_where_only_records_without_blocks_can_be_read() -> None:
    """Seen by seed 1009703: the record with blocks was damaged, those behind it had none, and the node read these for ever."""
    kept: list[Record] = []
    log = Log(1, lambda offset, size: iter(kept))
    logged(log, 3)
    log.kept(3)
    log.stepped(7)
    record = log.close({}, even_empty=True)
    assert record is not None and not [*record.blocks()]
    kept.append(record)
    log.kept(record.number)
    assert log.blocks_after(1) == ([], 3)


def test_a_unit_that_is_at_the_end_again_is_named_in_the_record_of_a_step_in_which_streams_resume() -> None:
    """A replay lets it resume, and would leave it there (world 20261560248); one that was away is not named."""
    log = Log(1, lambda offset, size: iter(()))
    for resumes, named in ((False, {"there": END, "away": END}), (False, None), (True, {"there": END}), (False, None)):
        log.stepped(7, resumes)
        record = log.close({"there": END, "away": END} if named and "away" in named else {"there": END})
        assert (record.finals if record is not None else None) == named
