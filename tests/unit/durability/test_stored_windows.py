"""Windows stored in another form, by a release that ran them on trees: refused, and right after --rebuild."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lives import Life
from msgspec.structs import astuple

from detectors import window
from detectors.cql.cql_script import compile_cql
from detectors.cql.query_operators import stepped_queries
from detectors.window import MEDIAN, VARIANCE, Hopping, Windows
from middleware.link.codec import Drops, EventCodec
from middleware.model.detector import Detector
from middleware.model.errors import DetectorError
from middleware.model.event import IDENTITY, ORDER, Event, EventTypes, type_name
from middleware.testing.oracle import oracle


class Tick(Event):
    symbol: str
    price: float
    quantity: float | None = None


class Out(Event):
    symbol: str
    value: float | None


QUERY = "SELECT symbol, {} AS value FROM Tick [SIZE 4 nanoseconds EVERY 2 nanoseconds] GROUP BY symbol INTO Out"
PLANS = {
    "variance": lambda: Windows(Tick, over=Hopping(4, 2), values={"value": (VARIANCE, "price")}, key="symbol", name="Out"),
    "median": lambda: Windows(Tick, over=Hopping(4, 2), values={"value": (MEDIAN, "price")}, key="symbol", name="Out"),
    "nullable": lambda: compile_cql(QUERY.format("avg(quantity)"), [Tick, Out]).operators[0],
    "median of a query": lambda: compile_cql(QUERY.format("median(price)"), [Tick, Out]).operators[0],
}
TICKS = [Tick("ab"[ts % 2], ts * 1.5, None if ts % 3 else ts * 0.5, ts=ts, id=ts, source="market") for ts in range(1, 30)]


def life(folder: Path, plan: Detector, **options: Any) -> Life:
    return Life(
        folder,
        EventTypes([Tick, *plan.publishes]),
        {"Q": plan},
        wants=[type_name(each) for each in plan.publishes],
        raw=["Tick"],
        **options,
    )


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_another_form_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: Any) -> None:
    monkeypatch.setattr(window.stepped_windows, "is_in_step", lambda over: False)
    monkeypatch.setattr(stepped_queries, "is_in_step", lambda over: False)
    first = life(tmp_path, plan())
    first.feed(*TICKS[:20])
    first.runner.end()
    first.kill()
    monkeypatch.undo()
    with pytest.raises(DetectorError, match=r"Q cannot take up its stored state, which is in another form.*--rebuild"):
        life(tmp_path, plan())
    again = life(tmp_path, plan(), rebuild=True)
    assert again.runner.recovered.events == 20
    again.feed(*TICKS[20:])
    made, codec = {}, EventCodec(again.broker.types)
    for head, block in again.sent:
        delta = codec.decode(head, block, Drops())
        for event in (*delta.inserts, *(new for _, new in delta.revises)):
            made[IDENTITY(event)] = event
    expected = [astuple(event) for event in oracle(TICKS, {"Q": plan()})["Q"] if 22 < event.ts <= 26]
    assert [astuple(event) for event in sorted(made.values(), key=ORDER) if 22 < event.ts <= 26] == expected != []
    again.kill()
