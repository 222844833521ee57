"""What only the native lanes can get wrong: errors that pass through Rust, references, the collector."""

import gc
import sys
import threading
import weakref

import pytest

from middleware import native
from middleware.model.change import Delta
from middleware.model.detector import Detector, key_function
from middleware.model.event import END
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.lanes.lane import Settings
from middleware.ordering.lanes.lanes import keyed_lanes
from middleware.ordering.lanes.ready_events import ReadyEvents
from middleware.ordering.lanes.retraction import Retraction
from middleware.ordering.policies import Policies
from tests.property.ordering.streams import Beat, Reading

from .streams import Picky


class Sums(Detector):
    subscribes, publishes, key = (Reading,), (Beat,), "sensor"

    def __init__(self) -> None:
        self.total = 0

    def on_event(self, event):
        self.total += event.value
        if event.value == 99:
            raise KeyboardInterrupt
        if event.value == 98:
            raise ValueError("ninety-eight")
        return Beat(event.sensor, self.total, "", ts=event.ts)


def reading(ts, value=1, sensor=0):
    return Reading(sensor, value, ts=ts, id=ts, source="s")


def lanes(detector, spacing=128, stop=False):
    common = Settings(spacing=spacing, stop_on_error=stop)
    return keyed_lanes("Sums", detector, 1, common, key_function(detector))


def emit(target, *ahead, behind=(), removed=(), settled=-1):
    return target.emit(ReadyEvents(list(ahead), list(behind)), list(removed), 100, 0, settled)


def totals(deltas):
    return [[event.total for event in delta.inserts] for delta in deltas]


def test_a_late_event_replays_its_own_key_only():
    target = lanes(Sums())
    emit(target, *(reading(ts, sensor=ts % 2) for ts in range(10)))
    executed = target.counts.executed
    (delta,) = emit(target, behind=[Reading(0, 5, ts=7, id=70, source="s")])
    assert [event.total for event in delta.inserts] == [9]
    assert [(old.total, new.total) for old, new in delta.revises] == [(5, 10)]
    assert target.counts.rollbacks == 1
    assert target.counts.executed - executed == 6, "four events before it, itself, and one behind it"


def test_a_snapshot_bounds_the_replay():
    target = lanes(Sums(), spacing=8)  # one every two events
    emit(target, *map(reading, range(0, 200, 2)))
    executed = target.counts.executed
    emit(target, behind=[reading(197)])
    assert target.counts.executed - executed <= 4


def test_what_is_final_is_forgotten_as_the_lane_runs():
    target = lanes(Sums(), spacing=32)
    events = [reading(ts) for ts in range(1_000)]
    before = references(events)
    for event in events:
        emit(target, event, settled=event.ts - 10)
    del event
    assert 10 <= target.held <= 40
    assert target.held == sum(now > then for now, then in zip(references(events), before, strict=True))
    target.purge(END)
    assert references(events) == before


def references(events):
    return list(map(sys.getrefcount, events))


def test_a_failure_shows_where_the_detector_raised():
    target = lanes(Sums())
    deltas = emit(target, reading(1), reading(2, 98), reading(3))
    assert totals(deltas) == [[1, 2]]
    (failure,) = target.purge(END)
    assert failure.cause == reading(2, 98)
    assert failure.events == []
    assert failure.failure.startswith("Traceback (most recent call last):\n")
    assert "in on_event" in failure.failure
    assert failure.failure.endswith("ValueError: ninety-eight\n")
    assert target.counts.failures == 1


def test_a_stopped_detector_starts_again_where_its_failure_is_withdrawn():
    target = lanes(Sums(), stop=True)
    assert totals(emit(target, reading(1), reading(2, 98), reading(3))) == [[1]]
    assert totals(emit(target, removed=[reading(2, 98)])) == [[2]]


def test_an_interrupt_passes_through_and_leaves_the_lanes_sound():
    target = lanes(Sums())
    emit(target, reading(5), reading(6, sensor=1))
    with pytest.raises(KeyboardInterrupt):
        emit(target, reading(7), reading(8, 99), reading(9), behind=[reading(2, sensor=1)])
    target.check()
    assert totals(emit(target, reading(20, sensor=1))) == [[2]], "the other lane waits for nothing"
    target.check()


def test_an_interrupt_in_a_replay_leaves_the_lanes_sound():
    target = lanes(Sums())
    emit(target, *map(reading, range(1, 80, 2)))
    with pytest.raises(KeyboardInterrupt):
        emit(target, behind=[reading(40, 99), reading(60)])
    target.check()
    emit(target, reading(90))
    target.check()


