"""The streams of a scenario as an AsyncAPI 3 document: which types there are, and which detectors read and publish them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from middleware.model.event import EventType, type_name
from middleware.recordings.schemas.convert import json_schema

if TYPE_CHECKING:
    from middleware.runtime.scenario import Scenario


def asyncapi(plan: Scenario) -> dict[str, Any]:
    """The AsyncAPI 3.0 document of a scenario, to be written as JSON.

    Channels are event types, messages events as ``slackline sub`` prints them, operations detectors.
    """
    types = dict(sorted(plan.types.items()))
    operations: dict[str, Any] = {}
    for name, detector in plan.detectors.items():
        operations |= _operations(name, "receive", detector.subscribes)
        operations |= _operations(name, "send", detector.publishes)
    servers = {
        node.name: {"host": node.address.partition("://")[2], "protocol": "slackline"}
        for node in plan.plan.nodes
        if not node.address.endswith("*")
    }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": plan.plan.name,
            "version": "1",
            "description": plan.plan.about or f"The streams of {plan.plan.name}.",
        },
        **({"servers": servers} if servers else {}),
        "channels": {
            _key(name): {"address": name, "messages": {_key(name): {"$ref": f"#/components/messages/{_key(name)}"}}}
            for name in types
        },
        "operations": operations,
        "components": {
            "messages": {
                _key(name): {
                    "name": name,
                    "contentType": "application/json",
                    "payload": {"$ref": f"#/components/schemas/{_key(name)}"},
                }
                for name in types
            },
            "schemas": {_key(name): json_schema(kind) for name, kind in types.items()},
        },
    }


def _operations(detector: str, action: str, kinds: Iterable[EventType]) -> dict[str, Any]:
    return {
        _key(f"{detector}.{action}.{type_name(kind)}"): {
            "action": action,
            "channel": {"$ref": f"#/channels/{_key(type_name(kind))}"},
            "summary": f"{detector} {'reads' if action == 'receive' else 'publishes'} {type_name(kind)}",
        }
        for kind in kinds
    }


def _key(name: str) -> str:
    """A name as a key of components: letters, digits, points, dashes and underscores."""
    return "".join(each if each.isalnum() or each in "._-" else "_" for each in name)
