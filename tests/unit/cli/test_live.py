"""The display of a run under way, with and without a terminal."""

from __future__ import annotations

import io
import threading
from collections import Counter, deque
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from middleware.cli.runs.live import Progress, shown, step, steps
from middleware.model.event import Event
from middleware.runtime.clients.collector import Shown


class Found(Event):
    weight: float


class Lines(io.StringIO):
    """Text that lets one wait until so many lines were written."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count, self.there = count, threading.Event()

    def write(self, text: str) -> int:
        written = super().write(text)
        if self.getvalue().count("\n") >= self._count:
            self.there.set()
        return written


def progress(dead: dict[str, int]) -> Progress:
    collector: Any = SimpleNamespace(
        changes={"Found": Counter(inserted=1_200, revised=2, retracted=3)},
        finals=[None] * 7,
        shown=deque([Shown(Found(0.5, ts=2_000_000_000), "early")]),
    )
    cluster: Any = SimpleNamespace(dead=lambda: dead)
    display = Progress("speculative", 34_000, cluster, collector)
    display.fed = 12_000
    return display


LINE = "speculative: 12,000 of 34,000 events fed · 1,200 detections early, 5 corrected, 7 final"


def test_a_line_every_so_often_where_there_is_no_terminal() -> None:
    written = Lines(3)
    with shown(progress({"gate": -9}), Console(file=written), every=0.001):
        assert written.there.wait(60)
    lines = written.getvalue().splitlines()
    assert set(lines) == {f"{LINE}; node gate ended with exit code -9"}
    assert not [thread for thread in threading.enumerate() if thread.name == "progress"]


def test_a_table_on_a_terminal() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=140)
    with shown(progress({"gate": -9}), console):
        pass
    text = written.getvalue()
    assert LINE in text
    assert "weight=0.50" in text
    assert "node gate ended with exit code -9" in text


def test_a_step_that_takes_long_says_so_again_and_again_where_there_is_no_terminal() -> None:
    written = Lines(3)
    with step(Console(file=written), "the nodes start", every=0.001):
        assert written.there.wait(60)
    first, *others = written.getvalue().splitlines()
    assert first == "the nodes start ..."
    assert all(line.startswith("the nodes start ... ") for line in others)


def test_one_step_after_the_other_and_none_is_silent() -> None:
    written = Lines(4)
    with steps(Console(file=written, width=100), every=0.001) as begin:
        begin("reading")
        begin("sorting")
        assert written.there.wait(60)
    lines = written.getvalue().splitlines()
    assert lines[0] == "reading ..."
    after = lines[lines.index("sorting ...") :]
    assert set(after) <= {"sorting ...", "sorting ... 0 s"}, "the step before has ended"
    assert not [thread for thread in threading.enumerate() if thread.name == "progress"]
