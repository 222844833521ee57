"""Ctrl-C while Spark is being started: the command ends, and so does the Java process that was on its way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest

from middleware.cli.output import ExitCode

pytestmark = [pytest.mark.system, pytest.mark.spark]

DEADLINE = 240.0

LAUNCHER, JAVA = "org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"
"""The two processes that Spark is started by, one after the other; the first looks up how to start the second."""


CONNECTED = "connected"
"""Java has answered, and is asked for what Spark is made of."""


@pytest.mark.parametrize(
    ("number", "moment"),
    [(signal.SIGINT, LAUNCHER), (signal.SIGINT, JAVA), (signal.SIGINT, CONNECTED), (signal.SIGTERM, JAVA)],
)
def test_leaves_no_java_behind(tmp_path, number, moment):
    command = [sys.executable, "-m", "middleware.cli.main", "run", "bookstore", "--spark", "--out", str(tmp_path)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    before: list[psutil.Process] = []
    try:
        before = awaited(process, moment)
        os.kill(process.pid, number)
        # whoever still has standard output open is waited for here
        out, err = process.communicate(timeout=DEADLINE)
        expected = ExitCode.INTERRUPTED if number == signal.SIGINT else ExitCode.TERMINATED
        assert (process.returncode, err) == (expected, ""), out
        assert all(ends(each) for each in before)
    finally:
        process.kill()
        for each in before:
            with suppress(psutil.NoSuchProcess):
                each.kill()
    assert not list(tmp_path.rglob("*.partial")), "what was begun is left lying about"


def awaited(process: subprocess.Popen[str], moment: str) -> list[psutil.Process]:
    """All that the command has started, once one of them is the process that is waited for."""
    deadline = time.monotonic() + DEADLINE
    while True:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        command = psutil.Process(process.pid)
        below = command.children(recursive=True)
        if moment == CONNECTED and any(each.status == psutil.CONN_ESTABLISHED for each in command.net_connections()):
            return below
        if any(moment in line(each) for each in below):
            return below
        time.sleep(0.005)


def line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def ends(process: psutil.Process) -> bool:
    """Whether it is gone soon: a process that is ending closes its standard output a moment before it is no more."""
    deadline = time.monotonic() + 10
    while runs(process) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not runs(process)


def runs(process: psutil.Process) -> bool:
    """Whether it is there, and not only because nobody has asked how it ended."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
