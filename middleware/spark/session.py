"""One local Spark session, started quietly and quickly; if it cannot start, the error says what to install."""

from __future__ import annotations

import logging as logs
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from middleware.installation import install
from middleware.model.errors import TraceError
from middleware.spark.java import environment, java_gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Result = TypeVar("Result")


class FailedRunError(TraceError):
    """A run that failed midway; its input is not at fault."""


_LOGGING = """\
rootLogger.level = fatal
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = fatal
"""

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.windowExec.buffer.spill.threshold": "100000",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.files.openCostInBytes": "1048576",
    "spark.shuffle.compress": "true",
    "spark.io.compression.codec": "lz4",
}


@contextmanager
def spark_session(cores: int = 2, memory: str = "1g", work: Path | None = None) -> Iterator[SparkSession]:
    """A local Spark session of ``cores`` task slots; stopped on leaving. A running session is used, and left running.

    ``memory``
        heap of the Java process.
    ``work``
        folder for what Spark spills to disk (default: the system's temporary folder).

    Raises TraceError if Java, PySpark or what PySpark needs is missing.
    """
    check_installed()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:  # in any thread
        yield SparkSession.builder.getOrCreate()
        return
    with (
        tempfile.TemporaryDirectory(prefix="slackline-spark-", dir=work, ignore_cleanup_errors=True) as scratch,
        environment(_environment()),
    ):
        session = _start(cores, memory, Path(scratch))
        try:
            yield session
        finally:
            session.stop()


def check_installed() -> None:
    """Raise TraceError, which says what to install, unless PySpark, its Python packages and Java are installed."""
    missing = [name for name in ("pyspark", "pandas", "pyarrow", "numpy") if find_spec(name) is None]
    if missing:
        raise TraceError(f"Spark needs the Python packages {', '.join(missing)}; {install('spark')}")
    home = os.environ.get("JAVA_HOME")
    if not (home and Path(home, "bin", "java").exists()) and not shutil.which("java"):
        raise TraceError(
            "Spark needs Java 17 or newer and there is no 'java' on the PATH nor in JAVA_HOME: "
            "apt-get install openjdk-17-jre-headless"
        )


def _start(cores: int, memory: str, scratch: Path) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    logging = scratch / "log4j2.properties"
    logging.write_text(_LOGGING)
    java = f"-Dlog4j2.configurationFile={logging.as_uri()} -XX:+UseSerialGC -Xshare:auto"
    settings = _SETTINGS | {
        "spark.driver.memory": memory,
        "spark.local.dir": str(scratch),
        "spark.driver.extraJavaOptions": java,
    }
    conf = SparkConf().setMaster(f"local[{cores}]").setAppName("slackline").setAll(list(settings.items()))
    log = scratch / "spark.log"
    try:
        if SparkContext._gateway:
            return SparkSession(SparkContext(conf=conf))
        with _without_py4j_tracebacks(), java_gateway(conf, log) as gateway:
            try:
                return SparkSession(SparkContext(conf=conf, gateway=gateway))
            except BaseException:  # Java has been ended, and must not be taken for a running one
                SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
                raise
    except Exception as error:
        said = " / ".join(log.read_text(errors="replace").strip().splitlines()[-3:]) if log.exists() else ""
        raise TraceError(
            f"Spark does not start: {reason(error)} {said} (slackline doctor --spark looks for the cause)"
        ) from error


@contextmanager
def _without_py4j_tracebacks() -> Iterator[None]:
    """Silence Py4J's traceback in the root logger at a Ctrl-C while it waits for Java; the exception says enough."""
    before = logs.root.manager.disable
    logs.disable(logs.ERROR)
    try:
        yield
    finally:
        logs.disable(before)


def interruptible(work: Callable[[], Result]) -> Result:
    """Run ``work``, which waits for Spark, in a thread, so that Ctrl-C cancels its jobs instead of cutting its link to Java."""
    with ThreadPoolExecutor(1, thread_name_prefix="spark-job") as pool:
        return pool.submit(work).result()


def _environment() -> dict[str, str]:
    """Environment for Spark: its Python workers are this Python, with the same modules, and it looks up no host names."""
    path = [entry or os.getcwd() for entry in sys.path]
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(path)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "localhost",
    }


_RAISED = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)


def reason(error: BaseException) -> str:
    """The error inside a Spark job, in one line: the message of what a Python worker or Java raised."""
    text = str(error)
    raised = [
        found for found in _RAISED.findall(text) if not found[0].startswith(("Py4J", "SparkException", "PythonException"))
    ]
    ours = [message for kind, message in raised if kind == "TraceError"]
    if ours:
        return str(ours[0].strip())
    if raised:
        kind, message = raised[0]
        return f"{kind}: {message.strip()}"
    return (text.strip().splitlines() or [type(error).__name__])[0]


def literal_path(path: Path) -> str:
    """A local path escaped for Spark, which would read *, ?, [], {} and backslashes as a pattern."""
    return "file://" + re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path))
