"""When a peer is sent watermarks and clock: with events at once, without them not too often, after a quiet time at once."""

import pytest

from middleware.broker.pacing import AT_ONCE, spacing
from middleware.broker.peers.peers import SPREAD, Peer
from middleware.link.codec import BlockHead, decode_payload
from middleware.link.link import Link
from middleware.model.event import NEVER
from middleware.model.time import MILLISECOND


class Told(Link):
    """A link that keeps what is sent."""

    def __init__(self) -> None:
        super().__init__("here", "node", 1, 0, dials=True)
        self.sent: list[list[bytes]] = []

    def send(self, parts: list[bytes]) -> int:  # type: ignore[override]
        self.sent.append(parts)
        return len(self.sent)


@pytest.fixture
def peer() -> Peer:
    return Peer("node", "there", Told(), "there")


def tell(peer: Peer, version: int, clock: int, now: int, event: bool = False) -> bool:
    """What a broker does at the end of a step; whether anything was sent."""
    before = len(peer.link.sent)  # type: ignore[attr-defined]
    if event:
        peer.take(BlockHead("Ping", 1), b"\x90", 0)
    watermarks = {"Ping": version} if peer.news_due(version, clock, now) else None
    peer.post(watermarks, version, clock if watermarks is not None else NEVER, now)
    return len(peer.link.sent) > before  # type: ignore[attr-defined]


def test_a_watermark_right_behind_events_is_sent_at_once(peer: Peer) -> None:
    assert tell(peer, 1, 10, now=0, event=True)
    assert tell(peer, 2, 10, now=1 * MILLISECOND), "nothing was sent without events for long"
    assert not tell(peer, 3, 10, now=2 * MILLISECOND), "but now something was"
    assert not tell(peer, 4, 10, now=SPREAD)
    assert tell(peer, 5, 10, now=SPREAD + 1 * MILLISECOND)


def test_clock_marks_do_not_hold_watermark_up_nor_come_too_often(peer: Peer) -> None:
    assert tell(peer, 1, 10, now=0)
    sent = [tell(peer, 1, 10 + step, now=step * MILLISECOND) for step in range(1, 61)]
    assert sum(sent) == 60 * MILLISECOND // SPREAD
    assert tell(peer, 2, 70, now=61 * MILLISECOND), "a mark went out a moment ago, but watermarks did not"


def test_no_news_is_not_sent(peer: Peer) -> None:
    assert tell(peer, 1, 10, now=0)
    assert not tell(peer, 1, 10, now=10 * SPREAD)
    assert tell(peer, 1, 10, now=11 * SPREAD, event=True), "the event, that is"


def test_watermarks_of_very_many_types_wait_a_moment_behind_events_but_turns_do_not(peer: Peer) -> None:
    many = AT_ONCE + 100

    def is_due(version: int, now: int, turns: int = 1) -> bool:
        peer.take(BlockHead("Ping", 1), b"\x90", 0)
        due = peer.news_due(version, version, now, turns, many)
        clock = version if due or peer.may_tick(turns) else NEVER
        peer.post({"Ping": version} if due else None, version, clock, now, turns=turns)
        return due

    assert is_due(1, 0)
    assert not is_due(2, spacing(many) - 1)
    assert is_due(3, spacing(many))
    assert is_due(4, spacing(many) + 1, turns=2), "a type has ended, say"
    sent = [decode_payload(parts) for parts in peer.link.sent]  # type: ignore[attr-defined]
    assert [each.clock for each in sent] == [1, 2, 3, 4], "a mark goes with events, if the peer knows what follows it"
