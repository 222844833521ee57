"""What ``sub`` says while nothing comes."""

from __future__ import annotations

from middleware.broker.watermarks.waiting import NodeStatus, OriginStatus, StreamStatus
from middleware.cli.meshes.awaited import awaited

_SOMEONE = StreamStatus(None, [OriginStatus("publisher", "p", None)])
_NOBODY = StreamStatus(None, [])


def status(*published: str, missing: list[str] | None = None) -> NodeStatus:
    return NodeStatus("a", None, {"shop.Gone": _NOBODY} | dict.fromkeys(published, _SOMEONE), [], missing or [])


def test_types_and_patterns_that_nobody_publishes_are_named() -> None:
    soccer = status("soccer.Pass", "soccer.Goal", "shop.Exit")
    assert awaited(soccer, ["soccer.Pas"]) == [
        "connected to node a: no one publishes 'soccer.Pas' (did you mean 'soccer.Pass'?)"
    ]
    assert awaited(soccer, ["Pass", "shop.Gone"]) == [
        "connected to node a: no one publishes 'shop.Gone' any more: all who did have left",
        "connected to node a: no one publishes 'Pass' (did you mean 'soccer.Pass'?)",
    ]
    assert awaited(soccer, ["bank.*", "soccer.*"]) == [
        "connected to node a: pattern 'bank.*' matches none of the 3 types known there: shop.Exit, soccer.Goal, soccer.Pass"
    ]
    assert awaited(status(), ["*"]) == ["connected to node a: no one publishes '*' yet, nor anything else"]


def test_published_types_are_reported_as_awaited_and_so_are_missing_nodes() -> None:
    assert awaited(status("shop.Exit"), ["shop.*"]) == ["connected to node a: nothing has come yet of shop.*"]
    assert awaited(status("shop.Exit", missing=["b"]), ["shop.Exit"]) == [
        "connected to node a: node a itself waits for b, and takes nothing until then"
    ]
