"""The native core: hot data structures in Rust, each the twin of a Python class that serves where the core is not built.

``AVAILABLE`` says whether it is there and wanted. ``SLACKLINE_NATIVE=0`` in the environment turns it off.
"""

from __future__ import annotations

import os
import warnings

AVAILABLE: bool
"""Whether the core is built and not turned off."""

_VERSION = 52
"""Of what is seen of the core; one that was built from another version is not used."""

try:
    if os.environ.get("SLACKLINE_NATIVE") == "0":
        raise ImportError("turned off by SLACKLINE_NATIVE=0")
    from middleware.native._core import VERSION

    if VERSION != _VERSION:
        raise ImportError(f"cannot import name: it is of version {VERSION}, not {_VERSION}")
    from middleware.native._core import (
        Baseline,
        Block,
        BlockReader,
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
        Pairs,
        PlainFields,
        Projection,
        Selection,
        SequenceMatcher,
        SequenceRuns,
        Waiting,
        block_of,
        by_class,
        column_of,
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
except ImportError as error:
    AVAILABLE = False
    if not isinstance(error, ModuleNotFoundError) and os.environ.get("SLACKLINE_NATIVE") != "0":  # it is there, and of no use
        warnings.warn(
            f"the native core is out of date, or not for this machine, and not used ({error}): install Slackline again",
            stacklevel=1,
        )
else:
    AVAILABLE = True
    __all__ = [
        "AVAILABLE",
        "Baseline",
        "Block",
        "BlockReader",
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
        "Pairs",
        "PlainFields",
        "Projection",
        "Selection",
        "SequenceMatcher",
        "SequenceRuns",
        "Waiting",
        "block_of",
        "by_class",
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
