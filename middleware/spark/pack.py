"""The environment that executors need, as one archive: Slackline and the packages that it needs, copied from this
environment."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from middleware.installation import DISTRIBUTION, PACKAGES
from middleware.model.errors import SlacklineError

EXCLUDED = frozenset({"pyspark", "py4j", DISTRIBUTION})
"""Spark brings itself; our own folders are copied from where they are."""

_EXCLUDED_PARTS = ("__pycache__", "target")


def pack(file: Path, extra: str = "spark") -> list[str]:
    """Write the archive (tar.gz) and return what is in it. Executors must have the same Python, and the same kind of machine.

    ``extra``: the set of packages that is added to those that are always needed. Raises SlacklineError. O(size).
    """
    partial = file.with_name(f".{file.name}.partial")
    names = sorted(_needed(DISTRIBUTION, extra))
    try:
        with tarfile.open(partial, "w:gz", compresslevel=6) as archive:
            for own, folder in PACKAGES.items():
                archive.add(folder, own, filter=_kept)
            for name in names:
                for path, name_inside in _files(name):
                    archive.add(path, name_inside, recursive=False)
        partial.rename(file)
    except OSError as error:
        raise SlacklineError(f"{file} cannot be written: {error.strerror or error}; name another file") from None
    finally:
        partial.unlink(missing_ok=True)
    return [f"{name} {metadata.version(name)}" for name in names]


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    is_elsewhere = member.name == "middleware/public"  # what stands there in a checkout is added under its own name
    return None if is_elsewhere or any(part in _EXCLUDED_PARTS for part in Path(member.name).parts) else member


def _needed(name: str, extra: str = "") -> set[str]:
    """The names of all distributions that one needs, itself excluded."""
    found: set[str] = set()
    waiting = [(name, extra)]
    while waiting:
        at, extra = waiting.pop()
        for text in metadata.requires(at) or ():
            requirement = Requirement(text)
            own = canonicalize_name(requirement.name)
            if own in found | EXCLUDED or (requirement.marker and not requirement.marker.evaluate({"extra": extra})):
                continue
            try:
                metadata.version(own)
            except metadata.PackageNotFoundError:
                raise SlacklineError(f"{own} is not installed here, but {at} needs it: install it, then pack again") from None
            found.add(own)
            waiting.append((own, ""))
    return found


def _files(name: str) -> Iterator[tuple[Path, str]]:
    """The files of an installed distribution, and where they go."""
    for file in metadata.files(name) or ():
        path = Path(str(file.locate()))
        if ".." not in file.parts and not any(part in _EXCLUDED_PARTS for part in file.parts) and path.is_file():
            yield path, str(file)
