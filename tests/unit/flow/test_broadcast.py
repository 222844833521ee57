"""A broadcast stream reaches every part, and late values of it change what stood beside the old ones."""

import pytest

from detectors.flow import Flow, FlowError
from middleware.model.event import END, Event
from middleware.ordering.slack.kslack import Lateness
from middleware.ordering.unit import Policies
from middleware.runtime.engine import run
from middleware.testing.flows import check_flow


class Trade(Event):
    item: str
    amount: int


class Rate(Event):
    per_unit: int


class Priced(Event):
    item: str
    price: int


def price(pair: tuple) -> list[tuple[str, int]]:
    trade, rate = pair
    return [(trade.item, trade.amount * (rate.per_unit if rate else 0))]


def shop(shards: int = 16) -> Flow:
    flow = Flow("shop")
    trades = flow.source(Trade).alongside(flow.source(Rate), key=lambda trade: trade.item, shards=shards)
    trades.map(price).sink(Priced, lambda pair: pair)
    return flow


TRADES = [Trade(f"i{n % 29}", n, ts=n, id=n, source="t") for n in range(1, 60)]
RATES = [Rate(n, ts=n, id=n, source="r") for n in (10, 25, 40)]


def known_at(trade: Trade) -> int:
    """The last rate; at equal time the rate's source comes first."""
    return max((rate.ts for rate in RATES if rate.ts <= trade.ts), default=0)


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_every_part_hears_of_it(parts):
    policies = Policies(alpha=0.0, lateness=Lateness(floor=END))
    made = run([*TRADES, *RATES], shop(64).operators(parts), policies=policies, batch=1)  # the rates come last and correct all
    by_part = {name: [e for e in events if type(e) is Priced] for name, events in made.finals.items()}
    prices = sorted((event.ts, event.price) for events in by_part.values() for event in events)
    assert prices == [(trade.ts, trade.amount * known_at(trade)) for trade in TRADES]
    assert sum(map(bool, by_part.values())) == parts


@pytest.mark.parametrize("shards", [1, 3])
def test_as_the_sequential_run(shards):
    check_flow(shop(shards), [*TRADES[:25], *RATES], runs=6)


def test_shards_are_a_number():
    with pytest.raises(FlowError, match="at least 1"):
        shop(0)
