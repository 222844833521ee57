"""Which classes can be event types, and what is said of those that cannot."""

from __future__ import annotations

import pytest

from middleware.detector import Detector, check_declaration
from middleware.errors import EventError
from middleware.event import Event, EventTypes


class ByKeyword(Event, frozen=True, kw_only=True):
    value: int


class ByPosition(Event, frozen=True):
    value: int


class Reads(Detector):
    subscribes, publishes = (ByPosition,), (ByKeyword,)


def test_fields_by_keyword_only_are_refused_where_they_are_declared_or_deployed() -> None:
    EventTypes([ByPosition])
    with pytest.raises(EventError, match="ByKeyword has keyword-only fields: declare it without kw_only"):
        EventTypes([ByKeyword])
    with pytest.raises(EventError, match="keyword-only"):
        check_declaration(Reads())
