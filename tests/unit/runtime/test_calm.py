"""Collections of a node's process: old objects are left alone, and yet no garbage stays for ever."""

from __future__ import annotations

import gc
import sys
import weakref

from middleware.runtime.calm import calm, spare


class Knot:
    """Garbage that only a collection finds."""

    def __init__(self) -> None:
        self.me = self


def test_what_survived_a_collection_is_left_alone_until_there_is_twice_as_much() -> None:
    size = [100]
    before = gc.get_freeze_count()
    with calm(lambda: size[0]):
        knot = Knot()
        gone = weakref.ref(knot)
        gc.collect()
        assert gc.get_freeze_count() > before
        del knot
        gc.collect()
        assert gone() is not None, "it was looked at again"
        size[0] = 201
        gc.collect()
        gc.collect()
        assert gone() is None
    assert gc.get_freeze_count() == 0


def test_what_is_spared_is_looked_at_by_no_collection_in_a_calm_process_alone() -> None:
    before = gc.get_freeze_count()
    spare()
    assert gc.get_freeze_count() == before
    with calm():
        made = [[number] for number in range(1_000)]
        before = gc.get_freeze_count()
        spare()
        assert gc.get_freeze_count() >= before + len(made)


def test_everything_is_as_before_afterwards() -> None:
    turn, callbacks = sys.getswitchinterval(), list(gc.callbacks)
    with calm():
        assert sys.getswitchinterval() < turn
    assert (sys.getswitchinterval(), gc.callbacks) == (turn, callbacks)
