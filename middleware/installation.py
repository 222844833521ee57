"""How this Slackline was installed, so that what is missing can be had by one command: in a checkout, and from a wheel."""

from __future__ import annotations

import re
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from middleware.model.errors import SlacklineError

DISTRIBUTION: Final = "slackline-cep"
"""Our name in the package index; ``slackline`` there is somebody else's."""

ROOT = Path(__file__).resolve().parents[1]  # an editable installation has links to the packages of a checkout
"""The folder in which ``middleware`` stands: the checkout, or where packages are installed."""

_PUBLIC = ROOT / "middleware" / "public" / "slackline"

PACKAGES: Final = {
    "middleware": ROOT / "middleware",
    "detectors": ROOT / "detectors",
    "slackline": _PUBLIC if _PUBLIC.exists() else ROOT / "slackline",  # a checkout has it in a folder of its own
}
"""The packages that user code needs, each with its folder."""


def is_checkout() -> bool:
    """Whether this is run from Slackline's own sources."""
    return (ROOT / "tools" / "make_env.sh").exists() and (ROOT / "pyproject.toml").exists()


def install(extra: str = "") -> str:
    """The command that installs a set of packages (``extra``; by default, what is always needed).

    >>> print(install("spark"))  # doctest: +SKIP
    pip install 'slackline-cep[spark]'
    """
    extras = f"[{extra}]" if extra else ""
    if is_checkout():
        return f"in {ROOT}: make env (or: pip install -e '.{extras}')"
    return f"pip install '{DISTRIBUTION}{extras}'"


def needed(name: str, extra: str | None) -> ModuleType:
    """Import a package of an extra, or (None) one that Slackline does not install. Raises SlacklineError, which says what to
    install."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        how = f"pip install {name}" if extra is None else install(extra)
        raise SlacklineError(f"this needs {error.name or name}; {how}") from None


def declared() -> dict[str, list[Requirement]]:
    """The requirements that Slackline declares: by extra, with those of every installation under "". Raises
    PackageNotFoundError."""
    sets: dict[str, list[Requirement]] = {"": []}
    for requirement in map(Requirement, metadata.requires(DISTRIBUTION) or []):
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)", str(requirement.marker))
        sets.setdefault(extra.group(1) if extra else "", []).append(requirement)
    return sets


def extra_with(package: str) -> str | None:
    """The first extra that has a package, or one in its namespace (opentelemetry: opentelemetry-sdk); None if none has."""
    name = canonicalize_name(package)
    for extra, requirements in declared().items():
        if extra and any(f"{canonicalize_name(each.name)}-".startswith(f"{name}-") for each in requirements):
            return extra
    return None
