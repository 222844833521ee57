"""``slackline why-waiting`` where not all is well: nodes that are gone, keys to choose from, nothing that waits."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from test_network import DEADLINE, node_thread, poll_until
from test_why_waiting import TYPES, asked, hit, processor
from typer.testing import CliRunner

import middleware.cli.runs.run as run_module
from middleware.cli.main import application
from middleware.cli.output import ExitCode
from middleware.cli.questions.why_waiting import MeshWaits
from middleware.model.errors import NetworkError
from middleware.model.event import END
from middleware.model.time import SECOND
from middleware.observe.mesh import Lookout
from middleware.runtime.clients import Publisher
from middleware.runtime.cluster import Cluster
from middleware.runtime.transport.keys import Keys, new_keys
from middleware.runtime.transport.zeromq import Transport

pytestmark = pytest.mark.system

NOBODY = "tcp://127.0.0.1:9"
NOW = 1_700_000_000 * SECOND


def invoked(*arguments: str) -> tuple[int, str, str]:
    answer = CliRunner().invoke(application(), ["why-waiting", *arguments])
    return answer.exit_code, answer.stdout, answer.stderr


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, Keys]:
    """Those of two nodes and of a client; everyone lets everyone in."""
    pairs = [new_keys(name, tmp_path / f"{name}.key") for name in ("a", "b", "me")]
    (tmp_path / "allowed.txt").write_text("".join(f"{pair.public} {pair.name}\n" for pair in pairs))
    return {pair.name: Keys.load(tmp_path / f"{pair.name}.key", tmp_path / "allowed.txt") for pair in pairs}


def test_what_is_known_is_reported_though_a_node_does_not_answer(tmp_path: Path) -> None:
    with (
        node_thread("a", "tcp://127.0.0.1:*", None, processor("Echoing"), TYPES) as node,
        Publisher(node.address, name="p") as publisher,
    ):
        publisher.publish([hit(NOW, "gauge", "north")])
        publisher.flush(DEADLINE)
        json = tmp_path / "report.json"
        code, out, _ = invoked(node.address, NOBODY, "--timeout", "1", "--json", str(json))
    assert code == ExitCode.OK
    assert f"the node at {NOBODY} does not answer within 1 s" in out
    assert "Echo: final up to" in out
    report = msgspec.json.decode(json.read_bytes())
    assert len(report["silent"]) == 1
    assert [each["node"] for each in report["nodes"]] == ["a"]


def test_if_none_answers_it_is_an_error() -> None:
    code, out, err = invoked(NOBODY, "--timeout", "0.3")
    assert (code, out) == (ExitCode.FAILED, "")
    assert f"the node at {NOBODY} does not answer" in err


def test_moments_are_shown_in_utc_where_they_are_likely_to_be_unix_time() -> None:
    with (
        node_thread("a", "tcp://127.0.0.1:*", None, processor("Echoing"), TYPES) as node,
        Publisher(node.address, name="p", types=[TYPES["Hit"]]) as publisher,
    ):
        publisher.publish([hit(NOW + 250 * 10**6, "gauge", "north"), hit(NOW + 8 * SECOND, "gauge", "north")])
        publisher.advance(TYPES["Hit"], NOW)
        publisher.flush(DEADLINE)
        poll_until(lambda: MeshWaits.asked([node.address], DEADLINE).nodes[0].units[0].watermark == NOW, "the promise is there")
        lines = asked(node.address)
    assert lines[0] == "Echo: final up to 2023-11-14T22:13:20Z (8s behind the clock), made by Echoing on node a"
    moment = "2023-11-14T22:13:28Z"
    buffer = f"from 'gauge' of key 'north' at {moment}; the detector gets it when clk ({moment}) reaches {moment} + 1 * K (5s)"
    assert any(buffer in line for line in lines)
    assert not any(str(NOW)[:8] in line for line in lines), "no moment is left raw"


def test_nothing_waits_when_all_that_has_come_is_final() -> None:
    with (
        node_thread("a", "tcp://127.0.0.1:*", None, processor("Echoing"), TYPES) as node,
        Publisher(node.address, name="p", types=[TYPES["Hit"]]) as publisher,
    ):
        publisher.publish([hit(NOW, "gauge", "north")])
        publisher.advance(TYPES["Hit"], NOW)
        publisher.flush(DEADLINE)
        poll_until(lambda: MeshWaits.asked([node.address], DEADLINE).nodes[0].units[0].watermark == NOW, "the promise is there")
        assert asked(node.address) == ["Echo: nothing waits: all that has come is final, up to 2023-11-14T22:13:20Z"]
        publisher.advance(TYPES["Hit"], END)
        publisher.flush(DEADLINE)
        poll_until(lambda: MeshWaits.asked([node.address], DEADLINE).nodes[0].units[0].watermark == END, "the end is there")
        assert invoked(node.address)[1].splitlines()[-1] == "nothing waits: all that is derived is final to the end"


def test_whichever_allowed_key_answers_is_accepted(tmp_path: Path, keys: dict[str, Keys]) -> None:
    options = ["--keys", str(tmp_path / "me.key"), "--allow-list", str(tmp_path / "allowed.txt"), "--timeout", str(DEADLINE)]
    with (
        node_thread("a", "tcp://127.0.0.1:*", None, processor("Echoing"), TYPES, keys=keys["a"]) as first,
        node_thread("b", "tcp://127.0.0.1:*", None, processor("Summing"), TYPES, keys=keys["b"]) as second,
    ):
        for names in ([], ["--node", "a", "--node", "b"]):
            code, out, err = invoked(first.address, second.address, *options, *names)
            assert code == ExitCode.OK, err
            assert "made by Echoing on node a" in out
            assert "made by Summing on node b" in out
        other = ["--keys", options[1], "--allow-list", options[3], "--timeout", "1", "--node", "b"]
        code, _, err = invoked(first.address, *other)
        assert code == ExitCode.FAILED
        assert f"the node at {first.address} rejects this client: its key is not the one that is listed here" in err


@pytest.mark.parametrize("key", ["none", "not listed"])
def test_a_client_that_a_node_rejects_is_named_at_once_and_asks_no_more(
    tmp_path: Path, keys: dict[str, Keys], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialled: list[str] = []
    dial = Transport.dial

    def counted(self: Transport, name: str, address: str, node: str | None = None) -> None:
        dialled.append(address)
        dial(self, name, address, node)

    monkeypatch.setattr(Transport, "dial", counted)
    new_keys("stranger", tmp_path / "stranger.key")
    theirs = ["--keys", str(tmp_path / "stranger.key"), "--allow-list", str(tmp_path / "allowed.txt"), "--node", "a"]
    patient = ["--timeout", "3600"]  # it must not wait for this
    with node_thread("a", "tcp://127.0.0.1:*", None, processor("Echoing"), TYPES, keys=keys["a"]) as node:
        why = "it has keys, and none were given here" if key == "none" else "its allow-list does not have this key"
        answer = CliRunner().invoke(application(), ["status", node.address, *patient, *(theirs if key != "none" else [])])
        assert answer.exit_code == ExitCode.FAILED
        assert f"the node at {node.address} rejects this client: {why}" in answer.stdout
        assert dialled == [node.address]
        code, _, err = invoked(node.address, *patient, *(theirs if key != "none" else []))
        assert code == ExitCode.FAILED and f"rejects this client: {why}" in err
        with Lookout([node.address], keys["me"], ["a"]) as lookout:
            assert not lookout.look(DEADLINE).silent, "whoever is listed is answered"


def test_node_without_keys_is_refused() -> None:
    assert invoked(NOBODY, "--node", "a")[0] == ExitCode.BAD_INPUT


def test_a_run_that_is_not_final_in_time_says_what_it_waits_for(tmp_path: Path) -> None:
    log = tmp_path / "gone.log"
    log.write_text("its last words\n")

    class Nodes(Cluster):
        def __init__(self, addresses: dict[str, str]) -> None:
            self.addresses = addresses

        def log(self, name: str) -> Path:
            return log

        def dead(self) -> dict[str, int]:
            return {"gone": -9}

    class Collected:
        failure = None

    with (
        node_thread("a", "tcp://127.0.0.1:*", None, processor("Echoing"), TYPES) as node,
        Publisher(node.address, name="sleepy", types=[TYPES["Hit"]]) as publisher,
    ):
        publisher.publish([hit(NOW, "gauge", "north")])
        publisher.flush(DEADLINE)
        error = run_module.not_final("speculative", Nodes({"a": node.address, "gone": NOBODY}), Collected())  # type: ignore[arg-type]
    assert "node gone ended with exit code -9" in str(error)
    assert "gone: its last words" in error.__notes__
    assert any(note.startswith("Echo: final up to") for note in error.__notes__)
    assert not any(NOBODY in note for note in error.__notes__), "the dead are not asked"


def test_what_is_no_address_is_reported_at_once() -> None:
    with pytest.raises(NetworkError, match="does not end with a port"):
        Lookout(["tcp://127.0.0.1"])
