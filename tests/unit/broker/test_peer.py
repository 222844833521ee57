"""When a peer is told of watermarks and clock: with events at once, without them not too often, after a quiet time at once."""

import pytest

from middleware.broker.peers import SPREAD, Peer
from middleware.link.codec import BlockHead
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


def test_watermark_right_behind_events_travels_at_once(peer: Peer) -> None:
    assert tell(peer, 1, 10, now=0, event=True)
    assert tell(peer, 2, 10, now=1 * MILLISECOND), "nothing was told without events for long"
    assert not tell(peer, 3, 10, now=2 * MILLISECOND), "but now something was"
    assert not tell(peer, 4, 10, now=SPREAD)
    assert tell(peer, 5, 10, now=SPREAD + 1 * MILLISECOND)


def test_clock_marks_do_not_hold_watermark_up_nor_come_too_often(peer: Peer) -> None:
    assert tell(peer, 1, 10, now=0)
    told = [tell(peer, 1, 10 + step, now=step * MILLISECOND) for step in range(1, 61)]
    assert sum(told) == 60 * MILLISECOND // SPREAD
    assert tell(peer, 2, 70, now=61 * MILLISECOND), "a mark went out a moment ago, but watermarks did not"


def test_no_news_is_not_told(peer: Peer) -> None:
    assert tell(peer, 1, 10, now=0)
    assert not tell(peer, 1, 10, now=10 * SPREAD)
    assert tell(peer, 1, 10, now=11 * SPREAD, event=True), "the event, that is"
