"""What a publisher is given that readers would not take is an error where it is given, and costs no other."""

from __future__ import annotations

from typing import Any

import pytest

from middleware.delivery.publication import Publication
from middleware.model.errors import EventError
from middleware.model.event import Event


class Trade(Event):
    count: int
    price: float = 0.5
    note: str | None = None


class Basket(Event):
    items: list[int]


def trade(*values: Any, number: int = 1) -> Any:
    return Trade(*values, ts=number, id=number, source="s")


WRONG = {
    "a float": (trade(1.5), "Expected `int`, got `float`"),
    "a text": (trade("5"), "Expected `int`, got `str`"),
    "a truth value": (trade(True), "Expected `int`, got `bool`"),
    "nothing": (trade(None), "Expected `int`, got `None`"),
    "a level": (Trade(1, ts=1, id=1, source="s", level=2), "its level is 2, that of a derived event: leave it out"),
    "a text for a float": (trade(1, "2"), "Expected `float`, got `str`"),
    "within a list": (Basket([1, "2"], ts=1, id=1, source="s"), "Expected `int`, got `str`"),  # type: ignore[list-item]
}


@pytest.mark.parametrize(("wrong", "message"), WRONG.values(), ids=list(WRONG))
def test_values_of_another_kind_are_reported_with_their_event(wrong: Event, message: str) -> None:
    publication = Publication()
    with pytest.raises(EventError, match=rf"event 1, {type(wrong).__name__}\(.*cannot be sent: {message}"):
        list(publication.frames([trade(1, number=2), wrong]))
    with pytest.raises(EventError, match=message):
        publication.retraction(wrong)
    with pytest.raises(EventError, match=f"revised as .*{message}"):
        publication.revision(type(wrong)(*(1,) if isinstance(wrong, Trade) else ([],), ts=1, id=1, source="s"), wrong)


def test_values_that_readers_take_are_sent() -> None:
    given = [trade(1, 2, number=1), trade(2**63, number=2), trade(1, 0.5, "text", number=3), Basket([], ts=4, id=4, source="s")]
    assert sum(frame.events for frame in Publication().frames(given)) == 4
