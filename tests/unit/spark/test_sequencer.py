"""What partitions have encoded goes out in the order of the recording, whoever is slow, fails or begins anew."""

from collections.abc import Callable
from random import Random
from socket import AF_INET
from threading import Thread

import msgspec
import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st
from psutil import net_if_addrs

from middleware.link.codec import BlockHead
from middleware.model.errors import TraceError
from middleware.model.event import END, NEVER
from middleware.recordings.feed.sequencer import Sequencer
from middleware.spark.feed.coordinator import AHEAD, Coordinator, PartitionConnection, PartitionReady, SliceFrame
from middleware.spark.feed.feed_partition import FeedPartition

fewer = settings(max_examples=25)

Sent = list[tuple[int, int, "int | None", bool]]


def of_partition(slices: list[int], partition: int, partitions: int, first: int = 0) -> Sent:
    """What a partition sends: its slices' items one by one, the end of a slice by itself."""
    sent: Sent = []
    for number in range(partition, len(slices), partitions):
        if number >= first:
            sent += [(number, position, 1_000 * number + position, False) for position in range(slices[number])]
            sent.append((number, slices[number], None, True))
    return sent


@fewer
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=20),
    st.integers(1, 8),
    st.randoms(use_true_random=False),
    st.one_of(st.none(), st.integers(0, 60)),
)
def test_items_go_out_in_the_order_of_slices_and_once(
    slices: list[int], partitions: int, random: Random, lost_after: int | None
) -> None:
    sequencer: Sequencer[int] = Sequencer(len(slices))
    queues = [of_partition(slices, number, partitions) for number in range(partitions)]
    out: list[int] = []
    while any(queues):
        if lost_after is not None and (lost_after := lost_after - 1) < 0:
            lost_after = None
            sequencer.restart()
            queues = [of_partition(slices, number, partitions, sequencer.current) for number in range(partitions)]
        if some := [queue for queue in queues if queue]:
            sequencer.put(*random.choice(some).pop(0))
        out += sequencer.ready()
    assert sequencer.is_over
    assert out == [1_000 * number + position for number, items in enumerate(slices) for position in range(items)]


def hand_over(address: str, partition: int, numbers: list[int], size: int = 10) -> None:
    with PartitionConnection(address, partition) as place:
        first = place.join()
        for number in numbers:
            if number >= first:
                place.send(SliceFrame(number, 0, number, [BlockHead("Ping", 1)]), [number.to_bytes(size, "big")])
                place.send(SliceFrame(number, 1, 0, [], ends=True), [])


