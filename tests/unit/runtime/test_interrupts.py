"""Ctrl-C while processes are started: it is answered, and none of them is left behind."""

import os
import signal
import subprocess
import threading

import psutil
import pytest

from middleware.evaluation.feeder import Feeder
from middleware.runtime.cluster import Cluster
from middleware.runtime.loop.interrupts import uninterrupted
from middleware.runtime.scenario import load_scenario

pytestmark = pytest.mark.skipif(
    signal.getsignal(signal.SIGINT) is not signal.default_int_handler, reason="Ctrl-C is switched off here"
)


def test_an_interrupt_waits_for_the_end_of_the_block():
    done = []

    def work():
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_are_left_alone():
    done = []

    def work():
        with uninterrupted():
            done.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [signal.default_int_handler]


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C comes just when a process has been started, before anyone knows it."""
    started = []
    start = subprocess.Popen

    def popen(*arguments, **options):
        process = start(*arguments, **options)
        started.append(psutil.Process(process.pid))
        os.kill(os.getpid(), signal.SIGINT)
        return process

    monkeypatch.setattr(subprocess, "Popen", popen)
    return started


def test_a_feed_that_was_just_started_is_ended(interrupted, tmp_path):
    with pytest.raises(KeyboardInterrupt), Feeder(tmp_path, "tcp://127.0.0.1:9", 1.0):
        raise AssertionError("it did not start")
    assert len(interrupted) == 1
    assert not psutil.wait_procs(interrupted, 30)[1]


def test_nodes_that_were_just_started_are_ended(interrupted):
    with pytest.raises(KeyboardInterrupt), Cluster(load_scenario("soccer")):
        raise AssertionError("it did not start")
    assert len(interrupted) == 1
    assert not psutil.wait_procs(interrupted, 30)[1]
