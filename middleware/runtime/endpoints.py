"""The ends of a scenario: what comes in from servers beside the mesh, and where results go. As its file has them."""

from __future__ import annotations

import os
import re
from typing import Any, Literal

import msgspec

from middleware.model.errors import ScenarioError
from middleware.model.words import redacted

_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


class InputPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename={"address": "from"}):
    """A server whose messages become events; see ``middleware.connect``.

    ``name``
        names what is kept of it, here and at the server: a session, a group.
    ``address``
        mqtt://HOST:PORT, kafka://HOST:PORT[,HOST:PORT] or, to listen, http://HOST:PORT/PATH; ``$NAME`` stands for that
        environment variable.
    ``types``
        the event type of each topic, or pattern of topics.
    ``fields``, ``mapping``, ``unit``
        how a message becomes an event: see ``middleware.connect.messages.reading.MessageReader``.
    ``disorder``
        by how much (such as 2s) what is older may come after what is newer, in one partition. With it, results wait for the
        partition that is furthest behind; without, they wait for as long as the node's allowed lateness says.
    ``to``
        the node that gets them (default: the one that a recording is fed to).
    ``options``
        the connector's own.
    """

    name: str
    address: str
    types: dict[str, str]
    fields: dict[str, str] = {}
    mapping: str | None = None
    unit: str = "ns"
    disorder: str | None = None
    to: str | None = None
    options: dict[str, Any] = {}


class OutputPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename={"address": "to"}):
    """Where results are kept.

    ``name``
        the durable name under which the node keeps how far it has got.
    ``address``
        FILE.jsonl or FILE.sqlite (in the working folder), postgresql://HOST/DATABASE, kafka://HOST:PORT/TOPIC, ...; ``$NAME``
        stands for that environment variable.
    ``types``
        event types, or patterns such as soccer.*.
    ``consistency``
        final: each final event, once. early: every change at once; what is withdrawn is taken away again.
    ``node``
        the node that gives them (default: the one that a recording is fed to).
    ``options``
        the connector's own.
    """

    name: str
    address: str
    types: tuple[str, ...]
    consistency: Literal["early", "final"] = "final"
    node: str | None = None
    options: dict[str, Any] = {}


def expanded(address: str) -> str:
    """The address with environment variables in it. Raises ScenarioError if one is not set."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise ScenarioError(f"{redacted(address)}: the environment variable {found[1]} is not set")
        return os.environ[found[1]]

    return _VARIABLE.sub(value, address)
