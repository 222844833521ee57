"""Loads users' code by name: modules and the objects in them. Errors in it are reported with file and line."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import ModuleType
from typing import Any

from middleware.model.detector import Detector
from middleware.model.errors import ScenarioError, SlacklineError
from middleware.model.operator import Operator

_folders: list[str] = []
"""Where modules are looked for here, beside what is installed; the folder of the scenario that was loaded last comes first."""


def import_user_module(name: str) -> ModuleType:
    """Import a user's module. Raises ScenarioError for any error in it."""
    try:
        module = import_module(name)
        dir(module)  # a user's module under a name of ours runs when it is first looked into (slackline.shared_names)
    except ImportError as error:
        raise ScenarioError(f"cannot import {name}: {error}") from None
    except Exception as error:
        raise ScenarioError(f"cannot import {name}: {_describe_error(error)}") from error
    except SystemExit:  # not of SIGTERM, which is answered once an import is over
        raise ScenarioError(
            f"cannot import {name}: it ends the program as it is imported (sys.exit): put that below if __name__ == '__main__':"
        ) from None
    return module


def load_object(target: str, folder: Path | None = None) -> Any:
    """The object named by ``module:name``. Raises ScenarioError.

    It finds installed modules, those in ``folder`` (the scenario's) and those in the working folder: a user's own
    ``detectors/forklift.py`` is ``detectors.forklift``, beside the detectors that came with Slackline. Two scenarios may have
    modules of one name: each gets its own. O(modules loaded).
    """
    module_name, colon, name = target.partition(":")
    if not (module_name and colon and name):
        raise ScenarioError(f"{target!r}: write module:name, such as detectors.soccer.ball_play.ball:BallHits")
    if folder is not None:
        _look_first_in(str(folder.absolute()))
    if str(Path.cwd()) not in sys.path:
        _folders.append(str(Path.cwd()))
        sys.path.append(_folders[-1])
    try:
        module = import_user_module(module_name)
    except ScenarioError as error:
        raise ScenarioError(f"{target}: {error}") from error.__cause__
    if not hasattr(module, name):
        there = sorted(each for each, value in vars(module).items() if _is_detector(value, module_name))
        raise ScenarioError(f"{target}: {module_name} has no {name}; its detectors: {', '.join(there) or 'none'}")
    return getattr(module, name)


def _look_first_in(folder: str) -> None:
    """Look for modules in a folder, before those of other scenarios, whose modules of the same names are forgotten."""
    if folder in sys.path and folder not in _folders:
        return
    others = [each for each in _folders if each != folder]
    _folders[:] = [folder, *others]
    sys.path[:] = [each for each in sys.path if each not in _folders] + _folders  # at the end: it never hides what is installed
    invalidate_caches()
    for name, module in sys.modules.copy().items():  # a list of them is not made at once: other threads may import meanwhile
        file = getattr(module, "__file__", None) or ""
        if not file.startswith(folder + os.sep) and any(_is_twin(file, other, folder) for other in others):
            sys.modules.pop(name, None)


def _is_twin(file: str, other: str, folder: str) -> bool:
    """Whether the folder has a file of its own at the path of one in another folder."""
    return file.startswith(other + os.sep) and os.path.exists(folder + file[len(other) :])


def _describe_error(error: Exception) -> str:
    """The error in a user's code, and where it is."""
    if isinstance(error, SyntaxError):
        return f"{error.msg} ({error.filename}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def _is_detector(value: object, module: str) -> bool:
    """Whether the value is an operator, or a detector class of this module."""
    if isinstance(value, type):
        return issubclass(value, Detector) and value.__module__ == module
    return isinstance(value, Operator)


def called(target: str, found: Callable[..., Any], settings: Mapping[str, object]) -> Any:
    """Call a user's class or function with its settings."""
    try:
        return found(**settings)
    except TypeError as error:
        raise ScenarioError(f"settings: {target}: {error}") from None
    except SlacklineError:
        raise
    except Exception as error:
        raise ScenarioError(f"detectors: {target} fails: {_describe_error(error)}") from error
