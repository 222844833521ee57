"""Spark Connect: a server from the PySpark package prepares a trace and runs an archive."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
import pytest

from tests.system.spark_cluster import DEADLINE, HOST, SMALL, settings

pytestmark = [pytest.mark.system, pytest.mark.spark]

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """The address of a server with two task slots, which ends with the block."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    where = {"address": HOST, "port": port}
    options = [option for name, value in where.items() for option in ("--conf", f"spark.connect.grpc.binding.{name}={value}")]
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        "--class",
        SERVER,
        "--master",
        "local[2]",
        *SMALL,
        *options,
    ]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=os.environ | settings())
    try:
        deadline = time.monotonic() + DEADLINE
        while True:
            assert server.poll() is None and time.monotonic() < deadline, (folder / "server.log").read_text(errors="replace")
            with suppress(OSError), socket.create_connection((HOST, port), 1):
                break
            time.sleep(0.05)
        yield f"sc://{HOST}:{port}"
    finally:
        server.terminate()
        server.wait(DEADLINE)


def test_an_archive_through_spark_connect(tmp_path: Path) -> None:
    given = ["archive", "bookstore", "--seconds", "100", "--check", "--json", "-"]
    command = [sys.executable, "-c", "from middleware.cli.main import main; main()", *given]
    with connect_server(tmp_path) as address:
        done = subprocess.run(
            [*command, "--master", address],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=5 * DEADLINE,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = json.loads(done.stdout)
    assert printed["oracle_equal"] is True and sum(printed["results"].values()) > 5
