"""Collections of a node's process: old objects are left alone, and yet no garbage stays for ever."""

from __future__ import annotations

import gc
import sys
import weakref

from middleware.runtime.loop.garbage import collect_when_idle, freeze_objects, short_collections


class Knot:
    """Garbage that only a collection finds."""

    def __init__(self) -> None:
        self.me = self


MIB = 2**20


def _forgotten() -> weakref.ref[Knot]:
    """A cycle that nothing refers to, and that has survived a collection."""
    knot = Knot()
    gone = weakref.ref(knot)
    gc.collect()
    del knot
    gc.collect()
    assert gone() is not None, "it was looked at again"
    return gone


def test_old_garbage_is_found_at_a_quiet_moment_once_the_process_has_doubled() -> None:
    size = [200 * MIB]
    before = gc.get_freeze_count()
    with short_collections(lambda: size[0]):
        gone = _forgotten()
        assert gc.get_freeze_count() > before
        collect_when_idle()
        assert gone() is not None, "the process has not grown"
        size[0] = 401 * MIB
        gc.collect()
        assert gone() is not None, "a busy process had to wait for it"
        collect_when_idle()
        assert gone() is None
        gone = _forgotten()
        collect_when_idle()
        assert gone() is not None, "it has not doubled again"
    assert gc.get_freeze_count() == 0


def test_old_garbage_of_a_process_that_is_never_quiet_is_found_once_there_is_four_times_as_much() -> None:
    size = [200 * MIB]
    with short_collections(lambda: size[0]):
        gone = _forgotten()
        size[0] = 801 * MIB
        gc.collect()
        gc.collect()
        assert gone() is None


def test_a_small_process_counts_as_one_of_128_mib() -> None:
    size = [10 * MIB]
    with short_collections(lambda: size[0]):
        gone = _forgotten()
        size[0] = 256 * MIB
        gc.collect()
        collect_when_idle()
        assert gone() is not None
        size[0] = 257 * MIB
        gc.collect()
        collect_when_idle()
        assert gone() is None


def test_what_is_spared_is_looked_at_by_no_collection_in_a_calm_process_alone() -> None:
    before = gc.get_freeze_count()
    freeze_objects()
    assert gc.get_freeze_count() == before
    with short_collections():
        made = [[number] for number in range(1_000)]
        before = gc.get_freeze_count()
        freeze_objects()
        assert gc.get_freeze_count() >= before + len(made)


def test_everything_is_as_before_afterwards() -> None:
    turn, callbacks = sys.getswitchinterval(), list(gc.callbacks)
    with short_collections():
        assert sys.getswitchinterval() < turn
    assert (sys.getswitchinterval(), gc.callbacks) == (turn, callbacks)