def in_threads(*works: Callable[[], None]) -> list[Thread]:
    threads = [Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    return threads


def test_the_coordinator_gives_what_several_partitions_hand_over_in_order() -> None:
    with Coordinator(3, 30) as coordinator:
        threads = in_threads(
            *(lambda n=n: hand_over(coordinator.address, n, list(range(n, 30, 3)), AHEAD // 2) for n in range(3))  # type: ignore[misc]
        )
        frames = list(coordinator.frames())
        for thread in threads:
            thread.join(30)
    assert [frame.last for frame in frames] == list(range(30))
    assert [int.from_bytes(frame.blocks[0][1], "big") for frame in frames] == list(range(30))
    assert coordinator.attempts == 1


def test_a_partition_does_not_run_away_while_nothing_is_published() -> None:
    sent: list[int] = []

    def run_away() -> None:
        with PartitionConnection(coordinator.address, 0) as place:
            place.join()
            for number in range(100):
                place.send(SliceFrame(number, 0, number, [BlockHead("Ping", 1)]), [bytes(AHEAD // 4)])
                sent.append(number)
                place.send(SliceFrame(number, 1, 0, [], ends=True), [])

    with Coordinator(1, 100) as coordinator:
        (thread,) = in_threads(run_away)
        frames = coordinator.frames()
        taken = [next(frames) for _ in range(20)]
        assert len(taken) == 20
        assert len(sent) <= 20 + 5
        assert len([*taken, *frames]) == 100
        thread.join(30)


def test_a_failed_partition_stops_the_others_with_its_reason() -> None:
    errors: list[BaseException] = []

    def waiting() -> None:
        try:
            hand_over(coordinator.address, 0, [0] * 100, AHEAD)
        except TraceError as error:
            errors.append(error)

    def fail(place: PartitionConnection) -> None:
        place.join()
        raise ZeroDivisionError("no events left")

    def failing() -> None:
        with pytest.raises(ZeroDivisionError), PartitionConnection(coordinator.address, 1) as place:
            fail(place)

    with Coordinator(2, 2) as coordinator:
        threads = in_threads(waiting, failing)
        list(coordinator.frames())
        for thread in threads:
            thread.join(30)
    assert coordinator.reason == "partition 1 failed: no events left"
    assert str(errors[0]) == coordinator.reason


def test_partitions_that_begin_anew_are_counted_and_old_ones_ignored() -> None:
    with Coordinator(1, 3) as coordinator:
        frames = coordinator.frames()
        with PartitionConnection(coordinator.address, 0) as lost:
            lost.join()
            lost.send(SliceFrame(0, 0, 7, [BlockHead("Ping", 1)]), [b"0"])
            assert next(frames).last == 7
            in_threads(lambda: hand_over(coordinator.address, 0, [0, 1, 2]))
            rest = [frame.last for frame in frames]
            lost.send(SliceFrame(1, 0, 99, [BlockHead("Ping", 1)]), [b"9"])
    assert rest == [1, 2]  # of slice 0 all had gone out before
    assert coordinator.attempts == 2


def own_address() -> str:
    """An address of this machine that is not loopback."""
    found = [each.address for some in net_if_addrs().values() for each in some if each.family == AF_INET]
    found = [address for address in found if not address.startswith("127.")]
    return found[0] if found else pytest.skip("this machine has no address but loopback")


def test_beyond_loopback_only_the_partitions_of_the_feed_are_let_in() -> None:
    place = own_address()
    with Coordinator(1, 3, place) as coordinator, zmq.Context() as context:
        assert coordinator.address.address.startswith(f"tcp://{place}:")
        stranger = context.socket(zmq.DEALER)
        stranger.connect(coordinator.address.address)
        stranger.send(msgspec.msgpack.encode(PartitionReady(0)))
        (thread,) = in_threads(lambda: hand_over(coordinator.address, 0, [0, 1, 2]))
        assert [frame.last for frame in coordinator.frames()] == [0, 1, 2]
        thread.join(30)
        assert coordinator.attempts == 1  # it would be 2 if the stranger had joined
        assert not stranger.poll(0)
        stranger.close(0)


def test_a_host_of_another_machine_is_announced_to_partitions_as_it_is() -> None:
    with Coordinator(1, 1, "192.0.2.77") as coordinator:  # reserved for documentation
        assert coordinator.address.address.startswith("tcp://192.0.2.77:")
        assert coordinator.address.own is not None
        coordinator.is_over()


@pytest.mark.parametrize("place", ["", "host:port", "host:70000", "no.such.host.invalid", "user@host", "a/b"])
def test_a_place_where_nobody_can_meet_is_reported(place: str) -> None:
    with pytest.raises(TraceError, match="--advertise"):
        Coordinator(1, 1, place)


def test_a_trace_that_an_executor_does_not_have_ends_the_feed_with_its_host_and_path() -> None:
    with Coordinator(1, 1) as coordinator:
        with pytest.raises(TraceError, match=r"where executors read the trace by the same path as here: .*nowhere is no trace"):
            FeedPartition("/tmp/nowhere", coordinator.address, [NEVER, END], [0], None)(0)
        assert list(coordinator.frames()) == []
    assert "partition 0 failed: on " in coordinator.reason
