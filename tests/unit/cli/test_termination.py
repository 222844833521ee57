"""SIGTERM on real processes: what is open is closed, what was started is ended, and the exit code is the shell's."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from middleware.cli.output import ExitCode

COMMAND = """
import signal, subprocess, sys, threading
import middleware.cli.main as main
from middleware.cli.command import CommandEntry

def wait() -> None:
    {body}

sys.modules["waiting"] = sys.modules["__main__"]
sys.modules["waiting"].__spec__ = main.__spec__
main.COMMANDS = {{"wait": CommandEntry("waiting:wait", "Wait.")}}
sys.argv = ["slackline", "wait"]
main.main()
"""

PLAIN = """
    try:
        print("ready", flush=True)
        threading.Event().wait(60)
    finally:
        print("closed", flush=True)
"""

STUBBORN = """
    try:
        while True:  # as a shell does, for which Ctrl-C means another line
            try:
                print("ready", flush=True)
                threading.Event().wait(60)
            except KeyboardInterrupt:
                continue
    finally:
        print("closed", flush=True)
"""

DEFERRING = """
    from middleware.runtime.loop.interrupts import uninterrupted

    try:
        with uninterrupted():
            print("ready", flush=True)
            sys.stdin.readline()
            print("started", flush=True)
    finally:
        print("closed", flush=True)
"""

IMPORTING = """
    try:
        sys.path.insert(0, {folder!r})
        try:
            import slow
        except BaseException:
            print("swallowed", flush=True)
        threading.Event().wait(60)
    finally:
        print("closed", flush=True)
"""

WITH_NODES = """
    from middleware.runtime.cluster import Cluster
    from middleware.runtime.scenario import load_scenario

    with Cluster(load_scenario("soccer")):
        print("ready", flush=True)
        threading.Event().wait(60)
"""


def started(body: str, ignored: bool = False) -> subprocess.Popen[str]:
    code = COMMAND.format(body=body.strip())
    if ignored:  # as a shell that is no terminal's does for what runs in the background
        code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + code
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize("body", [PLAIN, STUBBORN])
def test_sigterm_closes_what_is_open(body: str, ignored: bool) -> None:
    with started(body, ignored) as process:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (ExitCode.TERMINATED, "closed\n", "")


def test_sigterm_waits_for_a_process_that_is_being_started() -> None:
    with started(DEFERRING) as process:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate("on\n", timeout=60)
    assert (process.returncode, out, err) == (ExitCode.TERMINATED, "started\nclosed\n", "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, ExitCode.TERMINATED), (signal.SIGINT, ExitCode.INTERRUPTED)])
@pytest.mark.parametrize(("lasts", "printed"), [(0.5, "imported\nclosed\n"), (60, "swallowed\n")])
def test_no_signal_is_lost_in_an_import(lasts: float, printed: str, number: int, code: int, tmp_path: Path) -> None:
    """Whoever imports may take whatever is raised meanwhile for a module that is not there, as pyarrow does with pandas."""
    slow = f"import time; print('ready', flush=True); time.sleep({lasts}); print('imported', flush=True)"
    (tmp_path / "slow.py").write_text(slow)
    with started(IMPORTING.format(folder=str(tmp_path))) as process:
        process.send_signal(number)
        if printed.startswith("swallowed"):
            assert process.stdout is not None
            assert process.stdout.readline() == printed, "an import that does not end holds it up for seconds"
            process.kill()
            return
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, printed), err
    assert "Traceback" not in err


def test_sigterm_leaves_no_node_behind() -> None:
    with started(WITH_NODES) as process:
        nodes = psutil.Process(process.pid).children(recursive=True)
        assert len(nodes) == 2
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)  # an impatient one changes nothing
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (ExitCode.TERMINATED, "")
    _, alive = psutil.wait_procs(nodes, 30)
    assert not alive
