"""Names that users' modules may share with our packages: a ``detectors.py`` beside a script hides neither itself nor ours.

Python imports the first module of a name on the path, and the folder of a script comes first. Where that is a user's module, it
and our package become one: submodules are looked for in ours first, attributes are the user's. The user's code runs when its
first attribute is asked for, and not because Slackline imports ``detectors.window``: it may be the very script that runs.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

NAMES = ("middleware", "detectors", "scenarios")


def join() -> None:
    """Join users' modules with our packages, those that are loaded and those to come. Further calls do nothing."""
    for name in NAMES:
        module = sys.modules.get(name)
        if module is not None and (locations := _locations(name, getattr(module, "__path__", ()))):
            module.__path__ = locations
    if not any(isinstance(finder, SharedNames) for finder in sys.meta_path):
        sys.meta_path.insert(0, SharedNames())


class SharedNames(MetaPathFinder):
    """Finds a user's module under one of our names, as a package that is ours as well."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The joined package; None leaves it to Python, where no module of a user hides ours."""
        if fullname not in NAMES:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if found is None or found.loader is None or found.origin is None:
            return None  # folders without __init__.py, which Python joins itself
        locations = _locations(fullname, found.submodule_search_locations or ())
        if not locations:
            return None
        return spec_from_file_location(
            fullname, found.origin, loader=_Loader(found.loader, Path(locations[0])), submodule_search_locations=locations
        )


class _Loader(Loader):
    def __init__(self, users: Loader, ours: Path) -> None:
        self._users, self._ours = users, ours

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Joined(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        own = self._ours / "__init__.py"
        if own.exists():
            SourceFileLoader(module.__name__, str(own)).exec_module(module)
        vars(module)["_users"] = self._users


class _Joined(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if not self._run() or name not in vars(self):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return vars(self)[name]

    def __dir__(self) -> list[str]:
        self._run()
        return sorted(vars(self))

    def _run(self) -> bool:
        """Run the user's code, unless it has run or does so now; whether it has just run."""
        loader: Loader | None = vars(self).pop("_users", None)
        if loader is None:
            return False
        try:
            loader.exec_module(self)
        except BaseException:
            vars(self)["_users"] = loader  # who asks again gets the same error
            raise
        return True


def _locations(name: str, path: Sequence[str]) -> list[str]:
    """Where submodules are looked for, ours first; empty if ours is among those of ``path`` already."""
    ours = _base() / name
    if any(Path(each).resolve() == ours.resolve() for each in path):
        return []
    return [str(ours), *path]


def _base() -> Path:
    """The folder of our packages: the one that this package was installed into, or a checkout."""
    installed = Path(__file__).parents[1]
    return installed if (installed / "middleware" / "model").is_dir() else Path(__file__).resolve().parents[3]
