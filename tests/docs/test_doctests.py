"""The examples in docstrings are run, in every module of the project."""

import doctest
import pkgutil
from importlib import import_module
from types import ModuleType

import pytest
import slackline
import slackline_benchmarks
import slackline_torture

import detectors
import middleware

PACKAGES = (middleware, detectors, slackline, slackline_benchmarks, slackline_torture)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules(package: ModuleType) -> list[str]:
    """Names of a package and all below it; found without importing any but the packages on the way."""
    return [package.__name__, *(found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))]


@pytest.mark.parametrize("name", [name for package in PACKAGES for name in modules(package)])
def test_doctests(name: str) -> None:
    results = doctest.testmod(import_module(name), optionflags=FLAGS)
    assert results.failed == 0, f"{results.failed} of {results.attempted} examples in {name} fail; see the captured output"


def test_known_examples_are_found() -> None:
    """Guards against a collector that finds nothing and so never fails."""
    assert doctest.testmod(import_module("middleware.model.event"), optionflags=FLAGS).attempted >= 2
