"""One link between two ends, message by message: numbers, credit, repeats, gaps, lives, silence, goodbye."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from middleware.link.frames import VERSION, Ack, Bye, Data, Hello, Parts, Refusal, decode_frame, payload_size
from middleware.link.link import HEARTBEAT, LAZY, MOST_WINDOW, PACE, RETRY, SILENCE, WINDOW, Link
from middleware.model.time import MILLISECOND, SECOND


class Pair:
    """A dialling end ``near`` and an accepting end ``far``; messages cross only on request."""

    def __init__(self, durable: bool = False) -> None:
        self.now = 0
        self.near = Link("near", "publisher", 100, 0, dials=True, durable=durable)
        self.far = Link("far", "node", 200, 0, dials=False)

    def cross(self, source: Link, target: Link, keep: slice | None = None) -> list[Parts]:
        """Carry what ``source`` wants to send (or that part of it) to ``target``; the payloads taken there."""
        messages, source.outbox = source.outbox, []
        taken = []
        for header, *parts in messages if keep is None else messages[keep]:
            payload = target.receive(decode_frame(header), parts, self.now)
            if payload is not None:
                taken.append(payload)
        return taken

    def both(self) -> tuple[list[Parts], list[Parts]]:
        """Carry everything to and fro until there is nothing left; the payloads taken at the far and the near end."""
        there: list[Parts] = []
        back: list[Parts] = []
        while self.near.outbox or self.far.outbox:
            there += self.cross(self.near, self.far)
            back += self.cross(self.far, self.near)
        for link in (self.near, self.far):
            link.check()
        return there, back

    def opened(self) -> Pair:
        self.near.tick(self.now)
        self.both()
        assert self.near.up
        assert self.far.up
        return self

    def later(self, nanoseconds: int) -> None:
        self.now += nanoseconds
        for link in (self.near, self.far):
            link.tick(self.now)


def numbered(first: int, count: int) -> list[Parts]:
    return [[str(number).encode()] for number in range(first, first + count)]


def test_payloads_arrive_once_in_order_and_are_acknowledged() -> None:
    pair = Pair()
    sent = numbered(0, 20)
    assert [pair.near.send(parts) for parts in sent[:10]] == list(range(1, 11)), "before the link is even open"
    pair.opened()
    for parts in sent[10:]:
        pair.near.send(parts)
    pair.far.send([b"back"])
    there, back = pair.both()
    assert there == sent[10:]  # the first ten crossed while it opened
    assert back == [[b"back"]]
    pair.far.settle(pair.now)
    assert not pair.far.outbox, "one acknowledgement is to stand for many"
    pair.later(LAZY)
    pair.far.settle(pair.now)
    pair.both()
    assert pair.near.idle
    pair.near.send([b"asked about"])
    pair.near.ask(pair.now)
    pair.both()
    pair.far.settle(pair.now)
    pair.both()
    assert pair.near.idle
    assert pair.near.acked == 21
    assert pair.near.statistics().resent == 0


def test_repeats_are_dropped_and_gaps_are_asked_for_again() -> None:
    pair = Pair().opened()
    for parts in numbered(0, 5):
        pair.near.send(parts)
    messages = list(pair.near.outbox)
    assert pair.cross(pair.near, pair.far, slice(0, 2)) == numbered(0, 2)
    pair.near.outbox = messages[:2] + messages[3:]
    assert pair.cross(pair.near, pair.far) == []
    assert pair.far.statistics().duplicates == 2
    assert pair.far.statistics().gaps == 2
    assert [frame.missing for [header] in pair.far.outbox if isinstance(frame := decode_frame(header), Ack)] == [True]
    assert pair.both()[0] == numbered(2, 3)


def test_the_last_frame_lost_is_found_missing_by_the_heartbeat() -> None:
    pair = Pair().opened()
    pair.near.send([b"lost"])
    pair.near.outbox.clear()
    pair.later(HEARTBEAT)
    assert pair.both()[0] == [[b"lost"]]


def test_no_more_is_under_way_than_there_is_credit_for() -> None:
    pair = Pair().opened()
    payload = [b"x" * (WINDOW // 4)]
    for _ in range(20):
        pair.near.send(payload)
    assert len(pair.both()[0]) == 4
    assert not pair.near.has_room
    assert pair.near.queued_bytes == 16 * payload_size(payload)
    pair.far.consume(2 * payload_size(payload))
    pair.far.settle(pair.now)
    assert len(pair.both()[0]) == 2
    pair.far.credit_paused = True
    pair.far.consume()
    pair.far.settle(pair.now)
    assert pair.both()[0] == [], "held"
    pair.far.credit_paused = False
    pair.far.consume()
    pair.far.settle(pair.now)
    assert len(pair.both()[0]) == 4


def under_way(pair: Pair) -> int:
    """How many bytes leave before there is no more credit."""
    before = pair.near.statistics().bytes_out
    while pair.near.has_room:
        pair.near.send([b"x" * 10_000])
        pair.both()
    return pair.near.statistics().bytes_out - before


def test_a_fast_reader_is_granted_what_it_takes_in_a_while_and_a_slow_one_no_more_than_before() -> None:
    pair = Pair().opened()
    granted = []
    for _ in range(60):
        granted.append(under_way(pair))
        pair.later(MILLISECOND)
        pair.far.consume()
        pair.far.settle(pair.now)
        pair.both()
    assert granted[0] < WINDOW + 40_000
    assert MOST_WINDOW <= granted[-1] < MOST_WINDOW + 40_000
    under_way(pair)
    for _ in range(MOST_WINDOW // 10_000):  # what was granted before is not taken back
        pair.later(PACE)
        pair.far.consume(10_000)
        pair.far.settle(pair.now)
        pair.both()
    assert under_way(pair) < WINDOW + 40_000


whats = st.sampled_from(["send", "cross", "hold", "send", "cross", "hold", "break", "shut", "leave"])
pauses = st.sampled_from([0, LAZY // 2, LAZY, RETRY, HEARTBEAT - LAZY, HEARTBEAT, SILENCE])


@given(st.lists(st.tuples(whats, pauses), min_size=10))
def test_the_end_of_a_step_is_consume_tick_and_settle(steps: list[tuple[str, int]]) -> None:
    pair = Pair(durable=True).opened()
    for what, pause in steps:
        pair.now += pause
        if what == "send":
            pair.near.send([b"x" * (WINDOW // 6)])
            pair.far.send([b"y"])
        elif what == "cross":
            pair.cross(pair.near, pair.far)
            pair.cross(pair.far, pair.near)
        elif what == "hold":
            pair.far.credit_paused = not pair.far.credit_paused
        elif what == "break":
            pair.near.outbox.clear()
            pair.near.broken()
        elif what == "shut":
            pair.far.shuts(not pair.far.shut, pair.now)
        elif what == "leave":
            pair.far.bye("leaves")
        for link in (pair.near, pair.far):
            twin = deepcopy(link)
            twin.consume()
            twin.tick(pair.now)
            twin.settle(pair.now)
            link.end_step(pair.now)
            assert vars(link) == vars(twin)


def test_a_held_end_grants_nothing_from_the_start() -> None:
    pair = Pair()
    pair.far.credit_paused = True
    pair.opened()
    pair.near.send([b"x"])
    assert pair.both()[0] == []
    pair.far.credit_paused = False
    pair.far.consume()
    pair.far.settle(pair.now)
    assert pair.both()[0] == [[b"x"]]


def test_what_was_sent_by_the_credit_of_a_former_life_is_let_fall_not_refused() -> None:
    one, other = Link("p", "publisher", 1, 0, dials=True, durable=True), Link("a", "node", 9, 0, dials=False)
    other.credit_paused = True
    one.say_hello(0)
    other.receive(decode_frame(one.outbox.pop()[0]), [], 0)
    assert other.receive(Data(1, 1, 0, 0, b"of before"), [], 0) is None
    assert other.closed is None and other.statistics().frames_in == 0


def test_credit_beyond_reason_is_not_used() -> None:
    pair = Pair().opened()
    pair.near.receive(Ack(200, 0, 2**62, 0), [], 0)
    for _ in range(100):
        pair.near.send([b"x" * (WINDOW // 4)])
    assert pair.near.statistics().unacked_bytes <= 5 * WINDOW


def test_acknowledgements_of_what_was_never_sent_do_no_harm() -> None:
    pair = Pair().opened()
    pair.near.receive(Ack(200, 1_000, WINDOW, 0), [], 0)
    pair.near.send([b"x"])
    assert pair.both()[0] == [[b"x"]]
    assert not pair.near.idle


def test_frames_of_another_life_are_refused_and_counted() -> None:
    pair = Pair().opened()
    assert pair.far.receive(Data(99, 1, 0, 0, b"x"), [], 0) is None
    pair.far.receive(Ack(99, 5, 0, 0), [], 0)
    pair.far.receive(Bye(99, 1, 0, 0), [], 0)
    pair.near.receive(Hello(1, "far", "node", 201, 99, 0, 0), [], 0)
    assert pair.far.statistics().old_epoch == 3
    assert pair.near.statistics().old_epoch == 1
    assert pair.far.closed is None


def test_a_break_is_healed_without_loss_or_repeat() -> None:
    pair = Pair().opened()
    for parts in numbered(0, 6):
        pair.near.send(parts)
    assert pair.cross(pair.near, pair.far, slice(0, 3)) == numbered(0, 3)
    pair.near.broken()
    pair.far.broken()
    pair.near.send([b"6"])
    pair.later(RETRY)
    assert pair.both()[0] == numbered(3, 4)
    assert pair.far.statistics().duplicates == 0
    pair.later(SILENCE - SECOND)
    assert pair.far.closed is None


def test_a_silent_peer_is_dead_and_a_talking_one_is_not() -> None:
    pair = Pair().opened()
    for _ in range(2 * SILENCE // HEARTBEAT):
        pair.later(HEARTBEAT)
        pair.both()
    assert pair.near.closed is None
    pair.later(SILENCE + 1)
    assert pair.far.closed is not None
    assert pair.far.closed.startswith("dead")
    broken = Pair().opened()
    broken.far.broken()
    broken.later(SILENCE - SECOND)
    assert broken.far.closed is None
    broken.later(SECOND + 1)
    assert broken.far.closed is not None


def test_a_durable_link_survives_the_peers_death_and_sends_again_what_was_not_acknowledged() -> None:
    pair = Pair(durable=True)
    pair.near.greeting = [b"greeting"]
    pair.near.send([b"acknowledged"])
    pair.opened()
    pair.near.ask(0)
    pair.both()
    pair.far.settle(0)
    pair.both()
    pair.near.send([b"under way"])
    pair.near.outbox.clear()
    pair.far = Link("far", "node", 300, pair.now, dials=False)
    pair.later(SILENCE + 1)
    assert pair.near.closed is None
    there, _ = pair.both()
    assert there == [[b"greeting"], [b"under way"]]
    assert pair.near.restarts == 1
    assert pair.near.epoch == 101


def test_a_peer_that_took_a_late_hello_of_a_former_life_for_the_present_one_is_corrected_at_once() -> None:
    pair = Pair(durable=True)
    pair.near.tick(0)
    (late,) = pair.near.outbox  # of the first life: a copy of it is still under way
    pair.opened()
    pair.far = Link("far", "node", 300, pair.now, dials=False)
    pair.near.broken()
    pair.later(RETRY)
    pair.both()
    assert pair.near.epoch == 101
    pair.far = Link("far", "node", 400, pair.now, dials=False)
    pair.far.receive(decode_frame(late[0]), [], pair.now)
    pair.cross(pair.far, pair.near)  # an answer to the former life, which is of no use
    pair.later(HEARTBEAT)
    pair.cross(pair.far, pair.near)
    pair.near.tick(pair.now + RETRY)
    hello = decode_frame(pair.near.outbox[-1][0])
    assert isinstance(hello, Hello)
    assert hello.epoch == 101


def test_any_other_link_is_closed_when_the_peer_has_restarted() -> None:
    pair = Pair().opened()
    pair.near.broken()
    pair.far = Link("far", "node", 300, 0, dials=False)
    pair.later(RETRY)
    pair.both()
    assert pair.near.closed == "restarted"


def test_goodbye_comes_after_all_that_was_sent() -> None:
    pair = Pair().opened()
    for parts in numbered(0, 3):
        pair.near.send(parts)
    pair.near.bye("done")
    pair.cross(pair.near, pair.far, slice(0, 1))  # the rest, and the goodbye, are lost
    assert pair.far.closed is None
    pair.later(HEARTBEAT)
    pair.both()
    assert pair.far.closed == "said goodbye: done"
    assert pair.near.closed == "done"


def test_a_refusal_is_final_or_a_request_for_another_hello() -> None:
    pair = Pair().opened()
    pair.near.receive(Refusal("say Hello", False), [], 0)
    assert [type(decode_frame(header)) for [header] in pair.near.outbox] == [Hello]
    pair.both()
    assert pair.near.up
    pair.far.refuse("too slow")
    pair.both()
    assert (pair.near.closed, pair.near.refused) == ("refused: too slow", True)


def test_hello_is_repeated_until_it_is_answered() -> None:
    link = Link("near", "subscriber", 1, 0, dials=True)
    hellos = 0
    for step in range(100):
        link.tick(step * RETRY // 4)
        hellos += len(link.outbox)
        link.outbox.clear()
    assert hellos == 25
    link.tick(SECOND * 1_000)
    assert link.closed is None


def test_what_is_asked_for_and_never_taken_is_sent_again_ever_more_rarely_and_then_no_more() -> None:
    pair = Pair().opened()
    for parts in numbered(0, 100):
        pair.far.send(parts)
    pair.far.outbox.clear()  # they never arrive
    hello = Hello(VERSION, "near", "publisher", 100, 200, 0, 2**40)
    resent: list[int] = []
    while pair.far.closed is None:
        pair.now += RETRY // 10
        pair.far.receive(hello, [], pair.now)
        resent.append(sum(type(decode_frame(header)) is Data for header, *_ in pair.far.outbox))
        pair.far.outbox.clear()
        assert pair.now < 10 * SILENCE, "it never ends"
    assert pair.far.closed == "it asks again and again for what it does not take"
    assert pair.now > SILENCE, "a peer cut off in one direction counts as dead, not as refused"
    assert resent.count(100) < 10
    assert sum(resent) < 10 * 100 + 10, "the first tells whether it takes any"


def test_one_payload_lost_a_dozen_times_ends_no_link() -> None:
    pair = Pair().opened()
    for parts in numbered(0, 20):
        pair.near.send(parts)
    tries = 0
    while tries < 12:
        messages = pair.near.outbox
        tries += sum(type(frame) is Data and frame.seq == 1 for frame in (decode_frame(header) for header, *_ in messages))
        pair.near.outbox = [[header, *parts] for header, *parts in messages if getattr(decode_frame(header), "seq", 0) != 1]
        pair.cross(pair.near, pair.far)
        pair.cross(pair.far, pair.near)
        assert pair.far.awaits or not pair.near.statistics().resent
        pair.later(HEARTBEAT)
    assert pair.near.statistics().resent < 10 * 20
    while not pair.near.idle:
        pair.both()
        pair.later(HEARTBEAT)
        assert pair.now < 20 * SILENCE
    assert pair.near.closed is pair.far.closed is None
    assert pair.far.statistics().frames_in == 20
    assert not pair.far.awaits


def test_a_peer_is_not_refused_for_asking_for_what_this_end_has_withheld() -> None:
    pair = Pair().opened()
    pair.far.send([b"stored later"])
    hello = Hello(VERSION, "near", "publisher", 100, 200, 0, 2**40)
    resends = 0
    for _ in range(int(30 * SECOND / RETRY)):  # its disk is full for half a minute
        pair.now += RETRY
        pair.far.outbox.clear()
        pair.far.is_withheld(pair.now)
        pair.far.receive(hello, [], pair.now)
        resends += any(type(decode_frame(header)) is Data for header, *_ in pair.far.outbox)
    assert pair.far.closed is None
    assert resends < 2, "what is withheld must not pile up"


def test_a_peer_that_takes_something_is_sent_the_rest_at_once() -> None:
    pair = Pair().opened()
    for round_ in range(30):
        for parts in numbered(0, 3):
            pair.far.send(parts)
        pair.cross(pair.far, pair.near, slice(0, 1))  # the others are lost
        pair.now += RETRY
        pair.near.receive(Ack(200, 0, 2**40, 3 * (round_ + 1)), [], pair.now)  # says how much was sent
        pair.both()
        pair.now += LAZY
        pair.near.settle(pair.now)
        pair.both()
        assert pair.far.idle, round_
    assert pair.far.closed is None


def test_a_payload_that_is_withheld_is_taken_and_acknowledged_later() -> None:
    here, there = Link("here", "node", 1, 0, dials=False), Link("there", "publisher", 1, 0, dials=True)
    now = 0

    def talk() -> None:
        nonlocal now
        for _ in range(6):
            now += SECOND // 5
            for link, other in ((there, here), (here, there)):
                link.tick(now)
                link.settle(now)
                sent, link.outbox[:] = list(link.outbox), []
                for parts in sent:
                    taken = other.receive(decode_frame(parts[0]), parts[1:], now)
                    if taken is not None and other is here:
                        got.append(taken[0])
                        if taken[0] == b"promise":
                            here.withhold()

    got: list[bytes] = []
    talk()
    there.send([b"event"])
    talk()
    assert there.idle
    there.send([b"promise"])
    there.send([b"more"])
    talk()
    assert got == [b"event", b"promise", b"more"]
    assert there.outstanding == 2
    here.confirm()
    talk()
    assert there.idle
    assert got == [b"event", b"promise", b"more"], "nothing comes twice"


def test_a_payload_that_was_put_back_comes_again() -> None:
    here, there = Link("here", "node", 1, 0, dials=False), Link("there", "publisher", 1, 0, dials=True)
    got: list[bytes] = []
    for step in range(1, 20):
        now = step * SECOND // 5
        if step == 5:
            there.send([b"first"])
            there.send([b"second"])
        if step == 12:
            assert not got
            here.shuts(False, now)
        for link, other in ((there, here), (here, there)):
            link.tick(now)
            link.settle(now)
            sent, link.outbox[:] = list(link.outbox), []
            for parts in sent:
                taken = other.receive(decode_frame(parts[0]), parts[1:], now)
                if taken is None or other is there:
                    continue
                if step < 12:
                    other.put_back(taken)
                    other.shuts(True, now)
                else:
                    got.append(taken[0])
        here.check()
    assert got == [b"first", b"second"]
    assert there.idle
