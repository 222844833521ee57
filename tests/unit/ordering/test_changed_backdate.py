"""What is final was promised by a detector's backdate: a node with state takes no other."""

from __future__ import annotations

import pytest

from middleware.model.change import Batch, Delta
from middleware.model.detector import Detector
from middleware.model.errors import DetectorError
from middleware.model.event import Event
from middleware.ordering.hierarchy import Hierarchy


class Tick(Event):
    pass


class Tock(Event):
    pass


class Tocks(Detector):
    subscribes, publishes = (Tick,), (Tock,)

    def __init__(self, backdate: int) -> None:
        self.backdate = backdate

    def on_event(self, event: Event) -> Event:
        return Tock(ts=event.ts - self.backdate)


@pytest.mark.parametrize(("before", "after"), [(0, 5), (5, 0)])
def test_another_backdate_is_refused_and_the_same_resumes(before: int, after: int) -> None:
    first = Hierarchy([Tocks(before)])
    first.process(Batch({"Tick": Delta([Tick(ts=at, id=at, source="s") for at in range(10, 20)])}, {"Tick": 15}))
    state, parts = first.state(), first.parts(100)
    again = Hierarchy([Tocks(before)])
    again.restore(state, [parts])
    assert again.promised == first.promised
    with pytest.raises(DetectorError, match=rf"Tocks.backdate was {before} ns when its state was stored, and is {after}"):
        Hierarchy([Tocks(after)]).restore(state, [parts])
