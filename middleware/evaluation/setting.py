"""Where and with what something was measured: what every figure states."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from textwrap import wrap

import psutil

from middleware.installation import DISTRIBUTION

_WIDTH = 170
_PACKAGES = ("msgspec", "pyzmq", "numpy", "pyarrow", "pyspark")


def setting(seed: int, seconds: float, command: str) -> dict[str, str]:
    """Seed, length, machine, versions and command, as texts."""
    memory = psutil.virtual_memory().total / 2**30
    return {
        "seed": str(seed),
        "snippet": f"{seconds:g} s",
        "machine": f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}",
        "versions": ", ".join([f"Python {platform.python_version()}", *map(_version, (DISTRIBUTION, *_PACKAGES))]),
        "command": command,
    }


def line(parts: dict[str, str]) -> str:
    """The setting as lines of text that fit below a figure."""
    texts = [f"{name} {text}" for name, text in parts.items()]
    rows = (" · ".join(texts[:3]), *texts[3:])
    return "\n".join(piece for row in rows for piece in wrap(row, _WIDTH))


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} not installed"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (text.partition(":")[2].strip() for text in lines if text.startswith("model name"))
    return next(names, platform.machine())
