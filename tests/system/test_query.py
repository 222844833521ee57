"""``slackline query`` over what a running node publishes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_network import node_thread, poll_until
from test_network_cli import finished, slackline

from middleware.model.event import END, EventTypes
from middleware.runtime.clients import Publisher
from scenarios.bookstore.shop import TYPES, Checkout, Exit, Shelf

pytestmark = pytest.mark.system

SECOND = 10**9
QUERY = "EVENT SEQ(Shelf s, !(Checkout c), Exit e) WHERE [tag] WITHIN 1 min RETURN Left(s.tag)"


def test_results_are_withdrawn_when_the_checkout_reports_late(tmp_path: Path) -> None:
    with node_thread("shop", "tcp://127.0.0.1:*", types=EventTypes(TYPES)) as node:
        arguments = ["--types-from", "scenarios.bookstore.shop", "--lateness", "1min", "--changes", "--json", "-"]
        query = slackline(tmp_path, "query", QUERY, node.address, *arguments)
        poll_until(lambda: any(peer.reads for peer in node.statistics().peers), "query has attached")
        with Publisher(node.address) as publisher:
            publisher.publish(
                [Shelf(7, 1, 1, ts=SECOND, id=1, source="shelf"), Shelf(8, 1, 1, ts=2 * SECOND, id=2, source="shelf")]
            )
            publisher.publish(
                [Exit(7, 1, 1, ts=20 * SECOND, id=1, source="gate"), Exit(8, 1, 1, ts=21 * SECOND, id=2, source="gate")]
            )
            publisher.flush()
            lines = [json.loads(query.stdout.readline()) for _ in range(2)]
            publisher.publish([Checkout(8, 1, ts=9 * SECOND, id=1, source="counter")])
            publisher.advance(["shop.Shelf", "shop.Checkout", "shop.Exit"], END)
            publisher.flush()
        lines += map(json.loads, finished(query).splitlines())
    assert sorted((line["change"], line["tag"]) for line in lines) == [("insert", 7), ("insert", 8), ("retract", 8)]
