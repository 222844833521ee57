"""Real servers for tests and benchmarks of connectors: each a process on a free port, which can be killed and started again.

Where a server cannot be had, SkipTest says what is missing.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest import SkipTest

import psutil

from middleware.connect.messages.source import Message, Source

_STARTS_WITHIN = 60.0
_KAFKA = "4.1.0"
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>tests</artifactId><version>1</version><packaging>pom</packaging><dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{_KAFKA}</version>
</dependency></dependencies></project>"""


def program(*names: str, places: str = "/usr/sbin:/usr/lib/postgresql/*/bin") -> str:
    """The path of the first of these programs that is there; SkipTest if none is."""
    for name in names:
        for folder in (None, *places.split(":")):
            found = [shutil.which(name)] if folder is None else sorted(map(str, Path("/").glob(f"{folder[1:]}/{name}")))
            if found and found[-1]:
                return found[-1]
    raise SkipTest(f"{names[0]} is not installed: make env installs it on Debian, as root")


def free_port() -> int:
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Server:
    """A server's process. Subclasses give its command, and say whether it serves."""

    user: str | None = None

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def serves(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        """Start it, and wait until it serves."""
        deadline = time.monotonic() + _STARTS_WITHIN
        self._spawn()
        while not self.serves():
            assert self._process is not None
            if self._process.poll() is not None:  # what a killed one left behind may be in its way for a moment
                self._spawn()
            assert time.monotonic() < deadline, (self.folder / "log").read_text()[-2_000:]
            time.sleep(0.05)

    def _spawn(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), cwd=self.folder, stdout=log, stderr=log, user=self.user, start_new_session=True
            )

    def kill(self) -> None:
        """Kill -9: it saves nothing."""
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()

    def pause(self) -> None:
        """From now on it is there, but does nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume it."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        """Send it, and all processes that it has started, a signal."""
        assert self._process is not None
        with suppress(psutil.NoSuchProcess):
            first = psutil.Process(self._process.pid)
            for each in (first, *first.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    each.send_signal(number)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()


class Mosquitto(Server):
    """An MQTT broker. ``keeps``: it writes every change to disk, some milliseconds after it has acknowledged it: a kill loses
    no more than these. ``is_open``: it lets in who gives no password; nobody has one.
    """

    def __init__(self, folder: Path, keeps: bool = True, is_open: bool = True) -> None:
        super().__init__(folder)
        self._program = program("mosquitto")
        account = pwd.getpwuid(os.geteuid()).pw_name
        (folder / "conf").write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous {str(is_open).lower()}\n"
            f"user {account}\npersistence {str(keeps).lower()}\n"
            f"persistence_location {folder}/\nautosave_interval 1\nautosave_on_changes true\n"
            "max_queued_messages 0\nmax_inflight_messages 0\n"
        )
        self.address = f"mqtt://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        return [self._program, "-c", str(self.folder / "conf")]

    def serves(self) -> bool:
        with closing(socket.socket()) as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0


class Postgres(Server):
    """A PostgreSQL server with an empty database."""

    def __init__(self) -> None:
        self._program = program("postgres")
        self._own = tempfile.TemporaryDirectory(prefix="slackline-postgres-")  # pytest's folders are closed to other users
        super().__init__(folder := Path(self._own.name))
        if os.geteuid() == 0:  # it does not run as root
            self.user = "postgres"
            shutil.chown(folder, "postgres")
        made = [
            str(Path(self._program).resolve().with_name("initdb")),
            "-D",
            str(folder / "data"),
            "-A",
            "trust",
            "-U",
            "tests",
        ]
        subprocess.run([*made, "--no-sync", "--locale=C.UTF-8"], check=True, capture_output=True, user=self.user, cwd=folder)
        self.address = f"postgresql://tests@127.0.0.1:{self.port}/postgres"

    def command(self) -> list[str]:
        options = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": "", "fsync": "off"}
        options["wal_level"] = "logical"
        return [self._program, "-D", str(self.folder / "data"), *(f"-c{key}={value}" for key, value in options.items())]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)
        self._own.cleanup()

    def serves(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.address, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def do(self, *statements: str) -> None:
        """Execute statements, each by itself."""
        import psycopg

        with psycopg.connect(self.address, connect_timeout=5, autocommit=True) as connection:
            for each in statements:
                connection.execute(each.encode())

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What a query gives; nothing if there is no such table yet."""
        import psycopg

        with psycopg.connect(self.address, connect_timeout=5) as connection:
            try:
                return connection.execute(query).fetchall()
            except psycopg.errors.UndefinedTable:
                return []


