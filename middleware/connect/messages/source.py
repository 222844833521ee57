"""The interface of a source: messages from a server beside the mesh, each with an identity, acknowledged only once they are
stored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import msgspec
from msgspec.structs import astuple


class MissingMessage(bytes):
    """In place of a body: why a server has the message no more. It is reported with that reason."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message as it came.

    ``topic``
        what chooses its event type: a topic, or the type of a CloudEvent.
    ``source``, ``id``
        its identity: the same if the server sends it again, and no other message has it.
    ``at``
        its time by the server, or of its arrival, Unix time (ns): the same if it comes again.
    ``handle``
        what the connector needs to acknowledge it.
    """

    topic: str
    body: bytes
    source: str
    id: int
    at: int
    handle: Any = None


class Messages(msgspec.Struct, frozen=True, gc=False):
    """Messages in the order in which they came, by columns: see Message. None of them is an object of its own."""

    topics: Sequence[str] = ()
    bodies: Sequence[bytes] = ()
    sources: Sequence[str] = ()
    ids: Sequence[int] = ()
    ats: Sequence[int] = ()
    handles: Sequence[Any] = ()

    @classmethod
    def of(cls, messages: Iterable[Message]) -> Self:
        """These messages. O(n)."""
        return cls(*zip(*map(astuple, messages), strict=True))

    @classmethod
    def joined(cls, parts: Sequence[Messages]) -> Messages:
        """The messages of several, one after another. O(n); O(1) if it is one."""
        if len(parts) == 1:
            return parts[0]
        return cls(*map(list, map(chain.from_iterable, zip(*map(astuple, parts), strict=True))))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Message:
        return Message(*(column[index] for column in astuple(self)))

    def __iter__(self) -> Iterator[Message]:
        return map(Message, *astuple(self))

    def select(self, indexes: Sequence[int]) -> Messages:
        """The messages at these indexes. O(indexes)."""
        return Messages(*([column[index] for index in indexes] for column in astuple(self)))


class SourceSpec(NamedTuple):
    """The settings that a source is made from, besides its own options.

    ``address``, ``name``
        where the server is, and what the input is called there: its session, its group.
    ``topics``
        patterns of the topics to subscribe to.
    ``folder``
        for what must outlast the process.
    ``has_own_times``
        whether every message names its time: then two with the same content are one.
    """

    address: str
    name: str
    topics: Sequence[str]
    folder: Path
    has_own_times: bool = False


class Source(Protocol):
    """A connection to a server that has messages. It is made from a SourceSpec and serves until the server is lost.

    Messages that were not acknowledged come again from the next source that is made. All its methods, and what makes it, raise
    UnreachableError if another attempt may help, and SourceError if none will.
    """

    def receive(self, timeout: float) -> Messages:
        """The next messages, in the server's order; empty if none came within ``timeout`` seconds."""
        ...

    def acknowledge(self, messages: Messages) -> None:
        """The node has stored these, all received before: the server need not send them again."""
        ...

    def close(self) -> None:
        """End the connection; what was not acknowledged stays with the server."""
        ...


@runtime_checkable
class PartitionedSource(Source, Protocol):
    """A source of several parts, each in an order of its own, of which one may be read ahead of another."""

    def behind(self) -> Collection[str]:
        """The parts, as ``Message.source`` names them, of which the server may have messages that were not received yet."""
        ...


def matches(pattern: str, topic: str) -> bool:
    """Whether a topic fits a pattern in MQTT's form: ``+`` stands for one level, ``#`` at the end for all that follow.

    >>> matches("rtls/+/position", "rtls/7/position"), matches("rtls/#", "rtls"), matches("rtls/+", "rtls/7/position")
    (True, True, False)
    """
    parts, there = pattern.split("/"), topic.split("/")
    if parts[-1] == "#":
        parts.pop()
        there = there[: len(parts)]
    return len(parts) == len(there) and all(one in ("+", other) for one, other in zip(parts, there, strict=True))
