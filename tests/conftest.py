"""In which order tests run, that what they start can be interrupted, where real recordings are, and that no test is timed."""

from __future__ import annotations

import gc
import os
import signal
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a shell's background jobs, and inherited by all they start
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ["TZ"] = "UTC"  # commands show local times, and their output is compared
time.tzset()

# The machine may be busy. Examples are drawn anew in each run: fewer at a time, so that runs are often.
settings.register_profile("untimed", settings(), deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

RECORDINGS = Path(__file__).parents[2] / "shared" / "data"
if RECORDINGS.is_dir():
    os.environ.setdefault("SLACKLINE_DATA", str(RECORDINGS))


def pytest_collection_finish() -> None:
    """All test modules and what they import stay: no garbage collection is to go through them again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with Spark first: they take long, and of several workers none shall have such a one to itself at the end."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
