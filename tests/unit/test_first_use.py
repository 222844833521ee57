"""Threads that use an event class for the first time at the same moment: msgspec by itself ends the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading
import msgspec
from slackline import Event
from middleware.link.codec import Drops, EventCodec
from middleware.link.encoding import encode_delta
from middleware.model.change import Delta
from middleware.model.event import EventTypes

sys.setswitchinterval(1e-6)

for number in range(150):
    inner = msgspec.defstruct("Inner", [(f"x{at}", int) for at in range(10)])
    kind = type("Told", (Event,), {"__annotations__": {f"f{at}": inner | None for at in range(10)}}, frozen=True)
    sent = encode_delta("Told", Delta([kind(*[inner(*range(10))] * 10, ts=1, id=1, source="s")]))
    together = threading.Barrier(3)

    def read():
        together.wait()
        ONCE
        for head, block in sent:
            assert len(EventCodec(EventTypes([kind])).decode(head, block, Drops()).inserts) == 1

    threads = [threading.Thread(target=read) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
print("all read")
"""


@pytest.mark.parametrize("once", ["pass", "EventTypes([kind]); msgspec.convert((*[None] * 10, 1, 1, 's', 0), kind)"])
def test_threads_may_read_a_class_that_none_has_read(once: str) -> None:
    program = PROGRAM.replace("ONCE", once)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "all read\n"), done.stderr
