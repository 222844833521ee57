"""An address or a key that will not do is an error at once, and leaves nothing open behind it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest
import zmq
from slackline_benchmarks.servers import until
from slackline_torture.proxy import Proxy

from middleware.model.errors import NetworkError
from middleware.runtime.transport.ending import end_context
from middleware.runtime.transport.zeromq import Transport, check_address

WRONG = {
    "port in use": ("NetworkError", "Node('n', taken)", "cannot bind tcp://127.0.0.1:"),
    "peer's address is none": (
        "AddressError",
        "Node('n', free, {'other': 'tcp://127.0.0.1:*'})",
        "'*' is no port",
    ),
    "subscriber's port is none": ("AddressError", "Subscriber('tcp://127.0.0.1:notaport', ['X'])", "'notaport' is no port"),
    "path that cannot be": ("NetworkError", "Node('n', 'ipc:///no/such/folder/' + 200 * 'x')", "cannot bind ipc://"),
    "which key": ("KeyFileError", "Publisher('tcp://127.0.0.1:5701', keys=Keys(me, [a, b]))", "the list has several keys"),
    "no key": ("KeyFileError", "Node('n', free, {'c': 'tcp://127.0.0.1:5999'}, keys=Keys(me, [a, b]))", "no key of node 'c'"),
    "keys and a port in use": ("NetworkError", "Node('n', taken, keys=Keys(me, [a, b]))", "cannot bind tcp://127.0.0.1:"),
}

PROGRAM = """
    import sys, zmq
    from pathlib import Path
    from middleware.model.errors import SlacklineError
    from middleware.runtime.clients import Publisher, Subscriber
    from middleware.runtime.transport.keys import AllowedKey, Keys, new_keys
    from middleware.runtime.node import Node

    me, *others = (new_keys(name, Path(sys.argv[1], name)) for name in ("me", "a", "b"))
    a, b = (AllowedKey(pair.public, pair.name) for pair in others)
    socket = zmq.Context.instance().socket(zmq.ROUTER)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    taken, free = f"tcp://127.0.0.1:{port}", "tcp://127.0.0.1:*"
    try:
        EXPRESSION
    except SlacklineError as error:
        print(type(error).__name__, error)
    socket.close()
"""


@pytest.mark.parametrize("case", WRONG)
def test_what_will_not_do_is_an_error_and_no_hanging(case: str, tmp_path: Path) -> None:
    kind, expression, message = WRONG[case]
    program = textwrap.dedent(PROGRAM).replace("EXPRESSION", expression)
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith(f"{kind} "), done.stderr
    assert message in done.stdout


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("tcp://[::1", "Invalid IPv6 URL"),
        ("tcp://[::1]", "does not end with a port"),
        ("tcp://127.0.0.1", "does not end with a port"),
        ("tcp://127.0.0.1:", "'' is no port"),
        ("tcp://127.0.0.1:70000", "'70000' is no port"),
        ("tcp://127.0.0.1:5701/x", "does not end with a port"),
        ("tcp://127.0.0.1:*", r"'\*' is no port"),
        ("tcp://:5701", "it has no host"),
        ("ipc://", "it has no path"),
        ("127.0.0.1:5701", "neither tcp:// nor ipc://"),
        ("", "neither tcp:// nor ipc://"),
    ],
)
def test_an_address_that_is_none_is_refused_with_the_reason(address: str, why: str) -> None:
    with pytest.raises(NetworkError, match=f"is no address: .*{why}"):
        check_address(address, None)


def test_sound_addresses() -> None:
    for address in ("tcp://127.0.0.1:5701", "tcp://[::1]:5701", "tcp://localhost:1", "ipc:///tmp/a", "ipc://a"):
        check_address(address, None)
    for port in ("*", "0"):
        check_address(f"tcp://127.0.0.1:{port}", None, binds=True)


def test_a_node_behind_something_that_forwards_nothing_is_dialled_anew() -> None:
    node, client = Transport(), Transport(silence=0.5)
    with closing(node), closing(client), Proxy(node.bind("tcp://127.0.0.1:*")) as between:
        client.dial("node", between.address)

        def asked_and_answered() -> bool:
            client.send("node", [b"ask"])
            for socket in node.poll(0.02):
                for channel, _ in node.messages(socket):
                    node.send(channel, [b"answer"])
            return any(parts == [b"answer"] for socket in client.poll(0.02) for _, parts in client.messages(socket))

        until(asked_and_answered, "an answer")
        between.stall()
        until(lambda: not client.poll(0.02) and between.connections > 1, "another connection")
        between.heal()
        until(asked_and_answered, "an answer again")


def test_a_node_connects_once_it_is_there(tmp_path: Path) -> None:
    node, client = Transport(), Transport()
    with closing(node), closing(client):
        client.dial("node", f"ipc://{tmp_path}/node")
        assert not client.connects("node", 0.05)
        node.bind(f"ipc://{tmp_path}/node")
        until(lambda: client.connects("node", 0.05), "a connection")
        assert client.send("node", [b"hello"])
        until(lambda: any(list(node.messages(socket)) for socket in node.poll(0.05)), "a message")
        assert not client.connects("unknown", 0)


def test_a_context_that_does_not_end_is_left() -> None:
    context = zmq.Context()
    lost = context.socket(zmq.ROUTER)  # as one that libzmq lost: nobody closes it
    end_context(context, 0.1)
    assert not context.closed
    lost.close()
    until(lambda: context.closed, "the end")