def test_a_detector_that_comes_back_in_is_quarantined():
    class Curious(Sums):
        def on_event(self, event):
            emit(target, reading(99))

    target = lanes(Curious())
    assert emit(target, reading(1)) == []
    (failure,) = target.purge(END)
    assert "already" in failure.failure.lower()


def test_a_time_stamp_that_is_no_integer_is_quarantined():
    target = lanes(Sums())
    strange = Reading(0, 1, ts="soon", id=1, source="s")
    assert totals(emit(target, reading(1), strange, reading(2))) == [[1, 2]]
    (failure,) = target.purge(END)
    assert failure.cause is strange
    assert "TypeError" in failure.failure


def test_equal_keys_of_different_types_share_a_lane():
    target = lanes(Sums())
    keys = (1.0, 1, True, 2**70, -(2**63), 2**63, "1", (1,), (True,))
    emit(target, *(reading(ts, sensor=key) for ts, key in enumerate(keys)))
    emit(target, *(reading(100 + ts, sensor=key) for ts, key in enumerate(keys)))
    assert len(target) == len(set(keys)) == 6


def test_the_collector_sees_through_the_lanes():
    class Circular(Sums):
        pass

    class Holder:
        pass

    holder = Holder()
    detector = Circular()
    Circular.snapshot = lambda self, holder=holder: (holder, self.total)
    Circular.restore = lambda self, state: vars(self).update(total=state[1])
    holder.lanes = lanes(detector, spacing=1)
    emit(holder.lanes, *map(reading, range(10)))
    gone = weakref.ref(holder)
    del Circular.snapshot, Circular.restore, holder, detector
    gc.collect()
    assert gone() is None


def test_counts_are_live_and_read_only():
    target = lanes(Sums())
    counts = target.counts
    emit(target, reading(1), reading(2))
    assert counts.executed == 2
    with pytest.raises(AttributeError):
        counts.executed = 7
    with pytest.raises(TypeError):
        native.KeyedLanes()


def test_settings_may_change_between_two_calls():
    target = lanes(Sums(), spacing=128)
    emit(target, *map(reading, range(1, 20)))
    assert target.counts.snapshots == 0
    target.configure(Settings(Retraction.FULL, 4, True))
    target.snapshot()
    emit(target, *map(reading, range(20, 30)))
    assert target.counts.snapshots == 10
    (withdrawn,) = emit(target, behind=[Reading(0, 98, ts=27, id=70, source="s")])
    assert [event.total for event in withdrawn.retracts] == [28, 29]
    assert not withdrawn.inserts, "the detector is stopped"
    assert target.counts.failures == 1


def test_a_unit_reports_what_the_core_counts():
    unit = unit_for("Sums", Sums(), 1, Policies(alpha=0.0))
    unit.push(Delta([reading(ts) for ts in (1, 3, 2, 2)]))
    statistics = unit.statistics()
    assert (statistics.keys, statistics.rollbacks, statistics.duplicates) == (1, 1, 1)
    assert statistics.executed >= 3


def test_a_detector_whose_state_cannot_be_copied_stops_and_says_so():
    class Hoarder(Sums):
        def on_event(self, event):
            if event.value == 7:
                self.lock = threading.Lock()
            return super().on_event(event)

    target = lanes(Hoarder(), spacing=1)
    assert totals(emit(target, reading(1), reading(2, 7), reading(3), reading(4, sensor=1))) == [[1, 8, 1]]
    failure, left_out = target.purge(END)
    assert failure.cause == reading(2, 7)
    assert "cannot pickle" in failure.failure
    assert left_out.cause == reading(3)
    assert "had stopped" in left_out.failure
    assert target.counts.failures == 1
    target.check()


def test_an_event_without_key_is_a_failure_once_it_is_final():
    target = lanes(Picky())
    assert emit(target, reading(1, 3), reading(2, 3), reading(3, 4)) == []
    assert emit(target, removed=[reading(1, 3), reading(9, 3)]) == []
    assert (target.counts.unknown, target.counts.failures) == (1, 0)
    (failure,) = target.purge(2)
    assert failure.cause == reading(2, 3)
    assert "LookupError: no key for 3" in failure.failure
    assert [failure.cause for failure in target.purge(END)] == [reading(3, 4)]
    assert target.counts.failures == 2
