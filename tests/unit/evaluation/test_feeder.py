"""The feeding process, where it fails; that it feeds is shown by the evaluation itself."""

import pytest

from middleware.evaluation.feeder import Feeder
from middleware.model.errors import RunError


def test_a_feed_that_fails_says_why(tmp_path):
    with Feeder(tmp_path / "none", "tcp://127.0.0.1:9", 1.0) as feeder:
        with pytest.raises(RunError, match=r"is no trace: there is no such folder"):
            feeder.result(60)
        assert feeder.process.poll() is not None


def test_a_feed_that_is_left_ends(tmp_path):
    with Feeder(tmp_path / "none", "tcp://127.0.0.1:9", 1.0) as feeder:
        process = feeder.process
    assert process.poll() is not None
