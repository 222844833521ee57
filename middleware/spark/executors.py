"""The environment of executors: their Python, PySpark and Slackline, as they report it."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from middleware.spark.by_value import make_portable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_TASKS = 8
"""Tasks that are asked: enough to reach several executors."""

_SCHEMA = "host string, python string, packages string, missing string"


class Executor(NamedTuple):
    """The environment of one machine's executors. ``missing``: why Slackline cannot be imported there; empty if it can."""

    host: str
    python: str
    packages: str
    missing: str

    @property
    def is_fit(self) -> bool:
        """Whether jobs of this process can run there."""
        return not self.missing and self.packages == versions()

    @property
    def summary(self) -> str:
        """In words."""
        slackline = f"no Slackline: {self.missing}" if self.missing else "Slackline"
        return f"{self.host}: Python {self.python}, {self.packages}; {slackline}"

    @property
    def advice(self) -> str:
        """The remedy; empty if it is fit."""
        return "" if self.is_fit else f"give executors what this process has ({versions()} and Slackline): slackline spark pack"


def versions() -> str:
    """The packages that must be the same on both sides."""
    import msgspec
    import pyarrow
    import pyspark

    return f"PySpark {pyspark.__version__}, pyarrow {pyarrow.__version__}, msgspec {msgspec.__version__}"


def executors(spark: SparkSession) -> list[Executor]:
    """The environments of a session's executors, one for each kind found. Raises what Spark raises, if Python itself
    differs."""
    rows = spark.range(0, _TASKS, 1, _TASKS).mapInArrow(make_portable(_asked), _SCHEMA).distinct().collect()
    return sorted(Executor(*row) for row in rows)


def _asked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for _ in batches:
        try:
            import middleware  # noqa: F401

            found, missing = versions(), ""
        except ImportError as error:
            found, missing = "", str(error)
        row = {"host": platform.node(), "python": platform.python_version(), "packages": found, "missing": missing}
        yield pa.RecordBatch.from_pylist([row])
