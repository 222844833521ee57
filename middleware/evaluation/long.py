"""Section 5.4 over a whole recording: what each way of retraction affects, with alpha by Algorithm 3; and memory by part."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import msgspec

from middleware.evaluation.modes import BUFFERING, LONG
from middleware.evaluation.setting import setting
from middleware.evaluation.virtual import LOAD, Virtual, slowness_of, virtual
from middleware.recordings.traces import read_arrivals
from middleware.runtime.scenario import Scenario
from middleware.testing.oracle import LenientOracle


class LongResults(msgspec.Struct):
    """All that ``--json`` holds. ``slowness``: how many times as slow as this machine the one of virtual time is."""

    scenario: str
    seconds: float
    corrections_of: str | None
    slowness: float
    load: float
    setting: dict[str, str]
    modes: list[Virtual]

    @property
    def oracle_equal(self) -> bool:
        """Whether every mode ends with the results of the in-order oracle."""
        return all(one.oracle_equal for one in self.modes)


def long_run(scenario: Scenario, trace: Path, command: str, say: Callable[[str], None]) -> LongResults:
    """Run every mode over the whole trace, in virtual time. Memory: the recording, once."""
    say("reading the recording")
    arrivals = list(read_arrivals(trace, scenario.types))
    oracle = LenientOracle(itertools.chain.from_iterable(events for _, events in arrivals), scenario.detectors)
    done: list[Virtual] = []
    slowness = 1.0
    for mode in LONG:
        say(f"{mode.title}, in virtual time")
        done.append(virtual(scenario, arrivals, mode, oracle, slowness))
        if mode is BUFFERING:
            slowness = slowness_of(done[0])
            done[0].busy *= slowness
    return LongResults(
        scenario=scenario.plan.name,
        seconds=done[0].seconds,
        corrections_of=scenario.plan.evaluation.corrections,
        slowness=slowness,
        load=LOAD,
        setting=setting(scenario.plan.recording.seed, done[0].seconds, command),
        modes=done,
    )


def rows(results: LongResults) -> list[list[str]]:
    """The table: a row a mode, full retraction by counters as one of its own (the same run, with counters on the wire)."""
    found = []
    for one in results.modes:
        of = one.corrections
        common = [f"{of.corrected:,}", f"{of.corrected_in_cascade:,}", f"{of.corrected_at_all:,}"]
        waits = [f"{value:,.0f}" for value in one.latency.values()]
        rest = [
            f"{one.alpha:.2f}",
            f"{one.busy:.2f}",
            " / ".join(waits),
            f"{one.executed:,}",
            "yes" if one.oracle_equal else "no",
        ]
        found.append([one.mode.title, *common, f"{one.records.one_by_one:,}", *rest])
        if one.mode.changes.get("retraction") == "full":
            found.append([f"{one.mode.title}, by counters", *common, f"{one.records.by_counters:,}", *rest])
    return found


def heads(results: LongResults) -> list[str]:
    """The heads of ``rows``."""
    what = results.corrections_of or "the detector"
    waits = " / ".join(name.rpartition(".")[2] for name in results.modes[0].latency)
    return [
        "mode",
        f"affected at {what}",
        "in its cascade",
        "at all",
        "records",
        "alpha",
        "busy",
        f"ms: {waits}",
        "calls",
        "oracle",
    ]


def memory_rows(results: LongResults) -> list[list[str]]:
    """Memory by part, KB: a row a mode (as Figure 12's text)."""
    parts = ("waiting", "held", "snapshots", "published", "seen", "whole")
    return [[one.mode.title, *(f"{getattr(one.memory, part) / 1e3:,.0f}" for part in parts)] for one in results.modes]


MEMORY_HEADS = ["KB, mean", "waiting", "emitted, kept", "snapshots", "published", "seen", "all"]
