"""Which packages there are, and the optional native core; everything else about the project stands in pyproject.toml."""

import shutil
import sys
from pathlib import Path
from typing import Any

from setuptools import find_namespace_packages, setup

MANIFEST = Path("middleware/native/Cargo.toml")


# detectors and scenarios are namespace packages: a user's own folders of these names are found beside ours.
PACKAGES = find_namespace_packages(
    include=["middleware*", "detectors*", "scenarios*"], exclude=["middleware.native.src*", "middleware.native.target*"]
)
# Benchmarks and torture stand with the tests, and are commands all the same.
COMMANDS = {name: f"tests/{name}" for name in ("slackline_benchmarks", "slackline_torture")}


def extensions() -> dict[str, Any]:
    """The argument that has the Rust core built, or none and one line that says why not."""
    if not MANIFEST.exists():
        return _without("this version has none")
    if shutil.which("cargo") is None:
        return _without("no cargo")
    try:
        from setuptools_rust import Binding, RustExtension
    except ImportError:
        return _without("no setuptools-rust")
    core = RustExtension(
        "middleware.native._core",
        path=str(MANIFEST),
        binding=Binding.PyO3,
        optional=True,
        debug=False,
        cargo_manifest_args=["--locked"],  # the crates of Cargo.lock, or none
    )
    return {"rust_extensions": [core]}


def _without(reason: str) -> dict[str, Any]:
    sys.stderr.write(f"native core: not built ({reason})\n")
    return {}


setup(packages=[*PACKAGES, *COMMANDS], package_dir=COMMANDS, zip_safe=False, **extensions())
