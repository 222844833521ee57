"""The recording of the scenario ``tracab`` as a table, and how well the detectors find what people labelled of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from detectors.soccer.census import event_types as count
from detectors.soccer.events import Position
from middleware.evaluation.measuring.accuracy import Accuracy
from middleware.model.event import Event, type_name
from middleware.runtime.scenario import find_file
from scenarios.soccer import tracab
from scenarios.soccer.labels import labelled

if TYPE_CHECKING:
    import pyarrow as pa

FILE = "tracab/tracking.parquet"


def folder() -> Path:
    """Where the recording and its labels are. Raises ScenarioError if they are not here."""
    return find_file(Path(__file__).parent, FILE).parent


def positions(seed: int, seconds: float) -> dict[str, pa.Table]:
    """The first ``seconds`` of the match as one table of positions, in total order. Nothing is drawn by ``seed``."""
    import pyarrow as pa

    end = round(seconds * 1e9)
    seen = [event for event in tracab.positions(folder()) if event.ts < end]
    fields = (*Position.__struct_fields__,)
    columns = {name: [getattr(event, name) for event in seen] for name in fields if name != "level"}
    return {type_name(Position): pa.table(columns)}


def scores(finals: Mapping[str, Sequence[Event]], seed: int, seconds: float) -> dict[str, Accuracy | None]:
    """What was found in the first ``seconds``, by kind; see ``scenarios.soccer.labels``."""
    return labelled(finals, folder(), round(seconds * 1e9))


def event_types() -> int:
    """How many event types the hierarchy derives here, counted as in the paper."""
    return count("tracab")
