"""The nodes of a scenario as processes on this machine: they start and end together, and each leaves a report."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Literal

import msgspec
from msgspec.structs import replace

from middleware.model.errors import NetworkError, RunError
from middleware.runtime.loop.interrupts import uninterrupted
from middleware.runtime.report import NodeReport, read_report
from middleware.runtime.scenario import Scenario

Durability = Literal["disk", "memory"]

_LAST_WORDS = 8
"""The number of log lines to show of a node that has died."""

_READY = 60.0
"""Seconds that the nodes may take to find each other."""

_END = 15.0
"""Seconds that a node may take to end before it is killed."""


class Cluster:
    """All nodes of a scenario, each a process of its own, on free ports of this machine.

    ``addresses``
        where each node is reached.
    ``durability``
        of the nodes whose plan does not set it; their stored state is deleted with the cluster.
    ``reports``
        after the cluster has ended: the report of each node that could write one.
    """

    def __init__(self, scenario: Scenario, alpha: float | None = None, durability: Durability = "memory") -> None:
        nodes = tuple(replace(node, durability=node.durability or durability) for node in scenario.plan.nodes)
        self.scenario = Scenario(replace(scenario.plan, nodes=nodes), scenario.file)
        self.reports: dict[str, NodeReport] = {}
        names = list(scenario.placement)
        self.addresses = dict(zip(names, free_addresses(len(names)), strict=True))
        self._folder = tempfile.TemporaryDirectory(prefix="slackline-")
        self._alpha = alpha
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Cluster:
        try:
            for name in self.scenario.placement:
                self.start(name)
        except BaseException:  # such as Ctrl-C: no started node is left behind
            self.end()
            self._folder.cleanup()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()
        self._folder.cleanup()

    def start(self, name: str) -> None:
        """Start a node's process."""
        plan = Path(self._folder.name, "plan.json")  # the scenario as it is here, which may differ from its file
        plan.write_bytes(msgspec.json.encode(self.scenario.plan))
        command = [sys.executable, "-m", "slackline", "node", str(self.scenario.file), name, "--plan", str(plan)]
        for pair in self.addresses.items():
            command += ["--address", "=".join(pair)]
        if self._alpha is not None:
            command += ["--alpha", str(self._alpha)]
        command += ["--report", str(self._report(name)), "--state", str(self.state(name))]
        command += ["--tethered", "--no-sources"]  # it is fed by whoever has started it
        with self.log(name).open("ab") as log, uninterrupted():
            # A session of its own: Ctrl-C in the terminal reaches only the starter of the cluster, which ends it in order. The
            # node's standard input, always empty, closes when this process ends, even if killed: then the node ends, too.
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )

    def state(self, name: str) -> Path:
        """The state folder of a node; it is deleted with the cluster."""
        return Path(self._folder.name, "state", name)

    def log(self, name: str) -> Path:
        """The file with a node's output."""
        return Path(self._folder.name, f"{name}.log")

    def last_words(self, name: str) -> list[str]:
        """The last lines of a node's output."""
        return self.log(name).read_text(errors="replace").strip().splitlines()[-_LAST_WORDS:]

    def await_ready(self, attach: Callable[[float], None]) -> None:
        """Call ``attach`` (with a timeout) until all nodes are ready; if one has died instead, show its last lines.

        Raises RunError if a node has ended, or if they take too long.
        """
        deadline = time.monotonic() + _READY
        while True:
            try:
                attach(1.0)
                return
            except NetworkError as error:
                for name, code in self.dead().items():
                    output = "\n".join(self.last_words(name))
                    raise RunError(f"node {name} ended with exit code {code}; its last words:\n{output}") from None
                if time.monotonic() > deadline:
                    raise RunError(f"the nodes are not ready after {_READY:.0f} s: {error}") from None

    def dead(self) -> dict[str, int]:
        """Nodes that have ended by themselves, with their exit codes (negative: the signal that killed them)."""
        return {name: code for name, process in self._processes.items() if (code := process.poll()) is not None}

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a node a signal."""
        os.kill(self._processes[name].pid, number)

    def end(self) -> None:
        """Ask all nodes to end, starting with the one that is fed; kill those that do not; read the reports."""
        for process in self._in_order():
            if process.poll() is None:
                process.terminate()
        for process in self._in_order():
            try:
                process.wait(_END)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()
        for name in self._processes:
            report = read_report(self._report(name))
            if report is not None:
                self.reports[name] = report

    def _in_order(self) -> Iterable[subprocess.Popen[bytes]]:
        return sorted(self._processes.values(), key=lambda process: process is not self._processes.get(self.scenario.entry))

    def _report(self, name: str) -> Path:
        return Path(self._folder.name, f"{name}.json")


def free_addresses(count: int) -> list[str]:
    """Loopback addresses with ports that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [f"tcp://127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    finally:
        for one in sockets:
            one.close()
