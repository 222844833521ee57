"""The display of a run under way: a live table on a terminal, and a line every few seconds where there is none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from middleware.model.event import Event, field_names, type_name
from middleware.model.quantities import spoken_time

if TYPE_CHECKING:
    from rich.console import Console

    from middleware.runtime.clients.collector import Collector
    from middleware.runtime.cluster import Cluster

_EVERY = 1.5
"""Seconds between two lines where the output is no terminal: so nothing is silent for two."""

_STYLES = {"early": "yellow", "revised": "magenta", "withdrawn": "red strike", "final": "green"}


class Progress:
    """How far a run has come: ``fed`` of ``total`` events, and what its collector has got."""

    def __init__(self, mode: str, total: int, cluster: Cluster, collector: Collector) -> None:
        self.fed = 0
        self._mode, self._total = mode, total
        self._cluster, self._collector = cluster, collector

    def line(self) -> str:
        """It all in one line."""
        changes = list(self._collector.changes.values())
        early, revised, retracted = (sum(one[kind] for one in changes) for kind in ("inserted", "revised", "retracted"))
        return (
            f"{self._mode}: {self.fed:,} of {self._total:,} events fed · {early:,} detections early, "
            f"{revised + retracted:,} corrected, {len(self._collector.finals):,} final"
        )

    def gone(self) -> list[str]:
        """Nodes that have ended before they should."""
        return [f"node {name} ended with exit code {code}" for name, code in self._cluster.dead().items()]

    def table(self) -> Group:
        """The line, and the latest results."""
        table = Table(expand=False)
        for heading in ("result", "when", "what", "state"):
            table.add_column(heading)
        for shown in list(self._collector.shown):
            event, state = shown.event, Text(shown.state, _STYLES[shown.state])
            table.add_row(type_name(event.__class__), spoken_time(event.ts), fields_of(event), state)
        rows: list[RenderableType] = [Text(self.line()), table]
        return Group(*rows, *(Text(line, "bold red") for line in self.gone()))


@contextmanager
def step(screen: Console, text: str, every: float = _EVERY) -> Iterator[None]:
    """Say what is being done until the block is left: with a spinner, or, where there is no terminal, with a line and another
    one every few seconds.
    """
    if screen.is_terminal:
        with screen.status(f"{text} ..."):
            yield
        return
    screen.print(f"{text} ...", markup=False, soft_wrap=True)
    began = time.monotonic()
    with _repeated(lambda: screen.print(f"{text} ... {time.monotonic() - began:.0f} s", markup=False, soft_wrap=True), every):
        yield


@contextmanager
def steps(screen: Console, every: float = _EVERY) -> Iterator[Callable[[str], None]]:
    """Show one step after another: the caller announces each step, which ends the one before."""
    with ExitStack() as stack:
        current = stack.enter_context(ExitStack())

        def begin(text: str) -> None:
            current.close()
            current.enter_context(step(screen, text, every))

        yield begin


@contextmanager
def shown(progress: Progress, screen: Console, every: float = _EVERY) -> Iterator[None]:
    """Show the progress until the block is left: as a live table, or every few seconds (``every``) as a line."""
    if screen.is_terminal:
        with Live(get_renderable=progress.table, console=screen, refresh_per_second=4, transient=True):
            yield
        return
    with _repeated(lambda: screen.print("; ".join([progress.line(), *progress.gone()]), markup=False, soft_wrap=True), every):
        yield


@contextmanager
def _repeated(report: Callable[[], None], every: float) -> Iterator[None]:
    """Do something every so many seconds, in a thread, until the block is left."""
    left = threading.Event()

    def resume() -> None:
        while not left.wait(every):
            report()

    teller = threading.Thread(target=resume, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        left.set()
        teller.join()


def fields_of(event: Event) -> str:
    """The fields of an event, without its stamp, in a line."""
    names = field_names(event.__class__)
    values = ((name, getattr(event, name)) for name in names)
    return ", ".join(f"{name}={value:.2f}" if isinstance(value, float) else f"{name}={value}" for name, value in values)
