"""The Spark session to work with: the user's, one of their master, or a local one, started quietly and quickly."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from middleware.installation import install
from middleware.model.errors import TraceError
from middleware.runtime.loop.interrupts import uninterrupted
from middleware.spark.jobs import running_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
"""

_EVERYWHERE: dict[str, bool | float | int | str | None] = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}

_LOCAL = _EVERYWHERE | {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.windowExec.buffer.spill.threshold": "100000",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.files.openCostInBytes": "1048576",
    "spark.shuffle.compress": "true",
    "spark.io.compression.codec": "lz4",
}

_JAVA = "-XX:+UseSerialGC -Xshare:auto"

_CLASSES = Path(sys.prefix, "spark.jsa")
"""Java's archive of Spark's classes, if the installation has made one (tools/share_classes.sh): sessions start sooner."""

_PORTS = {"spark": 7077, "sc": 15002}
"""Where a standalone master, and a server of Spark Connect, listen unless their address says otherwise."""

_ANSWER = 5.0
"""Seconds that a master has to take a connection."""


@contextmanager
def spark_session(
    cores: int = 2,
    memory: str = "1g",
    work: Path | None = None,
    *,
    master: str | None = None,
    spark: SparkSession | None = None,
) -> Iterator[SparkSession]:
    """A Spark session: the given one; else one that runs; else one of ``master``; else a local one of ``cores`` task slots.

    ``memory``
        heap of the Java process of a local session.
    ``work``
        folder for what a local session spills to disk (default: the system's temporary folder).
    ``master``
        as spark-submit takes it (``spark://host:7077``, ``yarn``, ``k8s://...``), or a server of Spark Connect (``sc://host``).
        Such a session is configured as Spark configures it: files in SPARK_CONF_DIR, PYSPARK_PYTHON, SPARK_LOCAL_IP.

    Only a session that was started here is stopped on leaving. Under spark-submit, its master and its configuration count.
    Raises TraceError if Java, PySpark or what PySpark needs is missing, or if nobody answers at ``master``.
    """
    if spark is not None:
        yield spark
        return
    master = master or os.environ.get("SPARK_REMOTE")
    check_installed(java=not (master or "").startswith("sc://"))
    if (running := running_session()) is not None:
        if master is not None and (own := _master_of(running)) not in (None, master):
            raise TraceError(f"a Spark session of {own} runs in this process already: stop it, to have one of {master}")
        yield running
        return
    with ExitStack() as stack:
        if (master or "").startswith("local") and "PYSPARK_PYTHON" not in os.environ:
            stack.enter_context(
                environment({"PYSPARK_PYTHON": sys.executable})
            )  # workers on this machine, but of PATH's Python
        builder = _local_builder(stack, cores, memory, work) if _is_ours(master) else _cluster_builder(master)
        session = None
        try:
            with uninterrupted(), ThreadPoolExecutor(1) as pool:  # or Java might be left behind, known to nobody
                # in the main thread PySpark would set a handler, by which Ctrl-C cuts the link that is just in use
                session = pool.submit(_started, builder, master).result()
                _activate(session)
            yield session
        finally:
            if session is not None:
                with uninterrupted(), suppress(Exception):  # whoever has ended Java, too, has ended the session
                    session.stop()


def _is_ours(master: str | None) -> bool:
    """Whether nobody has named the Spark to use: no master, and no spark-submit that has started this process."""
    return master is None and "PYSPARK_GATEWAY_PORT" not in os.environ


def check_installed(java: bool = True) -> None:
    """Raise TraceError, which says what to install, unless PySpark, its Python packages and Java are installed."""
    missing = [name for name in ("pyspark", "pandas", "pyarrow", "numpy") if find_spec(name) is None]
    if missing:
        raise TraceError(f"Spark needs the Python packages {', '.join(missing)}; {install('spark')}")
    home = os.environ.get("JAVA_HOME")
    if java and not (home and Path(home, "bin", "java").exists()) and not shutil.which("java"):
        raise TraceError(
            "Spark needs Java 17 or newer and there is no 'java' on the PATH nor in JAVA_HOME: "
            "apt-get install openjdk-17-jre-headless"
        )


def _master_of(session: SparkSession) -> str | None:
    return session.conf.get("spark.master", None) or session.conf.get("spark.remote", None)


