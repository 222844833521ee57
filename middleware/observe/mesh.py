"""The status of a mesh: asks all of its nodes, starting from the address of any of them, over lasting connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from types import TracebackType
from typing import Self

import msgspec

from middleware.model.errors import NetworkError
from middleware.runtime.clients.inquiry import Inquiry
from middleware.runtime.status import Status
from middleware.runtime.transport.keys import Keys
from middleware.runtime.transport.refusals import NOT_LISTED
from middleware.runtime.transport.zeromq import check_address

TIMEOUT = 5.0
"""Seconds that a node may take to answer, by default."""

_SLICE = 0.5
"""Seconds for which one key is tried, before a check whether another one got an answer."""

_PAUSE = 0.05

_REPORT_AFTER = 1.5
"""Seconds after which the nodes without an answer are named."""


class MeshStatus(msgspec.Struct):
    """The statuses of a mesh's nodes, each once, by name; ``silent``: a line for each node that does not answer."""

    nodes: list[Status]
    silent: list[str] = []


class Lookout:
    """Asks the nodes at ``addresses`` and, if it ``follows``, all nodes that these name as their peers.

    ``names``: the nodes in the allow-list of ``keys``; at each address, any of them may answer. Raises NetworkError for what is
    no address.
    """

    def __init__(
        self, addresses: Sequence[str], keys: Keys | None = None, names: Sequence[str] = (), *, follows: bool = True
    ) -> None:
        self._given = list(dict.fromkeys(addresses))
        for address in self._given:  # one that is none never answers
            check_address(address, keys)
        self._keys, self._names, self._follows = keys, names, follows
        self._lines: dict[str, _Line] = {}
        self._learnt: dict[str, str] = {}

    def look(self, timeout: float = TIMEOUT, report_silent: Callable[[str], None] = lambda address: None) -> MeshStatus:
        """Ask all of them at once, for ``timeout`` seconds; nodes found meanwhile are asked for as long again.

        ``report_silent`` is called with each address that has not answered after _REPORT_AFTER seconds.
        """
        found: dict[str, Status] = {}
        silent: dict[str, str] = {}
        asked: set[str] = set()
        due = dict.fromkeys(self._given, "")
        while due:
            answers = self._ask(due, timeout, report_silent)
            asked |= due.keys()
            for address, status in answers.items():
                if status is not None:
                    found[status.node] = status
                else:
                    silent[address] = self._lines[address].describe_silence(due[address], timeout)
            self._learn(found)
            due = {at: name for name, at in self._learnt.items() if at not in asked and name not in found}
        return MeshStatus([found[name] for name in sorted(found)], list(silent.values()))

    def _learn(self, found: dict[str, Status]) -> None:
        for status in found.values():
            if self._follows:
                self._learnt |= status.vitals.nodes
        for name in found:
            self._learnt.pop(name, None)

    def _ask(self, due: dict[str, str], timeout: float, report_silent: Callable[[str], None]) -> dict[str, Status | None]:
        for address, name in due.items():
            if address not in self._lines:
                names = [name] if name and self._names else self._names
                self._lines[address] = _Line(address, self._keys, names)
        with ThreadPoolExecutor(len(due), thread_name_prefix="inquiry") as pool:
            asked = {pool.submit(self._lines[address].ask, timeout): address for address in due}
            try:
                for late in wait(asked, _REPORT_AFTER).not_done:
                    report_silent(asked[late])
                return {address: answer.result() for answer, address in asked.items()}
            except BaseException:  # such as Ctrl-C: the pool would wait for all of them
                self.close()
                raise

    def close(self) -> None:
        """Close all connections."""
        lines = list(self._lines.values())
        if lines:
            with ThreadPoolExecutor(len(lines)) as pool:
                list(pool.map(_Line.close, lines))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class _Line:
    """The connection to one address: one for each name that may be behind it, until one of them answers."""

    def __init__(self, address: str, keys: Keys | None, names: Sequence[str]) -> None:
        self._address, self._keys = address, keys
        self._candidates: Sequence[str | None] = names or [None]
        self._open: dict[str | None, Inquiry] = {}
        self._rejections: dict[str | None, str] = {}
        self._over = threading.Event()

    def ask(self, timeout: float) -> Status | None:
        """The status of the node there, whichever candidate it is; None if it does not answer within ``timeout`` seconds."""
        answers: dict[str | None, Status] = {}
        enough = threading.Event()
        deadline = time.monotonic() + timeout
        several = len(self._candidates) > 1
        self._rejections.clear()

        def ask(name: str | None) -> None:
            while not (enough.is_set() or self._over.is_set()) and (left := deadline - time.monotonic()) > 0:
                try:
                    answers[name] = self._inquiry(name, timeout).ask(min(left, _SLICE) if several else left)
                    enough.set()
                except NetworkError:
                    if self._renew(name):
                        return
                    enough.wait(_PAUSE)

        with ThreadPoolExecutor(len(self._candidates), thread_name_prefix="key") as pool:
            for each in [pool.submit(ask, name) for name in self._candidates]:
                each.result()
        if several and answers:
            self._candidates = list(answers)[:1]
            for name in self._open.keys() - set(self._candidates):
                self._open.pop(name).close()
        return next(iter(answers.values()), None)

    def _inquiry(self, name: str | None, patience: float) -> Inquiry:
        if name not in self._open:
            self._open[name] = Inquiry(self._address, keys=self._keys, node=name, patience=patience)
        return self._open[name]

    def _renew(self, name: str | None) -> bool:
        """Renew a connection that one end has ended for good, since it does not come back. Returns whether the node rejects
        this client: then it is asked no more, and the connection is closed, which would be dialled twenty times a second."""
        inquiry = self._open.get(name)
        if inquiry is None or not (inquiry.is_refused or inquiry.is_rejected):
            return False
        if inquiry.is_rejected:
            self._rejections[name] = inquiry.refusal or ""
        self._open.pop(name).close()
        return name in self._rejections

    def describe_silence(self, name: str, timeout: float) -> str:
        """One line about a node that has not answered. ``name``: its name, or "" if that is unknown."""
        who = f"node {name} at {self._address}" if name else f"the node at {self._address}"
        names = [each for each in self._candidates if each is not None and not name]
        refusals = {*self._rejections.values(), *(inquiry.refusal for inquiry in self._open.values())}
        if NOT_LISTED in refusals:
            return f"{who} rejects this client: {NOT_LISTED}"
        if len(names) <= 1 and (why := next(iter(refusals), None)) is not None:
            return f"{who} rejects this client: {why}"
        of = f", not as {' nor as '.join(names)}" if names else ""
        return f"{who} does not answer within {timeout:g} s{of}"

    def close(self) -> None:
        self._over.set()
        for inquiry in list(self._open.values()):
            inquiry.close()
