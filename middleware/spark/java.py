"""The Java process that Spark runs in: known from its first moment, so that it ends with this process, whenever that is.

PySpark's own launcher knows it only when it has answered. Interrupted before, it leaves one behind that runs on for good,
because the file in which it was to say where it listens is gone.
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
"""Seconds for Java to end by itself, before it is killed."""

_WHERE = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
"""Where PySpark looks for a Java process that is there already."""


@contextmanager
def java_gateway(conf: SparkConf, log: Path) -> Iterator[JavaGateway]:
    """A gateway to a new Java process, which ends with this one, and at once if the block is left by an exception.

    ``log``
        file for what Java says, so that it does not run into what the command shows.

    Raises TraceError if Java ends before it answers. Under ``spark-submit``, the Java process of that is used and left alone.
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
        gateway.proc = process  # as PySpark's own launcher has it
        yield gateway
    except BaseException:
        if process is not None:
            _kill(process)
        raise


def _started(conf: SparkConf, where: Path, log: Path) -> subprocess.Popen[bytes]:
    """Spark's launcher, which becomes the Java process. It leads a process group: Ctrl-C in the terminal is not for it."""
    from pyspark.find_spark_home import _find_spark_home

    command = [str(Path(_find_spark_home(), "bin", "spark-submit"))]
    for setting in conf.getAll():
        command += ["--conf", "=".join(setting)]
    environment = os.environ | {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(where)}
    with log.open("wb") as said:
        # Java ends when its standard input does: also if this process is killed.
        return subprocess.Popen(
            [*command, "pyspark-shell"],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            env=environment,
            process_group=0,
        )


def _answer(process: subprocess.Popen[bytes], where: Path) -> tuple[str, str]:
    """Port and secret of the gateway, once Java has written them (a file that appears whole)."""
    while not where.exists():
        if process.poll() is not None and not where.exists():
            raise TraceError(f"Java ended with exit code {process.returncode}")
        time.sleep(_LOOK_EVERY)
    said = where.read_bytes()
    return str(int.from_bytes(said[:4], "big")), said[8:].decode()  # a number, a length, and a text of that length


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """These environment variables, until the block is left."""
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
    """Let Java end in order, which takes some tenths of a second; kill it if it does not."""
    with uninterrupted():
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_LEAVE)
        except subprocess.TimeoutExpired:
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End Java and what its launcher has started, now. What it wrote is in a folder of this process's."""
    with uninterrupted():
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
