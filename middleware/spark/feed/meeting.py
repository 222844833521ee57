"""Where the partitions of a feed meet their coordinator: at an address that executors reach, with keys unless it is loopback.

The keys are made for one feed and go to the executors with their task, so they are as safe as Spark's own connections.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import zmq

from middleware.model.errors import TraceError
from middleware.runtime.transport.gatekeeper import Gatekeeper
from middleware.runtime.transport.keys import AllowedKey, KeyPair, Keys

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
_COORDINATOR = "coordinator"


@dataclass(frozen=True)
class Meeting:
    """The data that a partition needs to connect: the address and, unless it is loopback, its own keys and that of the
    coordinator."""

    address: str
    own: KeyPair | None = None
    coordinator: str = ""

    def connect(self, dealer: zmq.Socket[Any]) -> None:
        """Connect the socket of a partition."""
        if self.own is not None:
            Keys(self.own, [AllowedKey(self.coordinator, _COORDINATOR)]).secure_client(dealer, _COORDINATOR)
        dealer.setsockopt(zmq.IPV6, 1)
        dealer.connect(self.address)


def host_of(spark: SparkSession, advertise: str | None) -> str:
    """The host, perhaps with a port, under which executors reach this process: as given, or that of Spark's driver."""
    if advertise is not None:
        return advertise
    if (spark.conf.get("spark.master", None) or "").startswith("local"):
        return LOOPBACK
    if spark.conf.get("spark.remote", None):
        raise TraceError("with Spark Connect the driver is elsewhere: say how executors reach this machine (--advertise HOST)")
    return str(spark.conf.get("spark.driver.host"))


def opened(context: zmq.Context[Any], router: zmq.Socket[Any], address: str) -> tuple[Meeting, Gatekeeper | None]:
    """Bind the socket of a coordinator at ``address`` (HOST or HOST:PORT); not loopback: only its own partitions are let in.

    A host that is none of this machine's (behind a translation of addresses) goes to the partitions as it is, and every
    interface is bound. Raises TraceError.
    """
    host, port = _split(address)
    try:
        resolved = str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise TraceError(f"executors shall reach this machine as {host}, but that is no host: {error} (--advertise)") from None
    gatekeeper, meeting = None, Meeting("")
    if not ip_address(resolved).is_loopback:
        server, client = (KeyPair(name, *map(bytes.decode, zmq.curve_keypair())) for name in (_COORDINATOR, "partition"))
        keys = Keys(server, [AllowedKey(client.public, client.name)])
        keys.secure_server(router)
        gatekeeper, meeting = Gatekeeper(context, keys, router), Meeting("", client, server.public)
    router.setsockopt(zmq.IPV6, 1)
    try:
        router.bind(f"tcp://{_bracketed(resolved)}:{port}")
    except zmq.ZMQError as error:
        if error.errno != zmq.EADDRNOTAVAIL:
            raise TraceError(f"{address} cannot be bound: {error} (--advertise)") from None
        router.bind(f"tcp://*:{port}")
    bound = router.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2]
    return Meeting(f"tcp://{_bracketed(host)}:{bound}", meeting.own, meeting.coordinator), gatekeeper


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _split(address: str) -> tuple[str, str]:
    """Host and port of HOST or HOST:PORT; any port where none is given. Raises TraceError."""
    try:
        split = urlsplit(f"//{address}")
        if split.hostname and split.netloc == address and "@" not in address:
            return split.hostname, str(split.port or "*")
    except ValueError:
        pass
    raise TraceError(f"--advertise {address}: write HOST or HOST:PORT, such as 10.0.0.5 or driver.example:5600")
