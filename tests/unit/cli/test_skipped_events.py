"""The events that a run skipped, from the ledgers of its nodes, compared with the lateness of the recording itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from middleware.cli.runs.skipped_events import copy_ledgers, lateness, skipped_events
from middleware.model.event import Event
from middleware.ordering.policies import Policies
from middleware.ordering.records import Late
from middleware.ordering.slack.kslack import Lateness
from middleware.runtime.storage.late_ledger import Ledger

SECOND = 1_000_000_000


class Speed(Event):
    value: int


def speed(number: int, ts: int, source: str = "car") -> Speed:
    return Speed(number, ts=ts, id=number, source=source)


class Yard:
    """As much of a scenario, and of a cluster, as is looked at."""

    addresses = ("gate", "quiet", "new")

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def state(self, name: str) -> Path:
        return self._folder / "state" / name

    def policies(self) -> dict[str, Policies]:
        return {"": Policies(lateness=Lateness(floor=SECOND)), "Patient": Policies(lateness=Lateness(floor=9 * SECOND))}


def test_lateness_is_measured_against_the_newest_before() -> None:
    arrived = [speed(1, 10), speed(2, 30), speed(3, 5), speed(4, 30), speed(5, 40), speed(6, 39)]
    assert lateness(arrived) == {("car", 3): 25, ("car", 6): 1}


def test_ledgers_are_kept_and_held_against_the_recording(tmp_path: Path) -> None:
    yard: Any = Yard(tmp_path)
    arrived = [speed(1, 10 * SECOND), speed(2, 8 * SECOND), speed(3, 10 * SECOND - 5)]
    ledger = Ledger("gate", yard.state("gate"))
    for detector in ("Stops", "Patient"):
        ledger.report_late(detector, [Late(event, "insert", 12 * SECOND, 7, 11 * SECOND) for event in arrived[1:]])
    ledger.commit()
    ledger.close()
    Ledger("quiet", yard.state("quiet")).close()
    stale = tmp_path / "kept" / "quiet"
    stale.mkdir(parents=True)
    ledgers = copy_ledgers(yard, tmp_path / "kept")
    assert ledgers == {"gate": tmp_path / "kept" / "gate"}
    assert not stale.exists(), "of the run before"
    found = {one.detector: one for one in skipped_events(yard, ledgers, lateness(arrived))}
    stops = found["Stops"]
    assert (stops.node, stops.reason, stops.count, stops.worst) == ("gate", "late", 2, 3 * SECOND)
    assert list(stops.types.values()) == [2]
    assert stops.recorded == 1, "one was two seconds late in the recording, the other hardly at all"
    assert 'lateness = "2.1s" takes these' in stops.text(), "two seconds are late already"
    assert found["Patient"].recorded == 0 and "takes" not in found["Patient"].text()
