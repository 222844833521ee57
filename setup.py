"""Which packages there are, and the Rust core; everything else about the project stands in pyproject.toml."""

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

from setuptools import find_namespace_packages, setup
from setuptools.command.editable_wheel import editable_wheel
from setuptools_rust import Binding, RustExtension

MANIFEST = Path("middleware/native/Cargo.toml")
BUILDING = {"bdist_wheel", "build", "build_ext", "build_rust", "develop", "editable_wheel", "install"}
"""Commands that build the core; others, such as making a source archive, need no Rust."""
IN_PLACE = {"develop", "editable_wheel"}
"""Those that install a checkout where it stands."""


# detectors and scenarios are namespace packages: a user's own folders of these names are found beside ours.
PACKAGES = find_namespace_packages(
    include=["middleware*", "detectors*", "scenarios*"],
    exclude=["middleware.native.src*", "middleware.native.target*", "middleware.public*"],
)
ELSEWHERE = {
    "slackline": "middleware/public/slackline",
    # Benchmarks and torture stand with the tests, and are commands all the same.
    "slackline_benchmarks": "tests/slackline_benchmarks",
    "slackline_torture": "tests/slackline_torture",
}
"""Packages whose folder is not at the top level of the checkout."""
TOPS = ("middleware", "detectors", "scenarios", *ELSEWHERE)
SHARED = sys.version_info >= (3, 12) and not sysconfig.get_config_var("Py_GIL_DISABLED")
"""Whether what is built here runs on all Pythons from 3.12 on, by the stable ABI. That of 3.11 lacks what the core needs, and
free-threaded ones have none."""
LINKS = Path(".editable")
"""The folder that an editable installation puts on the path: links to the packages of the checkout, and nothing else."""


class EditableWheel(editable_wheel):
    """An editable installation that type checkers and editors find, too.

    That of setuptools finds packages by an import hook, as they do not stand in one folder. Checkers run no hooks: they follow
    a .pth file. The checkout itself is no folder for it, as its ``tests`` would hide those of other projects.
    """

    def _select_strategy(self, name: str, tag: str, build_lib: str) -> object:
        try:
            return LinkedPackages(name)
        except OSError:  # no links here, as on Windows without the right to make them
            return super()._select_strategy(name, tag, build_lib)


class LinkedPackages:
    """What setuptools asks of a strategy: write the .pth file into the wheel."""

    def __init__(self, name: str) -> None:
        self._file = f"__editable__.{name}.pth"
        shutil.rmtree(LINKS, ignore_errors=True)
        LINKS.mkdir()
        for package in TOPS:
            (LINKS / package).symlink_to(Path(ELSEWHERE.get(package, package)).resolve(), target_is_directory=True)

    def __call__(self, wheel: Any, files: list[str], mapping: dict[str, str]) -> None:
        """Write the .pth file."""
        wheel.writestr(self._file, f"{LINKS.resolve()}\n")

    def __enter__(self) -> "LinkedPackages":
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is left open."""


def extensions() -> list[RustExtension]:
    """The Rust core. Ends with one line where it is to be built and cannot be."""
    if BUILDING.intersection(sys.argv) and (fault := _fault()):
        sys.exit(
            f"error: Slackline's core is written in Rust, and {fault}: install Rust {_least()} or later "
            "(https://rustup.rs; Debian 12, as root: apt-get install cargo-web), or take a wheel of Slackline for this Python"
        )
    core = RustExtension(
        "middleware.native._core",
        path=str(MANIFEST),
        binding=Binding.PyO3,
        debug=False,
        cargo_manifest_args=["--locked"],  # the crates of Cargo.lock, or none
        # Benchmarks of a checkout measure Slackline against baselines; a wheel has no use for them.
        features=["abi3" if SHARED else "python", *(["baselines"] if _measures() else [])],
    )
    return [core]


def _measures() -> bool:
    """Whether this is a checkout that is installed where it stands; a source archive has no baselines."""
    return bool(IN_PLACE.intersection(sys.argv)) and Path("tests/slackline_benchmarks/baselines/mod.rs").exists()


def _least() -> str:
    least: str = tomllib.loads(MANIFEST.read_text())["package"]["rust-version"]
    return least


def _fault() -> str | None:
    """Why this machine's Rust cannot build the core, if it cannot."""
    if shutil.which("cargo") is None:
        return "there is no cargo"
    told = subprocess.run(["cargo", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"(\d+)\.(\d+)", told)
    if found is None or tuple(map(int, found.groups())) < tuple(map(int, _least().split("."))):
        return f"this machine has {told.strip() or 'a cargo that does not run'}"
    return None


setup(
    packages=[*PACKAGES, *ELSEWHERE],
    package_dir=ELSEWHERE,
    zip_safe=False,
    rust_extensions=extensions(),
    cmdclass={"editable_wheel": EditableWheel},
    options={"bdist_wheel": {"py_limited_api": "cp312"}} if SHARED else {},
)
