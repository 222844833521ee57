"""Flows forget what they no longer need at once in these tests, not when there is much of it."""

import pytest

from detectors.flow.operations import grouping, keyed_fold, program


@pytest.fixture(autouse=True, scope="module")
def forgetful():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "_TRIM", 0)
        patch.setattr(keyed_fold, "_TRIM", 0)
        patch.setattr(program, "_SWEEP", 3)
        yield
