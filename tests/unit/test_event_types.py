"""Which classes can be event types, and the errors for those that cannot."""

from __future__ import annotations

import pytest

from middleware.model.detector import Detector, check_declaration
from middleware.model.errors import EventError
from middleware.model.event import Event, EventTypes


class ByKeyword(Event, kw_only=True):
    value: int


class ByPosition(Event):
    value: int


class Reads(Detector):
    subscribes, publishes = (ByPosition,), (ByKeyword,)


def test_fields_by_keyword_only_are_refused_where_they_are_declared_or_deployed() -> None:
    EventTypes([ByPosition])
    with pytest.raises(EventError, match="ByKeyword has keyword-only fields: declare it without kw_only"):
        EventTypes([ByKeyword])
    with pytest.raises(EventError, match="keyword-only"):
        check_declaration(Reads())


class Alone(Event):
    ts: float  # type: ignore[assignment]


class First(Event):
    celsius: float
    level: int


class Last(ByPosition):
    source: int  # type: ignore[assignment]
    id: str  # type: ignore[assignment]


@pytest.mark.parametrize(("event_type", "fields"), [(Alone, "ts"), (First, "level"), (Last, "id and source")])
def test_a_field_that_every_event_has_is_named(event_type: type[Event], fields: str) -> None:
    message = f"event type {event_type.__name__} has a field of its own named {fields}: every event has ts, id, source, level"
    with pytest.raises(EventError, match=message):
        EventTypes([event_type])
