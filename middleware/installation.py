"""How this Slackline was installed, so that what is missing can be had by one command: in a checkout, and from a wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Final

DISTRIBUTION: Final = "slackline-cep"
"""What the package index calls us; ``slackline`` there is somebody else's."""

ROOT = Path(__file__).parents[1]
"""The folder in which ``middleware`` stands: the checkout, or where packages are installed."""


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
