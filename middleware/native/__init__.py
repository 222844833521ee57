"""The core: the hot data structures of Slackline, in Rust. It is a required part of the package.

Tests hold it against readable models in Python (``tests/oracles``).
"""

from __future__ import annotations

import sys

from middleware.model.errors import ENDING, WindowError
from middleware.model.event import ORDER, Event
from middleware.model.values.state import same_state

_VERSION = 58
"""The version of the core's face to Python. It stands in ``src/lib.rs``, too, and is counted up with every change."""


def _install(fault: str) -> str:
    """The line that says what is wrong with the core, and what to run."""
    return (
        f"Slackline's Rust core, middleware.native._core, {fault}: run 'make env' in a checkout; else install a wheel made for "
        f"Python {sys.version_info.major}.{sys.version_info.minor}, or Rust 1.88 or later, and then run "
        "'pip install --force-reinstall slackline-cep'"
    )


try:
    from middleware.native._core import VERSION
except ImportError as error:
    is_absent = isinstance(error, ModuleNotFoundError)
    raise ImportError(_install("is not built" if is_absent else f"cannot be loaded ({error})")) from None
if VERSION != _VERSION:
    raise ImportError(_install(f"is of version {VERSION}, and this Slackline needs {_VERSION}"))

from middleware.native._core import (  # noqa: E402  # there is none of another version
    BlockReader,
    ColumnCondition,
    CoreBlock,
    Counts,
    EventBatch,
    Fiba,
    Gathering,
    HeldBlocks,
    HeldEvents,
    Interleaving,
    Intervals,
    KeyedLanes,
    KeyedWindows,
    LaneCalls,
    Pairs,
    Pattern,
    PlainFields,
    Projection,
    Selection,
    SequenceMatcher,
    SequenceRuns,
    Waiting,
    block_of,
    by_class,
    clock_moves,
    column_of,
    give_model,
    in_columns,
    in_time,
    joined,
    merge,
    pack,
    result_block,
    runs_of,
    span,
    spelled_out,
    split,
    survey_events,
    take_ids,
    take_new,
    times_of_claimed,
    times_of_claimed_columns,
)

give_model(event=Event, order=ORDER, same_state=same_state, ending=ENDING, window_error=WindowError)

__all__ = [
    "BlockReader",
    "ColumnCondition",
    "CoreBlock",
    "Counts",
    "EventBatch",
    "Fiba",
    "Gathering",
    "HeldBlocks",
    "HeldEvents",
    "Interleaving",
    "Intervals",
    "KeyedLanes",
    "KeyedWindows",
    "LaneCalls",
    "Pairs",
    "Pattern",
    "PlainFields",
    "Projection",
    "Selection",
    "SequenceMatcher",
    "SequenceRuns",
    "Waiting",
    "block_of",
    "by_class",
    "clock_moves",
    "column_of",
    "in_columns",
    "in_time",
    "joined",
    "merge",
    "pack",
    "result_block",
    "runs_of",
    "span",
    "spelled_out",
    "split",
    "survey_events",
    "take_ids",
    "take_new",
    "times_of_claimed",
    "times_of_claimed_columns",
]
