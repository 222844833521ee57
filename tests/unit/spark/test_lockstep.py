"""Partitions in step: the skew is bounded, someone can always go on, and the coordinator tells all of them."""

from threading import Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from middleware.errors import TraceError
from middleware.event import END, NEVER
from middleware.spark.coordinator import Coordinator, Place
from middleware.spark.lockstep import Lockstep

relaxed = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy

streams = st.lists(st.lists(st.integers(0, 1_000), min_size=1, max_size=30).map(sorted), min_size=1, max_size=4)


@relaxed
@given(streams, st.integers(1, 200), st.randoms(use_true_random=False))
def test_skew_is_bounded_and_all_come_to_the_end(arrivals: list[list[int]], skew: int, random) -> None:  # type: ignore[no-untyped-def]
    step = Lockstep(len(arrivals), skew)
    assert step.limit == NEVER
    for partition, own in enumerate(arrivals):
        step.report(partition, own[0])
    positions = [0] * len(arrivals)
    while any(position < len(own) for position, own in zip(positions, arrivals, strict=True)):
        able = [p for p, own in enumerate(arrivals) if positions[p] < len(own) and own[positions[p]] <= step.limit]
        assert able
        partition = random.choice(able)
        own = arrivals[partition]
        last = own[positions[partition]]
        unsent = [o[position] for o, position in zip(arrivals, positions, strict=True) if position < len(o)]
        assert last - min(unsent) <= skew
        positions[partition] += 1
        following = own[positions[partition]] if positions[partition] < len(own) else END
        step.report(partition, following, last, positions[partition])
    assert step.max_skew <= skew
    assert step.limit == END
    assert step.events == sum(map(len, arrivals))


def run_partition(address: str, partition: int, arrivals: list[int], sent: list[tuple[int, int]], starts: list[int]) -> None:
    with Place(address, partition) as place:
        starts.append(place.join(arrivals[0]))
        for number, arrival in enumerate(arrivals):
            assert place.limit(arrival) >= arrival
            sent.append((arrival, partition))
            place.report(arrivals[number + 1] if number + 1 < len(arrivals) else END, arrival, number + 1)


def test_coordinator_starts_all_at_once_and_keeps_them_in_step() -> None:
    told: list[int] = []
    sent: list[tuple[int, int]] = []
    starts: list[int] = []
    arrivals = [list(range(0, 1_000, 7)), list(range(500, 3_000, 11)), [1, 2_999]]
    with Coordinator(3, 100, told.append, lambda events, arrival: None) as coordinator:
        threads = [
            Thread(target=run_partition, args=(coordinator.address, number, own, sent, starts))
            for number, own in enumerate(arrivals)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert len(sent) == sum(map(len, arrivals))
    assert starts == told * 3
    assert coordinator.failure is None
    unsent = [own.copy() for own in arrivals]
    for arrival, partition in sent:
        assert arrival - min(own[0] for own in unsent if own) <= 100
        assert unsent[partition].pop(0) == arrival


def fail(address: str) -> None:
    with Place(address, 1) as place:
        place.join(0)
        raise ZeroDivisionError("no events left")


def test_a_failed_partition_stops_the_others_with_its_reason() -> None:
    errors: list[BaseException] = []

    def waiting() -> None:
        try:
            with Place(coordinator.address, 0) as place:
                place.join(0)
                place.limit(10**9)
        except TraceError as error:
            errors.append(error)

    with Coordinator(2, 100, lambda start: None, lambda events, arrival: None) as coordinator:
        thread = Thread(target=waiting)
        thread.start()
        with pytest.raises(ZeroDivisionError, match="no events left"):
            fail(coordinator.address)
        thread.join(30)
    assert "partition 1 failed: no events left" in str(errors[0])


def test_a_callback_that_fails_stops_the_feed() -> None:
    def refuse(start: int) -> None:
        raise TraceError("the file cannot be written")

    with (
        Coordinator(1, 100, refuse, lambda events, arrival: None) as coordinator,
        pytest.raises(TraceError, match="cannot be written"),
        Place(coordinator.address, 0) as place,
    ):
        place.join(0)
    assert isinstance(coordinator.failure, TraceError)


def test_partitions_that_begin_anew_are_counted_and_old_ones_ignored() -> None:
    with (
        Coordinator(1, 100, lambda start: None, lambda events, arrival: None) as coordinator,
        Place(coordinator.address, 0) as lost,
        Place(coordinator.address, 0) as again,
    ):
        lost.join(0)
        lost.report(500, 400, 9)
        again.join(0)
        lost.report(END, 900, 99)
        again.report(50, 0, 1)
        assert again.limit(150) == 150
    assert coordinator.attempts == 2
    assert coordinator.lockstep.events == 1
