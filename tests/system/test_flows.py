"""Flows on real nodes: processes, sockets, one barrier. Each trial holds its results against the sequential run."""

import pytest
from slackline_benchmarks.flow_trial import trial

from scenarios.search.workers import Mode

pytestmark = pytest.mark.system


@pytest.mark.parametrize(("mode", "workers"), [(Mode.OPTIMISTIC, 1), (Mode.OPTIMISTIC, 3), (Mode.IOP, 2), (Mode.OOP, 2)])
def test_the_index_is_that_of_the_sequential_run(mode: Mode, workers: int) -> None:
    made = trial(mode, workers, rate=100, seconds=0.6, punctuation=10)
    assert made.pages == 60
    assert made.arrived >= made.valid > 2_000
    if mode is Mode.IOP:
        assert made.arrived == made.valid, "what is processed in order is never taken back"
