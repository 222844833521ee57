"""A wrong address is reported without its password or token, whoever reports it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middleware.connect.connectors import opener
from middleware.model.errors import SlacklineError
from middleware.model.event import Event
from middleware.model.words import redacted
from middleware.runtime.clients import Publisher
from middleware.runtime.endpoints import InputPlan
from middleware.runtime.sinks.sink import open_sink

SECRET = "Secret77"

ADDRESSES = [
    "mqtt://plant:{}@127.0.0.1:9x/hits",
    "mqt://plant:{}@127.0.0.1/hits",
    "postgresql://plant:{}@127.0.0.1:9/db",
    "postgresql://plant:{}/77@127.0.0.1/db",
    "postgresql://plant:{}@127.0.0.1:9x/db",
    "postgresql://plant@127.0.0.1:9/db?password={}",
    "postgresql://plant@127.0.0.1:9/db?pasword={}",
    "host=127.0.0.1 port=9 password={}",
    "http://plant:{}@127.0.0.1:9/in",
    "http://127.0.0.1:9/in?token={}",
    "http://127.0.0.1:9x/in?access_token={}&x=1",
    "https://plant:{}@[127/in",
    "ws://plant:{}@127.0.0.1:9x/",
    "ws://0.0.0.0:8080/?token={}",
    "htp://127.0.0.1/in?api_key={}",
    "plant:{}@host",
    "postgres//plant:{}@host/db",
    "tcp://plant:{}@127.0.0.1:9x",
    "tcp://plant:{}@127.0.0.1:9",
]


def tell_output(address: str, folder: Path) -> None:
    options: dict[str, Any] = {"patience": 0.0} if address.startswith("http:") else {}
    with closing(open_sink(address, "out", **options)) as sink:
        sink.take([Event(ts=1, id=1, source="s")])


def tell_input(address: str, folder: Path) -> None:
    reader: Any = SimpleNamespace(has_own_times=True)
    opener(InputPlan(name="in", address=address, types={"t": "T"}), reader, folder)().close()


def tell_client(address: str, folder: Path) -> None:
    Publisher(address, types=[]).close()


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("tell", [tell_output, tell_input, tell_client])
def test_no_secret_is_shown(address: str, tell: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if tell is tell_input and address.startswith(("mqtt:", "http:")):
        pytest.skip("this input listens, or is made before it connects")
    with pytest.raises(SlacklineError) as raised:
        tell(address.format(SECRET), tmp_path)
    text = f"{raised.value} {raised.value.__cause__ or ''} {capsys.readouterr()}"
    assert SECRET not in text
    assert SECRET[:6] not in text


@given(st.text("abcXYZ019-_.~%+!", min_size=3), st.sampled_from(["mqtt://plant:{}@host:1883/t", "x://h/p?Token={}&q=1", "{}"]))
def test_what_is_no_secret_stays(secret: str, form: str) -> None:
    found = redacted(form.format(secret))
    assert found == (form.format("***") if form != "{}" else secret)
    assert redacted(found) == found


@pytest.mark.parametrize(
    "address",
    ["kafka://a:9092,b:9092/hits", "http://127.0.0.1:80/a@b", "tcp://[::1]:5701", "out.jsonl", "C:\\data\\out.jsonl", ""],
)
def test_an_address_without_a_secret_is_shown_as_it_is(address: str) -> None:
    assert redacted(address) == address
