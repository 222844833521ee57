"""Fresh processes: each is forked from one that has imported what every trial needs, but no detector; one for each hash seed.

A process that starts from nothing takes 300 ms, one that is forked 10.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Timer
from typing import IO, Any, TypeVar

import cloudpickle

from middleware.model.errors import DetectorError

SERVER = "from middleware.testing import fresh, trial; fresh.serve()"
TIMEOUT_S = 300
_LENGTH = 8
_LAST_BYTES = 2_000

T = TypeVar("T")


def in_fresh_processes(task: Callable[[], T], hash_seeds: Sequence[int], timeout: float = TIMEOUT_S) -> list[T]:
    """The results of a task in a fresh process for each hash seed; they run at the same time.

    Raises DetectorError if one fails, or has not ended after ``timeout`` seconds.
    """
    question = pickle.dumps((sys.path, os.getcwd(), dict(os.environ), cloudpickle.dumps(task)))
    servers = [_server(seed) for seed in hash_seeds]
    try:
        for server in servers:
            server.ask(question)
        return [server.answer(timeout) for server in servers]
    except BaseException:
        close()  # others may still have an answer on the way
        raise


class _Server:
    """The process from which those of one hash seed are forked."""

    def __init__(self, seed: int) -> None:
        pipe = subprocess.PIPE
        environment = os.environ | {"PYTHONHASHSEED": str(seed)}
        command = [sys.executable, "-c", SERVER]
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, process_group=0)
        self._is_overdue = False

    def ask(self, question: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # there will be no answer
            _write(self._process.stdin, question)

    def answer(self, timeout: float) -> Any:
        assert self._process.stdout is not None
        timer = Timer(timeout, self._end_overdue)
        timer.start()
        try:
            answer = _read(self._process.stdout)
        finally:
            timer.cancel()
        if answer is None and self._is_overdue:
            raise DetectorError(f"in a fresh process the detector has not ended after {timeout:g} s")
        result, complaints = pickle.loads(answer) if answer is not None else (None, b"the process has ended")
        if result is None:
            raise DetectorError(f"in a fresh process the detector cannot be run:\n{complaints.decode(errors='replace')}")
        return pickle.loads(result)

    def close(self) -> None:
        self._kill()
        self._process.communicate()

    def _end_overdue(self) -> None:
        self._is_overdue = True
        self._kill()

    def _kill(self) -> None:
        """It, and what was forked from it."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


_servers: dict[int, _Server] = {}


def _server(seed: int) -> _Server:
    if seed not in _servers:
        _servers[seed] = _Server(seed)
    return _servers[seed]


@atexit.register
def close() -> None:
    """End the processes from which others are forked; when they are needed again, they are started again."""
    while _servers:
        _servers.popitem()[1].close()


def serve() -> None:
    """The other side: answers each question by a process of its own, until there are no more."""
    answers = os.fdopen(os.dup(1), "wb")
    while (question := _read(sys.stdin.buffer)) is not None:
        with tempfile.TemporaryFile() as output:
            _write(answers, pickle.dumps(_forked(question, output)))


def _forked(question: bytes, output: IO[bytes]) -> tuple[bytes | None, bytes]:
    """The answer of a process of its own to a question; None, and its last output, if it failed."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for stream in (1, 2):  # so that a detector that prints does not garble the answer
            os.dup2(output.fileno(), stream)
        _answer(question, write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        answer = pipe.read()
    if os.waitpid(child, 0)[1] == 0:
        return answer, b""
    output.seek(max(0, output.seek(0, os.SEEK_END) - _LAST_BYTES))
    return None, output.read()


def _answer(question: bytes, to: int) -> None:
    """Run a task, write what it returns, and end this process."""
    status = 1
    try:
        sys.path[:], folder, environment, task = pickle.loads(question)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        answer = cloudpickle.dumps(pickle.loads(task)())
        with os.fdopen(to, "wb") as pipe:
            pipe.write(answer)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _write(pipe: IO[bytes], content: bytes) -> None:
    pipe.write(len(content).to_bytes(_LENGTH) + content)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes | None:
    """The next bytes written; None if no more comes."""
    length = int.from_bytes(pipe.read(_LENGTH)) or None
    content = pipe.read(length) if length is not None else b""
    return content if len(content) == length else None
