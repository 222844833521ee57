"""A standalone cluster of Spark on this machine: a master and two workers, started from the PySpark package."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyspark

HOST = "127.0.0.9"
DEADLINE = 300.0
"""Seconds for each step: starting a cluster took 141 on two cores at a load of 20."""

SMALL = ("--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.sql.adaptive.enabled=false")
"""Options of spark-submit for little data: tasks cost more than what they do."""


class Cluster:
    """``master``: its address. ``workers``: their processes, to be killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        self.processes: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def start(self) -> None:
        master = self._run("master.Master", "--host", HOST, "--port", "0", "--webui-port", "0", name="master")
        self.master = f"spark://{HOST}:{self._awaited('master', 'Starting Spark master at spark://' + HOST + ':', master)}"
        names = ("worker-1", "worker-2")
        for name in names:
            where = str(self._folder / name)
            options = ["--host", HOST, "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", where]
            self.workers.append(self._run("worker.Worker", *options, self.master, name=name))
        for name, worker in zip(names, self.workers, strict=True):
            self._awaited(name, "Successfully registered with master", worker)

    def kill_worker(self) -> None:
        """SIGKILL to the last worker, and to its executors."""
        worker = psutil.Process(self.workers.pop().pid)
        for process in [worker, *worker.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def kill_executors(self) -> None:
        """SIGKILL to all executors, with their Python; the workers start others."""
        for worker in self.workers:
            for process in psutil.Process(worker.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    def _run(self, which: str, *options: str, name: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {"SPARK_LOCAL_IP": HOST, "SPARK_NO_DAEMONIZE": "1", "PYSPARK_PYTHON": sys.executable}
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [self._class, f"org.apache.spark.deploy.{which}", *options], stdout=log, stderr=log, env=environment
            )
        self.processes.append(process)
        return process

    def _awaited(self, name: str, text: str, process: subprocess.Popen[bytes]) -> str:
        """What follows a text in a log, up to the end of its line."""
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            output = (self._folder / f"{name}.log").read_text(errors="replace")
            line, ended, _ = output.partition(text)[2].partition("\n")
            if ended:  # else it may be cut off within the port
                return line.strip()
            assert process.poll() is None, output
            time.sleep(0.05)
        raise AssertionError(f"{name} says nothing of {text!r}: {output}")

    def close(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(DEADLINE)


@contextmanager
def spark_cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster that ends with the block; logs and the workers' folders are in ``folder``."""
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def settings() -> dict[str, str]:
    """The environment of a driver that uses the cluster: its own address, and the Python of the executors."""
    return {"SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
