"""Fresh processes share nothing with one another, and say what went wrong in them."""

import os
import sys
import time
from pathlib import Path

import pytest

from middleware.model.errors import DetectorError
from middleware.testing import fresh
from middleware.testing.fresh import in_fresh_processes


@pytest.fixture(autouse=True, scope="module")
def _ended():
    yield
    fresh.close()


def test_each_has_its_hash_seed_and_no_two_are_the_same() -> None:
    def surroundings() -> tuple[int, int]:
        return hash("a text"), os.getpid()

    (one, first), (other, second) = in_fresh_processes(surroundings, (1, 2))
    (again, third), (fourth, _) = in_fresh_processes(surroundings, (1, 2))
    assert (one, other) == (again, fourth) and one != other
    assert len({first, second, third, os.getpid()}) == 4


def test_what_one_changes_the_next_does_not_see() -> None:
    def counted() -> int:
        sys.modules["middleware"].count = getattr(sys.modules["middleware"], "count", 0) + 1
        return sys.modules["middleware"].count

    assert [in_fresh_processes(counted, (1, 2)) for _ in range(3)] == [[1, 1]] * 3


def test_it_has_the_folder_and_the_environment_of_the_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def surroundings() -> tuple[str, str | None]:
        return os.getcwd(), os.environ.get("OF_THE_MOMENT")

    assert in_fresh_processes(surroundings, (1,)) == [(os.getcwd(), None)]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OF_THE_MOMENT", "yes")
    assert in_fresh_processes(surroundings, (1,)) == [(str(tmp_path), "yes")]


def test_what_it_prints_and_reads_is_not_the_answer() -> None:
    def noisy() -> str:
        print("printed")
        os.write(1, b"written\n")
        return "read: " + sys.stdin.read()

    assert in_fresh_processes(noisy, (1, 2)) == ["read: "] * 2


def test_an_error_is_reported_with_what_was_printed_and_the_next_task_runs() -> None:
    def failing() -> None:
        print("so far, so good")
        raise ValueError("not any more")

    with pytest.raises(DetectorError, match=r"(?s)cannot be run:.*so far, so good.*ValueError: not any more"):
        in_fresh_processes(failing, (1, 2))
    assert in_fresh_processes(int, (1, 2)) == [0, 0]


def test_a_process_that_dies_or_kills_the_one_it_came_from_is_an_error() -> None:
    for victim in (os.getpid, os.getppid):
        with pytest.raises(DetectorError, match="cannot be run"):
            in_fresh_processes(lambda victim=victim: os.kill(victim(), 9), (1, 2))
    assert in_fresh_processes(int, (1,)) == [0]


def test_one_that_does_not_end_is_ended() -> None:
    started = time.monotonic()
    with pytest.raises(DetectorError, match=r"not ended after 0\.3 s"):
        in_fresh_processes(lambda: time.sleep(60), (1, 2), 0.3)
    assert time.monotonic() - started < 30
    assert in_fresh_processes(int, (1,)) == [0]


def test_a_large_answer_comes_whole() -> None:
    assert in_fresh_processes(lambda: b"x" * 5_000_000, (1, 2)) == [b"x" * 5_000_000] * 2
