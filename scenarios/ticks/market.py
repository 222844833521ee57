"""Stock ticks of three exchanges, made up; the queries of ``queries.cql`` over them; and a Python detector above them."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detectors.cql import load_cql
from middleware.model.detector import Detector
from middleware.model.event import Event, Value
from middleware.model.operator import Operator
from middleware.model.time import SECOND

if TYPE_CHECKING:
    import pyarrow as pa

SCRIPT = load_cql(Path(__file__).with_name("queries.cql"))
Bar = SCRIPT.types["Bar"]
"""The event type of a CQL stream: what Python detectors subscribe to."""

EXCHANGES = {"stockTickFromNYSE": "NYSE", "stockTickFromAMEX": "AMEX", "stockTickFromNASDAQ": "NASDAQ"}
SYMBOLS = {"IBM": 168.0, "MSFT": 47.5, "AAPL": 125.0, "GOOG": 537.0, "ORCL": 43.5, "XOM": 87.0, "GE": 27.2, "JPM": 64.0}
"""Prices in dollars on 1 May 2015, the day of the thesis' sample tuple."""

START = 1_430_468_303
"""Its time: 1 May 2015, in seconds since 1970."""

RATE = 200
"""Ticks a second at each exchange."""


class Breakout(Event):
    """A symbol closes above the highest mean of its last ten bars by more than two standard deviations."""

    symbol: str
    closed: float
    above: float


class Breakouts(Detector):
    """Reads bars, keyed by symbol."""

    subscribes, publishes, key = (Bar,), (Breakout,), "symbol"

    def __init__(self) -> None:
        self.means: list[float] = []

    def on_event(self, bar: Any) -> Breakout | None:
        top = max(self.means, default=math.inf)
        self.means = [*self.means[-9:], bar.mean]
        above = bar.closed - top
        return Breakout(bar.symbol, bar.closed, above, ts=bar.ts) if bar.spread and above > 2 * bar.spread else None


def detectors() -> list[Operator | Detector]:
    """All queries, and the detector above them."""
    return [*SCRIPT.operators, Breakouts()]


def ticks(seed: int, seconds: float) -> dict[str, pa.Table]:
    """The ticks of each exchange in order of time: prices walk at random, one walk a symbol that all exchanges follow."""
    import pyarrow as pa

    rng = random.Random(seed)
    prices = dict(SYMBOLS)
    rows: dict[str, list[dict[str, Value]]] = {name: [] for name in EXCHANGES}
    for step in range(round(seconds * RATE)):
        for name, exchange in EXCHANGES.items():
            symbol = rng.choice(list(prices))
            prices[symbol] *= math.exp(rng.gauss(0, 0.0005))
            ts = START * SECOND + round((step + rng.random()) / RATE * SECOND)
            rows[name].append(
                {
                    "ts": ts,
                    "id": step,
                    "source": exchange,
                    "symbol": symbol,
                    "sourceTimestamp": ts // SECOND,
                    "price": round(prices[symbol] * (1 + rng.gauss(0, 0.0002)), 2),
                    "quantity": int(min(rng.lognormvariate(8.5, 1.6), 2e9)),
                    "exchange": exchange,
                }
            )
    return {name: pa.Table.from_pylist(of_exchange) for name, of_exchange in rows.items()}
