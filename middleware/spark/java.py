"""The Java process of Spark: it is known from its first moment, so that it ends with this process, whenever that is.

PySpark's own launcher knows it only after its answer. If interrupted before, the launcher leaves behind a process that never
ends, because the file in which it should write its port is gone.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from middleware.model.errors import TraceError
from middleware.runtime.interrupts import uninterrupted

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
    from pyspark import SparkConf

_LOOK_EVERY = 0.02
_LEAVE = 5.0
"""Seconds that Java has to end by itself, before it is killed."""

_WHERE = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
"""Where PySpark looks for a running Java process."""


@contextmanager
def java_gateway(conf: SparkConf, log: Path) -> Iterator[JavaGateway]:
    """A gateway to a new Java process, which ends with this one, or at once if an exception leaves the block.

    ``log``
        file for Java's output, so that it does not mix with that of the command.

    Raises TraceError if Java ends before it answers. Under ``spark-submit``, its Java process is used and left running.
    """
    from pyspark.java_gateway import launch_gateway

    if _WHERE[0] in os.environ:
        yield launch_gateway()  # type: ignore[no-untyped-call]
        return
    process: subprocess.Popen[bytes] | None = None
    try:
        with tempfile.TemporaryDirectory(prefix="slackline-java-", ignore_cleanup_errors=True) as folder:
            where = Path(folder, "where")
            with uninterrupted():
                process = _started(conf, where, log)
                atexit.register(_end, process)
            with environment(dict(zip(_WHERE, _answer(process, where), strict=True))):
                gateway = launch_gateway()  # type: ignore[no-untyped-call]
        gateway.proc = process  # as PySpark's own launcher does
        yield gateway
    except BaseException:
        if process is not None:
            _kill(process)
        raise


def _started(conf: SparkConf, where: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start Spark's launcher, which becomes the Java process. It has its own process group, so Ctrl-C does not reach it."""
    from pyspark.find_spark_home import _find_spark_home

    command = [str(Path(_find_spark_home(), "bin", "spark-submit"))]
    for setting in conf.getAll():
        command += ["--conf", "=".join(setting)]
    environment = os.environ | {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(where)}
    with log.open("wb") as said:
        # Java ends when its standard input closes, also if this process is killed.
        return subprocess.Popen(
            [*command, "pyspark-shell"],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            env=environment,
            process_group=0,
        )


def _answer(process: subprocess.Popen[bytes], where: Path) -> tuple[str, str]:
    """Port and secret of the gateway, once Java has written them (the file appears whole)."""
    while not where.exists():
        if process.poll() is not None and not where.exists():
            raise TraceError(f"Java ended with exit code {process.returncode}")
        time.sleep(_LOOK_EVERY)
    said = where.read_bytes()
    return str(int.from_bytes(said[:4], "big")), said[8:].decode()  # a number, a length, a text of that length


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set these environment variables until the block is left."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let Java end in order, which takes a few tenths of a second; kill it if it does not."""
    with uninterrupted():
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_LEAVE)
        except subprocess.TimeoutExpired:
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill Java, and what its launcher has started, now. Its files are in a folder of this process."""
    with uninterrupted():
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
