"""A log that lacks its end goes on under another identity: who has read what both have goes on, anyone else gets a gap."""

from __future__ import annotations

from middleware.broker.log import Journal, PeerKey, Record
from middleware.link.codec import BlockHead, Interest

NODE: PeerKey = ("node", "b")
SUBSCRIBER: PeerKey = ("subscriber", "s")


def logged(journal: Journal, blocks: int) -> list[Record]:
    records = []
    for _ in range(blocks):
        journal.made(BlockHead("Ping", 1), b"x")
        record = journal.close({})
        assert record is not None
        records.append(record)
    return records


def cut(common: int = 6) -> Journal:
    journal = Journal(1, lambda position, size: iter(()))
    logged(journal, 6)
    journal.told(NODE, Interest(1, ["Ping"]))
    journal.told(SUBSCRIBER, Interest(1, ["Ping"], resumes=True))
    journal.renewed(2, common)
    journal.broken(NODE, [], ["Ping"])
    logged(journal, 4)
    return journal


def at(line: int, position: int) -> Interest:
    return Interest(1, ["Ping"], line=line, position=position)


def test_a_reader_of_what_both_have_goes_on_where_it_was() -> None:
    journal = cut()
    for position in (0, 4, 6):  # the break comes to it in its place, as block 7
        assert journal.start_of(NODE, at(1, position)) == (position, False)


def test_a_reader_of_what_is_lost_has_a_gap_and_goes_on_where_the_log_was_cut() -> None:
    journal = cut()
    for position in (7, 9, 10, 50):
        assert journal.start_of(NODE, at(1, position)) == (6, True)
    assert journal.start_of(NODE, at(2, 9)) == (9, False)
    assert journal.start_of(NODE, at(99, 3)) == (0, True)


def test_a_log_that_is_cut_again_counts_only_what_all_have() -> None:
    journal = cut()
    journal.renewed(3, 4)
    assert journal.start_of(NODE, at(1, 4)) == journal.start_of(NODE, at(2, 4)) == (4, False)
    assert journal.start_of(NODE, at(1, 5)) == journal.start_of(NODE, at(2, 5)) == (4, True)


def test_another_log_has_nothing_in_common() -> None:
    journal = cut(0)
    assert journal.start_of(NODE, at(1, 3)) == (0, True)


def test_identities_outlive_the_process() -> None:
    journal = cut()
    restored = Journal(1, lambda position, size: iter(()))
    restored.restore(journal.state())
    assert (restored.line, restored.former) == (journal.line, journal.former) == (2, {1: 6})
    again = Journal(1, lambda position, size: iter(()))
    for record in logged(Journal(1, lambda position, size: iter(())), 3):
        again.passed(record)
    lost = Journal(1, lambda position, size: iter(()))
    lost.renewed(7, 3)
    record = lost.close({})
    assert record is not None
    again.passed(record)
    assert (again.line, again.former) == (7, {1: 3})


def test_many_losses_are_remembered_in_bounds() -> None:
    journal = Journal(1, lambda position, size: iter(()))
    for line in range(2, 100):
        journal.renewed(line, 5)
    assert len(journal.former) == 16
    assert min(journal.former) == 83


def test_a_reader_shows_that_a_log_is_older_than_what_it_has() -> None:
    journal = cut()
    journal.began = 7
    for is_first, most in ((True, 7), (False, journal.position)):
        assert not journal.is_outrun(NODE, at(2, most), 0, is_first)
        assert journal.is_outrun(NODE, at(2, most + 1), 0, is_first)
        assert not journal.is_outrun(NODE, at(1, 10**6), 0, is_first), "it has another log's places"
    marked = Interest(1, ["Ping"], resumes=True, after=(50, 0, "s", 1))
    assert journal.is_outrun(SUBSCRIBER, marked, 49, True)
    assert not journal.is_outrun(SUBSCRIBER, marked, 50, True)
    assert not journal.is_outrun(("subscriber", "new"), marked, 49, True), "its finals may be of another node"


def test_a_reader_is_not_stuck_where_nothing_stored_can_be_read() -> None:
    """All that is stored behind its place is damaged: it goes on with what is not stored yet, and sees by its number that
    something is missing before it.
    """
    journal = Journal(1, lambda position, size: iter(()))
    logged(journal, 3)
    journal.kept(3)
    assert journal.blocks_after(1) == ([], 1)
    assert journal.oldest == 3, "which is how a reader is told of a gap"
    logged(journal, 2)
    found, reached = journal.blocks_after(1)
    assert ([number for number, *_ in found], reached) == ([4, 5], 5)
