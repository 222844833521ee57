"""A status as metrics: which of its figures are exposed, and that labels are bounded."""

from __future__ import annotations

import json
import re

from msgspec.structs import replace

from middleware.broker.effects import BrokerStatistics
from middleware.broker.peers.peers import PeerStatistics
from middleware.broker.watermarks.waiting import OriginStatus, StreamStatus, UnitStatus
from middleware.installation import ROOT
from middleware.link.link import LinkStatistics
from middleware.model.event import END, NEVER
from middleware.model.time import SECOND
from middleware.observe.metrics import MOST_NAMED, MOST_REASONS, MOST_TYPES, families
from middleware.ordering.records import UnitStatistics
from middleware.runtime.latencies import Histogram, Latency
from middleware.runtime.status import LogStatus, Status, Vitals

UNIT = UnitStatistics(
    "Passes", 0.25, 2 * SECOND, 9 * SECOND, 5 * SECOND, 100, 90, 120, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, "on-demand", 0,
    1.5e9, 0.5e9, 40, 2, 1,
)  # fmt: skip
WAITS = UnitStatus(
    "Passes", {"Hit": 4}, ["Pass"], 5 * SECOND, 5 * SECOND, 9 * SECOND, 2 * SECOND, 0.25, 4 * SECOND, 3, counts=UNIT
)
PEERS = [
    PeerStatistics("node", "b", True, False, LinkStatistics()),
    PeerStatistics("subscriber", "s1", True, True, LinkStatistics(queued_bytes=70, unacked_bytes=9)),
    PeerStatistics("subscriber", "s2", True, False, LinkStatistics(queued_bytes=30)),
]
DROPS = {"duplicate": 7, "late for what was promised": 2, "malformed frame": 3}
COUNTS = BrokerStatistics(100, 90, 50, DROPS, 1, PEERS, {"publisher: said goodbye": 4}, ["c"])
LATENCY = Latency(early=Histogram())
LATENCY.early.add(SECOND, 3)
VITALS = Vitals(
    address="tcp://127.0.0.1:1", nodes={"b": "", "c": ""}, at=3 * SECOND, started=SECOND, waiting=1.0, cpu=2.0,
    memory=10, counts=COUNTS, steps=LATENCY.early, latencies={"Pass": LATENCY}, listed=2, unlisted=0,
    log=LogStatus(1_000, 5, 90, 4, 0.25, 0.5, 1, 2 * SECOND, 0.125, 77, {"billing": 12}),
)  # fmt: skip
STREAMS = {
    "Hit": StreamStatus(None, [OriginStatus("publisher", "p", None, credit_paused=True)]),
    "Pass": StreamStatus(5 * SECOND, []),
    "Ended": StreamStatus(END, []),
    "Begun": StreamStatus(NEVER, []),
}
STATUS = Status("a", 9 * SECOND, STREAMS, [WAITS], ["c"], busy=0.5, vitals=VITALS)


def samples(status: Status = STATUS) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Values by name and labels (but the node's)."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in families(status):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("node") == "a"
            found.setdefault(sample.name, {})[tuple(labels.items())] = sample.value
    return found


def test_metrics_are_those_of_the_status() -> None:
    found = samples()

    def value(name: str, **labels: str) -> float:
        return found[f"slackline_{name}"][tuple(labels.items())]

    assert value("events_received_total") == 100
    assert value("events_duplicate_total") == 7
    assert value("events_rejected_total", reason="late") == 2
    assert value("events_rejected_total", reason="ahead") == 0
    assert found["slackline_dropped_total"] == {(("reason", "malformed frame"),): 3}
    assert value("peers", role="subscriber") == 2
    assert value("peers_slow", role="subscriber") == 1
    assert value("queued_bytes", role="subscriber") == 100
    assert value("queued_longest_bytes", role="subscriber") == 70
    assert value("unacked_bytes", role="subscriber") == 9
    assert value("publishers_held") == 1
    assert found["slackline_node_up"] == {(("peer", "b"),): 1, (("peer", "c"),): 0}
    assert value("nodes_missing") == 1
    assert value("peers_left_total", role="publisher", reason="said goodbye") == 4
    assert found["slackline_watermark_lag_seconds"] == {(("type", "Pass"),): 4.0, (("type", "Ended"),): 0.0}
    assert value("unit_alpha", detector="Passes") == 0.25
    assert value("unit_slack_seconds", detector="Passes") == 2
    assert value("unit_lateness_seconds", detector="Passes") == 4
    assert value("unit_watermark_lag_seconds", detector="Passes") == 4
    assert value("unit_busy_seconds_total", detector="Passes") == 1.5
    assert value("unit_results_total", detector="Passes", change="revise") == 2
    assert value("result_latency_seconds_bucket", type="Pass", stage="early", le="0.5") == 0
    assert value("result_latency_seconds_bucket", type="Pass", stage="early", le="1.0") == 3
    assert value("result_latency_seconds_bucket", type="Pass", stage="early", le="+Inf") == 3
    assert value("log_size_bytes") == 1_000
    assert value("checkpoint_timestamp_seconds") == 2
    assert value("subscriber_lag_blocks", subscriber="billing") == 12
    assert value("busy_ratio") == 0.5


def test_labels_are_bounded_whatever_comes() -> None:
    drops = {f"reason {n}": 1 for n in range(1_000)}
    log = replace(VITALS.log, readers={f"reader {n}": n for n in range(1_000)}) if VITALS.log else None
    vitals = replace(VITALS, counts=replace(COUNTS, drops=drops), log=log)
    streams = {f"type {n}": StreamStatus(SECOND, []) for n in range(2_000)}
    found = samples(replace(STATUS, streams=streams, vitals=vitals))
    reasons = found["slackline_dropped_total"]
    assert len(reasons) == MOST_REASONS + 1
    assert reasons[("reason", "other"),] == 1_000 - MOST_REASONS
    assert len(found["slackline_watermark_lag_seconds"]) == MOST_TYPES
    behind = found["slackline_subscriber_lag_blocks"]
    assert len(behind) == MOST_NAMED
    assert min(behind.values()) == 1_000 - MOST_NAMED, "the furthest behind"


def test_the_dashboard_and_the_guide_name_only_metrics_that_there_are() -> None:
    known = {name.removeprefix("slackline_") for name in samples()}
    queries = "".join(
        target["expr"]
        for panel in json.loads((ROOT / "middleware" / "observe" / "dashboard.json").read_text())["panels"]
        for target in panel.get("targets", [])
    )
    named = set(re.findall(r"\bslackline_(\w+)", queries))
    assert len(named) > 40
    assert named <= known
    guide = (ROOT / "docs" / "guide" / "observe.md").read_text().partition("| metric |")[2].partition("\n\n")[0]
    documented = {
        name for line in guide.splitlines()[2:] for name in re.findall(r"`(\w+)(?:\{[\w, ]+\})?`", line.split("|")[1])
    }
    assert len(documented) > 30
    assert {name for name in documented if not name.startswith("process_")} <= known | {"result_latency_seconds"}
