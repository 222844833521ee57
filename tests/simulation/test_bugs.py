"""Proof that the simulated worlds see what they are to see: each deliberate bug shows within so many of them."""

from __future__ import annotations

import pytest

from tests.simulation.bugs import BUGS, MOST, first_world


@pytest.mark.parametrize("name", BUGS)
def test_a_deliberate_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name](monkeypatch)
    assert first_world(name) is not None, f"{name}: not found within {MOST} worlds"
