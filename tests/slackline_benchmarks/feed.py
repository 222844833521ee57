"""``slackline bench feed``: events per second from Parquet through Spark into a node, against encoding them into nothing."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from middleware.model.errors import SlacklineError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

SECONDS = 20.0
PARTITIONS = 2
_BALLS, _PLAYERS = 8, 90
_TYPE = "bench.Position"

_NODE = """
from middleware.runtime.node import Node
node = Node("bench", "tcp://127.0.0.1:*")
print(node.address, flush=True)
node.run()
"""


def bench_feed(rounds: int = 5) -> list[dict[str, Any]]:
    """Feed a made-up recording of 34,000 events a second (20 s of it) at full speed; the median of ``rounds``.

    The baseline, run in turn with it, is the same executors reading and encoding the same trace without publishing.
    """
    from middleware.recordings.prepare.delays import parse_delays
    from middleware.recordings.readers import open_recording
    from middleware.spark.feed.feed import feed
    from middleware.spark.prepare.prepare import prepare
    from middleware.spark.session import spark_session

    fed: list[float] = []
    encoded: list[float] = []
    with tempfile.TemporaryDirectory(prefix="slackline-bench-") as folder, spark_session(PARTITIONS) as spark:
        trace = Path(folder, "trace")
        recording = open_recording([], generate=f"{__name__}:positions", seconds=SECONDS)
        prepare(recording, trace, parse_delays("uniform(5ms, 250ms)"))
        for _ in range(rounds):
            encoded.append(encode_only(spark, trace))
            with broker() as address:
                fed.append(feed(trace, address, speed=None, partitions=PARTITIONS).events_per_second)
    value, baseline = median(fed), median(encoded)
    return [{"name": "feed.throughput", "value": value, "unit": "events/s", "baseline": baseline, "ratio": value / baseline}]


def encode_only(spark: SparkSession, trace: Path) -> float:
    """Events per second of reading and encoding a trace on the executors, in batches like those of a feed, into nothing."""
    from middleware.recordings.feed.groups import owners, slices
    from middleware.recordings.traces import load_trace

    cuts = slices(trace, load_trace(trace))
    shares = owners(trace, load_trace(trace), cuts, PARTITIONS)

    def run(numbers: Iterable[int]) -> Iterable[tuple[int, float]]:
        own = [[at for at, owner in enumerate(shares) if owner == number] for number in numbers]
        return [_encode_share(trace, cuts, some) for some in own]

    context = spark.sparkContext
    done = context.parallelize(range(PARTITIONS), PARTITIONS).barrier().mapPartitions(run).collect()
    return sum(events for events, _ in done) / max(seconds for _, seconds in done)


def _encode_share(path: Path, cuts: list[int], slices: list[int]) -> tuple[int, float]:
    import time

    from middleware.recordings.feed.trace_rows import TypeRows, frames
    from middleware.recordings.traces import load_trace

    trace = load_trace(path)
    types = [TypeRows(path, trace, name) for name in trace.types]
    began = time.monotonic()
    events = 0
    for number in slices:
        events += sum(frame.events for frame in frames(types, None, *cuts[number : number + 2]))
    return events, time.monotonic() - began


@contextmanager
def broker(code: str = _NODE, *arguments: str) -> Iterator[str]:
    """A node in a process of its own, by default without detectors; gives its address, which ``code`` prints."""
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().strip() if process.stdout else ""
        if not address:
            raise SlacklineError(f"the node of the benchmark did not start (exit code {process.wait()}): see above")
        yield address
    finally:
        process.terminate()
        process.wait()


def positions(seed: int, seconds: float) -> dict[str, pa.Table]:
    """Positions of 8 balls at 2,000 Hz and 90 transmitters at 200 Hz, 34,000 a second, of no meaning."""
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(seed)
    parts = []
    for sensor in range(_BALLS + _PLAYERS):
        rate = 2_000 if sensor < _BALLS else 200
        ids = np.arange(int(rate * seconds))
        columns = {"ts": ids * (1_000_000_000 // rate) + sensor, "id": ids, "sensor": np.full(len(ids), sensor)}
        columns |= {name: random.normal(size=len(ids)) for name in ("x", "y", "z", "vx", "vy", "vz", "ax", "ay", "az")}
        source = pa.DictionaryArray.from_arrays(np.zeros(len(ids), np.int32), pa.array([f"sensor-{sensor}"])).cast(pa.string())
        parts.append(pa.table({**columns, "source": source}))
    return {_TYPE: pa.concat_tables(parts)}
