"""What buffers hold, in bytes: against sizes worked out by hand."""

import msgspec
import pytest
from evaluation_samples import Alarms, Peak, Peaks, Rise, Rises, Tick, event, replay, scenario

from middleware.evaluation.measuring.buffers import BufferSizes, buffered, event_sizes
from middleware.evaluation.measuring.measures import measure
from middleware.evaluation.modes import BUFFERING

DETECTORS = {"Rises": Rises(), "Peaks": Peaks(), "Alarms": Alarms()}


def size(one):
    return len(msgspec.msgpack.encode(one))


def test_an_event_is_as_large_as_it_is_on_the_wire():
    ticks = [Tick(value, ts=1, id=1, source="a") for value in (1, 1_000, 100_000)]
    rises = [event(Rise, "Rises", 300, number) for number in (1, 2)]
    sizes = event_sizes(DETECTORS, [*ticks, *rises])
    assert sizes["Rises"] == pytest.approx(sum(map(size, ticks)) / 3)
    assert sizes["Peaks"] == pytest.approx(sum(map(size, rises)) / 2)
    assert sizes["Alarms"] == 0.0, "nothing that it reads ever came"


def test_types_weigh_as_often_as_they_occur():
    class Both(Peaks):
        subscribes = (Rise, Tick)

    some = [Tick(1, ts=1, id=1, source="a"), *[event(Rise, "Rises", 300, number) for number in (1, 2, 3)]]
    assert event_sizes({"Both": Both()}, some)["Both"] == pytest.approx(sum(map(size, some)) / 4)


def test_all_units_together():
    assert buffered({"Rises": 3, "Peaks": 1}, {"Rises": 10}, {"Rises": 20.0, "Peaks": 7.0}) == BufferSizes(67.0, 200.0)


def test_a_run_tells_the_mean_over_its_intervals():
    finals = [event(Peak, "Peaks", 300, 1)]
    run = replay(BUFFERING, finals, 40.0)
    counts = iter([{}, {"Rises": 4}, {"Rises": 8}, {"Rises": 1_000}])  # the first and last interval are not the run
    run.report.adaptation = [msgspec.structs.replace(one, held=next(counts)) for one in run.report.adaptation]
    assert measure(run, scenario(), finals, {"Rises": 10.0}).buffers == BufferSizes(0.0, 60.0)
