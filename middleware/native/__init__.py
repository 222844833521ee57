"""The native core: hot data structures in Rust, each the twin of a Python class that serves where the core is not built.

``AVAILABLE`` says whether it is there and wanted. ``SLACKLINE_NATIVE=0`` in the environment turns it off.
"""

from __future__ import annotations

import os

AVAILABLE: bool
"""Whether the core is built and not turned off."""

try:
    if os.environ.get("SLACKLINE_NATIVE") == "0":
        raise ImportError("turned off by SLACKLINE_NATIVE=0")
    from middleware.native._core import Counts, Fiba, KeyedLanes, KeyedWindows, Pairs, SequenceMatcher, merge, split
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True
    __all__ = ["AVAILABLE", "Counts", "Fiba", "KeyedLanes", "KeyedWindows", "Pairs", "SequenceMatcher", "merge", "split"]
