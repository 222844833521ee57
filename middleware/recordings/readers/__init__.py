"""Readers turn recordings into normalised columns (ns, m, m/s, m/s2), one module per format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from middleware.model.errors import TraceError
from middleware.recordings.files.mapped import mapped_recording
from middleware.recordings.files.recording import Recording
from middleware.recordings.readers.debs2013 import debs2013_recording
from middleware.recordings.readers.generated import generated_recording
from middleware.recordings.readers.tromso import tromso_recording
from middleware.recordings.readers.tsch import tsch_recording
from middleware.recordings.readers.umts import umts_recording
from middleware.recordings.sport.providers import PROVIDERS, match_recording

READERS: dict[str, Callable[[Sequence[str | Path]], Recording]] = {
    "debs2013": debs2013_recording,
    "tromso": tromso_recording,
    "umts": umts_recording,
    "tsch": tsch_recording,
    **{name: partial(match_recording, name) for name in PROVIDERS},
}
"""Readers of known formats by name."""


def open_recording(
    files: Sequence[str | Path],
    *,
    reader: str | None = None,
    mapping: str | Path | None = None,
    generate: str | None = None,
    seed: int = 0,
    seconds: float = 30.0,
) -> Recording:
    """A recording from one of three sources: files and their ``reader``, files and a ``mapping``, or a function (``generate``).

    ``seed`` and ``seconds`` are for generated recordings. Raises TraceError if the recording does not exist.
    """
    if (reader, mapping, generate).count(None) != 2:
        raise TraceError(
            "say how to read the recording in one way: --reader NAME, --mapping FILE, or --generate MODULE:FUNCTION"
        )
    if generate is not None:
        if files:
            raise TraceError(f"a generated recording reads no files: drop {', '.join(map(str, files))}")
        return generated_recording(generate, seed, seconds)
    if mapping is not None:
        return mapped_recording(files, mapping)
    if reader not in READERS:
        raise TraceError(f"there is no reader {reader!r}; there are {', '.join(READERS)}, or write a --mapping for other files")
    return READERS[reader](files)


__all__ = ["READERS", "Recording", "open_recording"]
