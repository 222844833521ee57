"""What people import from ``middleware`` is there, and importing it is light."""

import subprocess
import sys

import pytest

import middleware


def test_every_public_name_is_there():
    assert all(getattr(middleware, name) is not None for name in middleware.__all__)
    assert set(middleware.__all__) <= set(dir(middleware))


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonesuch"):
        _ = middleware.nonesuch


def test_importing_it_loads_no_sockets_and_no_other_rooms():
    code = "import sys, middleware; print(*sorted(name for name in sys.modules if name.count('.') < 2))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"zmq", "numpy", "lark", "typer", "rich", "structlog", "pyspark"} & set(loaded)
    rooms = ("ordering", "link", "broker", "delivery", "runtime", "durability", "spark", "cli", "testing")
    assert not {f"middleware.{room}" for room in rooms} & set(loaded)