class Kafka(Server):
    """A single Kafka broker that is its own controller (KRaft)."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._java, jars = program("java"), _kafka_jars()
        self._run = [self._java, "-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-cp", f"{jars}/*"]
        controller = free_port()
        self._properties = folder / "properties"
        self._properties.write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            f"log.dirs={folder}/logs\nnum.partitions=2\nauto.create.topics.enable=true\n"
            "offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\n"
            "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
            "transaction.state.log.num.partitions=1\n"
        )
        made = [*self._run, "kafka.tools.StorageTool", "format", "-t", "c2xhY2tsaW5lLXRlc3RzIQ", "-c", str(self._properties)]
        subprocess.run(made, check=True, capture_output=True, cwd=folder)
        self.servers = f"127.0.0.1:{self.port}"
        self.address = f"kafka://{self.servers}"

    def command(self) -> list[str]:
        return [*self._run, "kafka.Kafka", str(self._properties)]

    def serves(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0}, logger=_Silent())
            return bool(admin.list_topics(timeout=1).brokers)
        except KafkaException:
            return False


class _Silent:
    def log(self, *_: object, **__: object) -> None:
        pass


def _kafka_jars() -> Path:
    """The broker's jars, from Maven Central, once; SkipTest if they cannot be had."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "slackline-tests")
    folder = cache / f"kafka-{_KAFKA}"
    if not folder.is_dir():
        part = cache / f"kafka-{_KAFKA}.{os.getpid()}"
        part.mkdir(parents=True)
        (part / "pom.xml").write_text(_POM)
        get = [program("mvn"), "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=.", "-DincludeScope=runtime"]
        done = subprocess.run(get, cwd=part, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            shutil.rmtree(part)
            raise SkipTest(f"Kafka's jars cannot be had by mvn: {done.stdout[-300:]}")
        with suppress(OSError):  # another one was faster
            part.rename(folder)
    return folder


class Programs:
    """Commands of slackline in one folder, each with a log; what still runs at the end is killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._commands: dict[str, tuple[tuple[str, ...], int]] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, sign: str, *arguments: str, times: int = 1) -> None:
        """Start a command, and wait until its output has ``sign`` so many times."""
        self._commands[name] = (sign, *arguments), times
        before = self.output_of(name).count(sign)
        with (self._folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", "middleware.cli.main", *arguments]
            self._running[name] = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)

        def is_there() -> bool:
            assert self._running[name].poll() is None, self.output_of(name)[-2_000:]
            return self.output_of(name).count(sign) >= before + times

        until(is_there, f"{name} says {sign!r}")

    def strike(self, name: str, **servers: Server) -> None:
        """Kill -9 a command, or a server, and start it again; ``nobody``: nothing happens."""
        if name in servers:
            servers[name].kill()
            servers[name].start()
        elif name != "nobody":
            self._running[name].kill()
            self._running[name].wait()
            arguments, times = self._commands[name]
            self.start(name, *arguments, times=times)

    def finish(self, name: str) -> int:
        """End it in order; returns its exit code."""
        process = self._running.pop(name)
        process.terminate()
        return process.wait(60)

    def output_of(self, name: str) -> str:
        """Its output in all its lives."""
        log = self._folder / f"{name}.log"
        return log.read_text() if log.exists() else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()


@contextmanager
def serving(folder: Path, code: str, scenario: str, ends: int) -> Iterator[Programs]:
    """A node ``floor`` of a scenario, whose detectors are in plant.py, and its inputs and outputs, so many, at work."""
    (folder / "plant.py").write_text(code)
    (folder / "nodes.toml").write_text(scenario)
    with Programs(folder) as running:
        running.start("node", "node runs", "node", ".", "floor")
        running.start("connect", "connected", "connect", ".", times=ends)
        yield running


def received(source: Source, count: int) -> list[Message]:
    """So many messages of a source, or more."""
    found: list[Message] = []

    def enough() -> bool:
        found.extend(source.receive(0.1))
        return len(found) >= count

    until(enough, f"{count} messages")
    return found


def until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Wait for a condition; fails after so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)
