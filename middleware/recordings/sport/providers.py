"""Whose files kloppy reads for us, and those files as a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from middleware.installation import install
from middleware.model.errors import TraceError
from middleware.recordings.files.recording import Recording, RecordingPart
from middleware.recordings.files.text import existing
from middleware.recordings.sport.match import ACTION, POSITION, actions, positions


class Provider(NamedTuple):
    """kloppy's module and function for a provider, the arguments that name its files, whether they have the pitch's size."""

    module: str
    function: str
    files: tuple[str, ...]
    measured: bool = True


TRACKING = {
    "tracab": Provider("tracab", "load", ("meta_data", "raw_data")),
    "metrica": Provider("metrica", "load_tracking_csv", ("home_data", "away_data"), False),
    "metrica-epts": Provider("metrica", "load_tracking_epts", ("meta_data", "raw_data")),
    "skillcorner": Provider("skillcorner", "load", ("meta_data", "raw_data")),
    "sportec": Provider("sportec", "load_tracking", ("meta_data", "raw_data")),
    "secondspectrum": Provider("secondspectrum", "load", ("meta_data", "raw_data")),
    "statsperform": Provider("statsperform", "load_tracking", ("ma1_data", "ma25_data"), False),
    "pff": Provider("pff", "load_tracking", ("meta_data", "roster_meta_data", "raw_data")),
}
"""Providers of tracking by name: read as soccer.Position."""

LABELS = {
    "sportec-events": Provider("sportec", "load_event", ("event_data", "meta_data")),
    "metrica-events": Provider("metrica", "load_event", ("event_data", "meta_data")),
    "statsperform-events": Provider("statsperform", "load_event", ("ma1_data", "ma3_data"), False),
    "statsbomb": Provider("statsbomb", "load", ("event_data", "lineup_data"), False),
    "opta": Provider("opta", "load", ("f7_data", "f24_data"), False),
    "wyscout": Provider("wyscout", "load", ("event_data",), False),
    "datafactory": Provider("datafactory", "load", ("event_data",), False),
    "impect": Provider("impect", "load", ("event_data", "lineup_data"), False),
}
"""Providers of what people saw by name: read as soccer.Action."""

PROVIDERS = TRACKING | LABELS


def match_recording(provider: str, paths: Sequence[str | Path]) -> Recording:
    """A match from the files of a provider (``PROVIDERS``), in kloppy's order: the file about the match comes first, as a rule.

    It is read as a whole, in one process: a minute and a half, and 2 GiB, for a match of 90 minutes. Raises TraceError if files
    are missing; reading does, too, if kloppy is, or cannot read them.
    """
    files, needed = existing(paths), PROVIDERS[provider].files
    if len(files) != len(needed):
        raise TraceError(f"{provider} reads {len(needed)} files: {', '.join(needed)}, in this order; {len(files)} given")
    assumed = "the files do not give the size of the pitch: it is taken to be 105 m long and 68 m wide"
    return Recording(
        reader=provider,
        origin=[str(file) for file in files],
        chunks=[tuple(map(str, files))],
        read=_Reader(provider),
        file_of=[str(files[-1])],
        warnings=() if PROVIDERS[provider].measured else (assumed,),
    )


@dataclass(frozen=True)
class _Reader:
    """Reads all files of a match."""

    provider: str

    def __call__(self, files: Sequence[str]) -> Iterator[RecordingPart]:
        name, form = (POSITION, positions) if self.provider in TRACKING else (ACTION, actions)
        table = form(self._loaded(files))
        yield RecordingPart({name: table}, table.num_rows, [])

    def _loaded(self, files: Sequence[str]) -> Any:
        module, function, arguments, _ = PROVIDERS[self.provider]
        load = _function(module, function)
        try:
            match = load(**dict(zip(arguments, files, strict=True)), coordinates="kloppy")
        except Exception as error:  # kloppy passes on whatever a file that is something else makes its parsers raise
            named_files = ", ".join(f"{name}: {file}" for name, file in zip(arguments, files, strict=True))
            raise TraceError(
                f"kloppy cannot read this as {self.provider} ({named_files}): {type(error).__name__}: {error}"
            ) from error
        if not match.records:
            raise TraceError(f"{', '.join(files)}: kloppy finds nothing in it as {self.provider}")
        return match


def _function(module: str, function: str) -> Callable[..., Any]:
    try:
        return getattr(import_module(f"kloppy.{module}"), function)  # type: ignore[no-any-return]
    except ModuleNotFoundError as error:
        raise TraceError(f"reading a match needs {error.name}; {install('kloppy')}") from None
