"""What people import from ``slackline`` is there, and importing it is light."""

import subprocess
import sys

import pytest
import slackline


def test_every_public_name_is_there() -> None:
    assert all(getattr(slackline, name) is not None for name in slackline.__all__)
    assert set(slackline.__all__) <= set(dir(slackline))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonesuch"):
        _ = slackline.nonesuch


def test_importing_it_loads_no_sockets_and_no_other_rooms() -> None:
    code = "import sys, slackline; slackline.Event; print(*sorted(name for name in sys.modules if name.count('.') < 2))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"zmq", "numpy", "lark", "typer", "rich", "structlog", "pyspark"} & set(loaded)
    rooms = ("ordering", "link", "broker", "delivery", "runtime", "durability", "spark", "cli", "testing")
    assert not {f"middleware.{room}" for room in rooms} & set(loaded)