def _local_builder(stack: ExitStack, cores: int, memory: str, work: Path | None) -> SparkSession.Builder:
    """A builder of a quiet local session; its folders and environment last as long as ``stack``."""
    from pyspark.sql import SparkSession

    def folder(below: Path | None) -> Path:
        made = tempfile.TemporaryDirectory(prefix="slackline-spark-", dir=below, ignore_cleanup_errors=True)
        return Path(stack.enter_context(made))

    conf = folder(None)
    logging, log = conf / "log4j2.properties", conf / "spark.log"
    logging.write_text(_LOGGING)
    # A folder with files on its class path keeps Java from taking classes over from a file of another process.
    (conf / "spark-env.sh").write_text(f"exec 2>{shlex.quote(str(log))}\nSPARK_CONF_DIR={shlex.quote(str(conf / 'none'))}\n")
    stack.enter_context(environment(_environment() | {"SPARK_CONF_DIR": str(conf)}))
    settings = _LOCAL | {
        "spark.driver.memory": memory,
        "spark.local.dir": str(folder(work)),
        "spark.driver.extraJavaOptions": f'{_java_options()} "-Dlog4j2.configurationFile={logging}"',
    }
    return SparkSession.builder.master(f"local[{cores}]").appName("slackline").config(map=settings)


def _java_options() -> str:
    """The options of Java. With an archive of another class path or Java it starts without, and warns on standard output."""
    if not _CLASSES.exists():
        return _JAVA
    return f'{_JAVA} "-XX:SharedArchiveFile={_CLASSES}" -Xlog:disable -Xlog:all=error:stderr'


def _cluster_builder(master: str | None) -> SparkSession.Builder:
    """A builder of a session of the user's master; None: of what spark-submit says."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("slackline")
    if master is None:
        return builder
    check_reachable(master)
    if not master.startswith("sc://"):
        return builder.master(master).config(map=_EVERYWHERE | {"spark.log.level": "ERROR"})
    if missing := [name for name in ("grpc", "grpc_status", "zstandard") if find_spec(name) is None]:
        raise TraceError(f"Spark Connect needs more Python packages ({', '.join(missing)}): {install('spark-connect')}")
    return builder.remote(master)


def check_reachable(master: str) -> None:
    """Raise TraceError unless somebody takes connections at a standalone master, or at a server of Spark Connect."""
    kind, _, rest = master.partition("://")
    if kind not in _PORTS or not rest:
        return
    servers = [server.partition(";")[0].rstrip("/") for server in rest.split(",")]
    tried = []
    for server in servers:
        host, _, port = server.partition(":")
        try:
            with socket.create_connection((host, int(port or _PORTS[kind])), _ANSWER):
                return
        except (OSError, ValueError) as error:
            tried.append(f"{server}: {error}")
    raise TraceError(f"no Spark answers at {master} ({'; '.join(tried)}): start it, or mend the address given with --master")


def _started(builder: SparkSession.Builder, master: str | None) -> SparkSession:
    try:
        return builder.getOrCreate()
    except Exception as error:
        log = Path(os.environ.get("SPARK_CONF_DIR", ""), "spark.log")
        last_lines = (
            " / ".join(log.read_text(errors="replace").strip().splitlines()[-3:]) if _is_ours(master) and log.exists() else ""
        )
        look = "slackline doctor --spark" + (f" --master {master}" if master else "")
        raise TraceError(f"Spark does not start: {reason(error)} {last_lines} ({look} looks for the cause)") from error


def _activate(session: SparkSession) -> None:
    """Make it the session of this thread, too: data sources, among others, are looked up in the session of the thread."""
    if (java := getattr(session, "_jvm", None)) is not None:  # Spark Connect has none
        java.SparkSession.setActiveSession(session._jsparkSession)


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


def _environment() -> dict[str, str]:
    """Environment for local Spark: its Python workers are this Python, with the same modules, and it looks up no host names."""
    path = [entry or os.getcwd() for entry in sys.path]
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(path)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "localhost",
    }


_RAISED = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)


_OF_SPARK = re.compile(r"SparkException: (.+)$", re.MULTILINE)
"""The message of Spark where nothing else was raised."""


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
    if (own := _OF_SPARK.search(text)) is not None:
        return own[1].strip()
    return (text.strip().splitlines() or [type(error).__name__])[0]


def literal_path(path: Path) -> str:
    """A local path for Spark to read."""
    return "file://" + escaped(str(path))


def escaped(path: str) -> str:
    """A path escaped for Spark, which reads *, ?, [], {} and backslashes as a pattern, and writes to what has them as it is."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
