"""Hidden inputs: what is one, and what is not."""

import datetime
import io
import math
import os
import random
import secrets
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from middleware.testing.hidden import hidden_calls

OWN = random.Random(3)


@pytest.mark.parametrize(
    "call",
    [
        time.time,
        time.monotonic_ns,
        lambda: time.sleep(0),
        datetime.datetime.now,
        datetime.date.today,
        random.random,
        lambda: random.randint(1, 5),
        lambda: random.choice([1, 2]),
        lambda: secrets.token_bytes(3),
        uuid.uuid4,
        lambda: os.urandom(2),
        lambda: os.listdir("."),
        lambda: open(os.devnull).close(),
        lambda: Path(os.devnull).read_text(),
        lambda: print("x"),
    ],
)
def test_clocks_chance_and_the_outside_are_found(call: Callable[[], object]) -> None:
    assert hidden_calls(call)


@pytest.mark.parametrize(
    "call",
    [
        lambda: OWN.random() + OWN.randint(1, 9),
        lambda: [*sorted([3, 1]), len("abc"), math.floor(2.5)],
        lambda: io.StringIO("x").read(),
        lambda: time.strftime("%Y", time.gmtime(0)),
        lambda: datetime.datetime.fromtimestamp(0, datetime.UTC).isoformat(),
        lambda: "b".join(["a", "c"]).upper(),
    ],
)
def test_functions_of_their_arguments_are_not(call: Callable[[], object]) -> None:
    assert hidden_calls(call) == []


def test_the_former_profiler_comes_back_after_an_error() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    def profiler(frame: object, event: str, argument: object) -> None:
        return None

    before = sys.getprofile()
    sys.setprofile(profiler)
    try:
        with pytest.raises(ZeroDivisionError):
            hidden_calls(fail)
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(before)
