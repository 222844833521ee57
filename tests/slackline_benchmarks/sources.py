"""The longest stop of a durable node that knows 1,000,000 sources, while a checkpoint of them is made."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from middleware.broker.broker import Broker
from middleware.broker.log.log import Log
from middleware.durability.state_encoding import uncollected
from middleware.model.event import EventTypes
from middleware.model.time import MILLISECOND, SECOND
from middleware.runtime.loop.durable_runner import DurableRunner
from middleware.runtime.loop.garbage import short_collections
from middleware.runtime.storage.store import Store

SOURCES = 1_000_000
AIM = 50.0
"""Milliseconds that no step may take beyond."""


def bench_sources() -> list[dict[str, Any]]:
    """The rows ``durability.sources``, the longest step (ms) beside what is aimed at, and ``.cpu``, the same by processor time,
    which is what it is on a machine with nothing else to do."""
    return [
        {"name": f"durability.sources{kind}", "value": longest, "unit": "ms", "baseline": AIM, "ratio": longest / AIM}
        for kind, longest in zip(("", ".cpu"), _longest_step(), strict=True)
    ]


def _longest_step() -> tuple[float, float]:
    """The longest step (ms), and the most processor time of one."""
    with TemporaryDirectory(prefix="slackline-bench-") as folder, short_collections():
        store = Store(Path(folder), "bench")
        broker = Broker("bench", store.epoch, 0, types=EventTypes(), log=Log(store.line, store.read))
        runner = DurableRunner(broker, None, EventTypes(), store)
        runner.settle(time.monotonic_ns())  # the first checkpoint of a life is written at once
        with uncollected():
            for number in range(SOURCES):
                broker.ingress.seen.add(f"sensor {number}", 1)
        done, longest, most = runner.status().checkpoints, 0, 0
        runner.worked = 3600 * SECOND  # as after much work: a checkpoint is due
        while runner.status().checkpoints == done:
            broker.ingress.seen.add("sensor 7", time.monotonic_ns())
            start, worked = time.monotonic_ns(), time.thread_time_ns()
            runner.settle(start)
            longest, most = max(longest, time.monotonic_ns() - start), max(most, time.thread_time_ns() - worked)
        store.close()
        return longest / MILLISECOND, most / MILLISECOND
