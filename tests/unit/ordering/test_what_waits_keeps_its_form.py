"""Rows or columns: what waits in a unit is turned only where more comes than waits, whatever the sizes of batches."""

import pytest

from middleware.model.block.block import Block
from middleware.model.block.waiting_blocks import WaitingBlocks
from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.event import Event
from middleware.native import Waiting
from middleware.ordering.lanes.runs import Runs


class Reading(Event):
    value: float


class Watch(Detector):
    subscribes, publishes = (Reading,), (Reading,)

    def on_event(self, event):
        return None


def readings(count, start=0):
    return [Reading(0.5, ts=start + n, id=start + n, source="s") for n in range(count)]


def came(count, start):
    return Delta(Block.from_events(Reading, readings(count, start)))


@pytest.mark.parametrize("sizes", [(1_500, 3_000), (3_000, 1_500), (10, 9_999)])
def test_batches_that_change_size_turn_nothing(sizes):
    runs = Runs.of(Watch(), 1_024)
    for as_columns in (True, False):
        waiting, held = Waiting(), WaitingBlocks()
        if as_columns:
            held.put(Block.from_events(Reading, readings(10_000)))
        else:
            waiting.add(readings(10_000), -1)
        for size in sizes:
            assert runs.keep_columns(came(size, 20_000), waiting, held) is as_columns
            assert (len(waiting), len(held)) == ((0, 10_000) if as_columns else (10_000, 0))


def test_few_rows_that_wait_are_packed_before_many_columns():
    waiting, held = Waiting(), WaitingBlocks()
    waiting.add(readings(100), -1)
    assert Runs.of(Watch(), 1_024).keep_columns(came(3_000, 20_000), waiting, held)
    assert (len(waiting), len(held)) == (0, 100)


def test_few_columns_are_made_rows_once():
    assert not Runs.of(Watch(), 1_024).keep_columns(came(500, 0), Waiting(), WaitingBlocks())
