"""What the tests of columns run: every kind of operator and detector, and an operator that answers in columns."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pyarrow as pa
import pyarrow.compute as pc

from detectors import simulated
from detectors.window import COUNT, SUM, Tumbling, Windows
from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.event import Event
from middleware.model.identity import named
from middleware.model.operator import Operation, Operator
from middleware.testing.simulation import applications as plain
from middleware.testing.simulation.applications import Probe, Reading


class Doubled(Event):
    sensor: int
    value: int


class Doubling(Operator):
    """Answers columns with columns, and rows with rows."""

    name = "Doubling"
    subscribes, publishes = (Reading,), (Doubled,)

    def start(self, name: str, level: int) -> Operation:
        return DoublingOperation(name, level)


class DoublingOperation(Operation):
    def __init__(self, name: str, level: int) -> None:
        super().__init__()
        self.name, self.level = name, level

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        retracts = list(map(self.doubled, delta.retracts))
        if delta.columns is None:
            inserts = list(map(self.doubled, delta.inserts))
            again = {event.id: event for event in retracts}
            revises = [(again.pop(event.id), event) for event in inserts if event.id in again]
            new = {event.id for _, event in revises}
            return Delta([event for event in inserts if event.id not in new], revises, list(again.values()))
        given = delta.columns.batch
        count = len(given)
        columns = {
            "sensor": given["sensor"],
            "value": pc.multiply(given["value"], 2),
            "ts": given["ts"],
            "id": pa.array(delta.columns.ids * 2 + [source == "a" for source in given["source"].to_pylist()]),
            "source": pa.array([self.name] * count),
            "level": pa.array([self.level] * count),
        }
        return Delta(Block(Doubled, pa.record_batch(columns)), [], retracts)

    def doubled(self, event: Reading) -> Doubled:
        number = event.id * 2 + (event.source == "a")
        return Doubled(event.sensor, event.value * 2, ts=event.ts, id=number, source=self.name, level=self.level)

    def snapshot(self) -> None:
        return None

    def restore(self, state: None) -> None:
        """There is no state."""


class Recent(Event):
    values: str


class Recently(Detector):
    subscribes, publishes = (Doubled,), (Recent,)

    def __init__(self) -> None:
        self.values = ""

    def on_event(self, event: Doubled) -> Recent:
        self.values = f"{self.values[-8:]},{event.value}"
        return Recent(self.values, ts=event.ts)


def of_columns(rng: Random) -> dict[str, Detector]:
    """An operator that answers in columns, and what reads its results."""
    values = {"count": COUNT, "total": (SUM.of(int), "value")}
    windows = Windows(Doubled, Tumbling(5), values, key="sensor", emit=rng.choice(["close", "change"]))
    return named([Doubling(), Recently(), windows])


APPLICATIONS: dict[str, Callable[[Random], dict[str, Detector]]] = {
    "detectors": plain.an_application,
    "windows": simulated.of_windows,
    "sequences": simulated.of_sequences,
    "cql": simulated.of_cql,
    "flows": simulated.of_flows,
    "towers": simulated.a_tower,
    "columns": of_columns,
}


def as_columns(delta: Delta) -> Delta:
    """The same insertions as columns that have never been events."""
    if not delta.inserts:
        return delta
    event_type = type(delta.inserts[0])
    columns = Block(event_type, Block.from_events(event_type, delta.inserts).batch)
    return Delta(columns, delta.revises, delta.retracts, delta.k_plus, delta.arrival_order)


def arrivals(rng: Random, count: int) -> list[Event]:
    """Readings and probes of two sources, in disorder, with ties."""
    moments = sorted((rng.randint(0, count // 2), rng.random()) for _ in range(count))
    kinds = rng.choice([(Reading,), (Reading, Reading, Probe)])
    events = [
        rng.choice(kinds)(rng.randint(0, 2), rng.randint(0, 9), ts=ts, id=number, source=rng.choice("ab"))
        for number, (ts, _) in enumerate(moments)
    ]
    return sorted(events, key=lambda event: event.ts + rng.choice([0, 0, 0, rng.randint(0, 12)]))
