"""Code of users, found by name: modules and what is in them. Whatever goes wrong in it is told with file and line."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from middleware.detector import Detector
from middleware.errors import ScenarioError, SlacklineError
from middleware.operator import Operator


def import_user_module(name: str) -> ModuleType:
    """A module of a user. Raises ScenarioError, whatever happens in it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ScenarioError(f"cannot import {name}: {error}") from None
    except Exception as error:
        raise ScenarioError(f"cannot import {name}: {_told(error)}") from error


def load_object(target: str, folder: Path | None = None) -> Any:
    """What ``module:name`` stands for; modules beside the scenario are found too. Raises ScenarioError."""
    module_name, colon, name = target.partition(":")
    if not (module_name and colon and name):
        raise ScenarioError(f"{target!r}: write module:name, such as detectors.soccer.ball:BallHits")
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        module = import_user_module(module_name)
    except ScenarioError as error:
        raise ScenarioError(f"{target}: {error}") from error.__cause__
    if not hasattr(module, name):
        there = sorted(each for each, value in vars(module).items() if _is_detector(value, module_name))
        raise ScenarioError(f"{target}: {module_name} has no {name}; its detectors: {', '.join(there) or 'none'}")
    return getattr(module, name)


def _told(error: Exception) -> str:
    """What went wrong in a user's code, and where."""
    if isinstance(error, SyntaxError):
        return f"{error.msg} ({error.filename}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def _is_detector(value: Any, module: str) -> bool:
    """Whether it is an operator, or a detector class of this module."""
    if isinstance(value, type):
        return issubclass(value, Detector) and value.__module__ == module
    return isinstance(value, Operator)


def called(target: str, found: Any, settings: Mapping[str, Any]) -> Any:
    """What a user's class or function makes of its settings."""
    try:
        return found(**settings)
    except TypeError as error:
        raise ScenarioError(f"settings: {target}: {error}") from None
    except SlacklineError:
        raise
    except Exception as error:
        raise ScenarioError(f"detectors: {target} fails: {_told(error)}") from error
