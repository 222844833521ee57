"""Work in Spark that is interrupted: it ends, also where it is between two jobs, and nothing is logged of links that were
cut."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = [pytest.mark.system, pytest.mark.spark]

DEADLINE = 240.0

SOON = 9.0
"""Seconds for all that follows the signal: the job that runs, a last cleaning up, and the end of Java. Work that nobody
cancels is waited for ten seconds, so a longer time here would not see it."""

MANY_JOBS = """
import signal, sys, time
from pathlib import Path
from middleware.cli.termination import end_in_order
from middleware.spark.jobs import interruptible
from middleware.spark.session import spark_session

def work():
    try:
        for number in range(10_000):
            session.range(10).count()
            print("ran", flush=True)
            {between}
    finally:
        Path(sys.argv[1], "cleaned up").touch()

end_in_order()
with spark_session(1) as session:
    interruptible(work)
"""

BETWEEN = {"between jobs": "time.sleep(0.3)", "in a job": "session.range(4).foreach(lambda row: time.sleep(60))"}


@pytest.mark.parametrize("moment", BETWEEN)
@pytest.mark.parametrize(
    ("number", "code", "send"),
    [(signal.SIGINT, -signal.SIGINT, os.kill), (signal.SIGTERM, 143, os.kill), (signal.SIGTERM, 143, os.killpg)],
    ids=["SIGINT", "SIGTERM", "SIGTERM-for-Java-too"],
)
def test_ends_soon(tmp_path, moment, number, code, send):
    script = MANY_JOBS.format(between=BETWEEN[moment])
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", script, str(tmp_path)]
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ran\n"
        time.sleep(0.1)  # so that it is where the moment says
        send(process.pid, number)
        began = time.monotonic()
        _, err = process.communicate(timeout=DEADLINE)
        assert time.monotonic() - began < SOON
    finally:
        process.kill()
    assert process.returncode == code, err
    assert "py4j" not in err
    assert (tmp_path / "cleaned up").exists()
