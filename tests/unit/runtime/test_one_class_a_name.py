"""A class that is defined again, as in a notebook cell that is run again, is another one: that is reported, not ignored."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from slackline import run

from detectors.cql import compile_cql
from detectors.sequence.sequence_operator import SequenceQuery
from detectors.window import COUNT, Tumbling, Windows
from middleware.model.detector import Detector
from middleware.model.errors import EventError
from middleware.model.event import Event


def defined(name: str) -> Any:
    return msgspec.defstruct(name, [("value", int)], bases=(Event,), frozen=True, array_like=True, gc=False)


Reading, Again, Peak, PeakAgain = defined("Reading"), defined("Reading"), defined("Peak"), defined("Peak")


class Peaks(Detector):
    subscribes, publishes = (Reading,), (Peak,)

    def on_event(self, event: Any) -> Event:
        found: Event = Peak(event.value, ts=event.ts)
        return found


class Later(Detector):
    subscribes, publishes = (PeakAgain,), ()

    def on_event(self, event: Event) -> None:
        """It would never be called."""


DETECTORS: dict[str, Any] = {
    "plain": lambda: [Peaks()],
    "windows": lambda: [Windows(Reading, Tumbling(10), {"n": COUNT})],
    "sequence": lambda: [SequenceQuery("EVENT SEQ(Reading a, Reading b) WITHIN 5 ns RETURN Two(a.value)", [Reading])],
    "query": lambda: compile_cql("SELECT value FROM Reading WHERE value > 1 INTO Large", [Reading]).operators,
}
TOLD = "two event types are named '{}', both of {}: define it once; in a notebook, run the cells again that name the one before"
READ = TOLD.format("Reading", __name__)


@pytest.mark.parametrize("detectors", DETECTORS.values(), ids=list(DETECTORS))
def test_events_and_tables_of_the_other_class_are_refused(detectors: Any) -> None:
    def given(kind: Any) -> list[Event]:
        return [kind(number, ts=number, id=number, source="s") for number in range(1, 9)]

    assert sum(map(len, run(given(Reading), detectors()).finals.values()))
    with pytest.raises(EventError, match=READ):
        run(given(Again), detectors())
    with pytest.raises(EventError, match=READ):
        run([*given(Reading), *given(Again)], detectors())
    table = pa.table({"value": [1], "ts": [1], "id": [1], "source": ["s"]})
    with pytest.raises(EventError, match=READ):
        run({Again: table}, detectors())


def test_detectors_that_mean_two_classes_are_refused() -> None:
    with pytest.raises(EventError, match=TOLD.format("Peak", __name__)):
        run([], [Peaks(), Later()])
