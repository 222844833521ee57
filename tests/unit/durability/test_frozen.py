"""What a checkpoint does beside its bytes."""

from __future__ import annotations

import gc

import pytest

from middleware.durability.frozen import decode_checkpoint, encode_checkpoint, known_events, uncollected
from middleware.errors import StateError
from middleware.event import Event, EventTypes


class Hit(Event):
    ball: int


TYPES = EventTypes([Hit])


def test_what_was_known_stays_known() -> None:
    data = encode_checkpoint({"events": [Hit(1, ts=1)]}, TYPES, {"Gone": "Gone(x: int)", "Hit": "Hit(ball: int)"})
    assert known_events(data, TYPES) == {"Gone": "Gone(x: int)", "Hit": "Hit(ball: int)"}
    assert decode_checkpoint(data, TYPES) == {"events": [Hit(1, ts=1)]}


@pytest.mark.parametrize("cut", [0, 3, 8, 15])
def test_what_is_no_checkpoint_is_an_error(cut: int) -> None:
    data = encode_checkpoint({}, TYPES, {})
    with pytest.raises(StateError, match="the checkpoint is none"):
        decode_checkpoint(data[:cut], TYPES)


def test_collections_go_on_whatever_happens_meanwhile() -> None:
    assert gc.isenabled()
    with uncollected(), uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), uncollected():
        raise KeyError
    assert gc.isenabled()
