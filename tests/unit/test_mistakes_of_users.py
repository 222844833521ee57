"""What a user gives by mistake, or has not installed, is named, with what to do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from slackline import Detector, Event, SlacklineError, Subscriber, run


class Reading(Event):
    celsius: float


class Hot(Event):
    celsius: float


class Hots(Detector):
    subscribes, publishes = (Reading,), (Hot,)

    def on_event(self, event: Reading) -> Hot | None:
        return Hot(event.celsius, ts=event.ts) if event.celsius > 90 else None


def test_a_file_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.csv").write_text("celsius,ts\n95,1\n")
    for name in [name for name in sys.modules if name == "pyarrow" or name.startswith("pyarrow.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # type: ignore[arg-type]
    with pytest.raises(SlacklineError, match=r"this needs pyarrow; .*\[tables\]"):
        run(tmp_path / "x.csv", [Hots()])


@pytest.mark.parametrize("asked", ["x", None, Hot])
def test_why_asks_for_an_event(asked: Any) -> None:
    with pytest.raises(SlacklineError, match="ask about an event of the result"):
        run([Reading(95.0, ts=1, id=1, source="plc")], [Hots()]).why(asked)


def test_who_waits_for_a_node_that_is_not_there_is_told_so() -> None:
    with Subscriber("tcp://127.0.0.1:9", Hot) as subscriber, pytest.raises(SlacklineError, match="no node answers at tcp://"):
        subscriber.wait_ready(0.2)
