"""A checkpoint takes a share of a node's time, and leaves the rest to what arrives."""

from __future__ import annotations

from pathlib import Path

import pytest
from lives import Life
from test_upgrade import TYPES, Sums, Tick

from middleware.durability.checkpoint import Piece
from middleware.durability.durable_core import Write
from middleware.model.time import SECOND
from middleware.runtime.loop import durable_runner


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time that a runner reads: each look at it takes 1 ns."""
    now = [1_000]

    class Clock:
        @staticmethod
        def monotonic_ns() -> int:
            now[0] += 1
            return now[0]

        @staticmethod
        def time_ns() -> int:
            return 0

    monkeypatch.setattr(durable_runner, "time", Clock)
    return now


def test_no_step_works_on_a_checkpoint_until_other_work_had_its_share(tmp_path: Path, clock: list[int]) -> None:
    life = Life(tmp_path, TYPES, {"Sums": Sums()}, wants=["Sum"], raw=["Tick"])
    life.feed(*(Tick(1, ts=ts, id=ts, source="market") for ts in range(1, 11)))
    runner, written = life.runner, []
    write = life.store.write

    def slowly(item: Write | Piece) -> None:
        clock[0] += 1_000
        written.append(item)
        write(item)

    life.store.write = slowly  # type: ignore[method-assign]
    assert runner.due_at is None
    runner.worked, clock[0] = 3600 * SECOND, 10**6 * SECOND  # as after much work, long after the first checkpoint
    runner.settle(clock[0])
    pieces, due = len(written), runner.due_at
    assert pieces and due is not None and clock[0] + 2_000 < due, "the checkpoint has begun, and continues later"
    while clock[0] + 10 < due:
        runner.settle(clock[0])
    assert len(written) == pieces, "a step worked on it before it was due"
    while runner.due_at is not None:
        clock[0] = max(clock[0], runner.due_at)
        before = len(written)
        runner.settle(clock[0])
        assert len(written) == before + 1
    assert runner.status().checkpoints == 2
    life.kill()
