"""The nodes under torture, as processes of their own, each behind proxies: what is done to a process is done here."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
from slackline_torture.proxy import Proxy

SCENARIO = """
name = "torture"
detectors = "slackline_torture.application:application"
results = ["torture.Digest"]

[recording]
generate = "slackline_torture.application:application"

[policies]
lateness = "1s"

[[nodes]]
name = "edge"
detectors = ["Rises", "Deaf"]
durability = "disk"

[[nodes]]
name = "core"
detectors = ["*"]
durability = "disk"
"""

_END = 15.0


class TorturedNode:
    """One node's process. Its peers and clients reach it through proxies only.

    ``address``
        where it really is; ``folder`` holds its state, its log and its report.
    """

    def __init__(self, name: str, scenario: Path, folder: Path) -> None:
        self.name, self._scenario, self.folder = name, scenario, folder
        folder.mkdir(parents=True, exist_ok=True)
        self.address = free_address()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, addresses: Mapping[str, str]) -> None:
        """Start it; ``addresses`` are those of the other nodes, as it shall see them."""
        command = [sys.executable, "-m", "slackline", "node", str(self._scenario), self.name]
        for name, address in {**addresses, self.name: self.address}.items():
            command += ["--address", f"{name}={address}"]
        command += ["--state", str(self.folder / "state"), "--report", str(self.folder / "report.json")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it runs (or stands still, but could run)."""
        return self._process is not None and self._process.poll() is None

    @property
    def memory(self) -> int:
        """Resident size, bytes."""
        return int(psutil.Process(self.pid).memory_info().rss)

    def last_output(self) -> str:
        """The last it has logged."""
        return "\n".join((self.folder / "log").read_text(errors="replace").splitlines()[-8:])

    def signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    @contextlib.contextmanager
    def without_descriptors(self) -> Iterator[None]:
        """It can open no further file and accept no further connection."""
        with self._limited(resource.RLIMIT_NOFILE, psutil.Process(self.pid).num_fds()):
            yield

    @contextlib.contextmanager
    def without_disk(self) -> Iterator[None]:
        """It can make no file longer than it is: as a full disk, writing fails."""
        with self._limited(resource.RLIMIT_FSIZE, 0):
            yield

    @contextlib.contextmanager
    def _limited(self, what: int, soft: int) -> Iterator[None]:
        pid = self.pid
        before = resource.prlimit(pid, what)
        resource.prlimit(pid, what, (soft, before[1]))
        try:
            yield
        finally:
            if self.is_alive and self.pid == pid:
                resource.prlimit(pid, what, before)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def end(self) -> int | None:
        """Ask it to end, and wait; its exit code."""
        if self._process is None:
            return None
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGCONT)
            self._process.terminate()
        try:
            return self._process.wait(_END)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.returncode


class TorturedMesh:
    """Nodes ``edge`` and ``core`` with their links through proxies: ``links`` by what they connect."""

    def __init__(self, folder: Path) -> None:
        scenario = folder / "nodes.toml"
        scenario.write_text(SCENARIO)
        self.nodes = {name: TorturedNode(name, scenario, folder / name) for name in ("edge", "core")}
        edge, core = self.nodes["edge"].address, self.nodes["core"].address
        self.links = {
            "edge to core": Proxy(core),
            "core to edge": Proxy(edge),
            "publishers to edge": Proxy(edge),
            "subscriber to core": Proxy(core),
        }

    def start(self, name: str) -> None:
        """Start a node, for the first time or again."""
        other = "core" if name == "edge" else "edge"
        self.nodes[name].start({other: self.links[f"{name} to {other}"].address})

    def close(self) -> None:
        """End everything."""
        for link in self.links.values():
            link.heal()
        for node in self.nodes.values():
            node.end()
        for link in self.links.values():
            link.close()


def free_address() -> str:
    """An address on the loopback that nobody uses just now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{one.getsockname()[1]}"
