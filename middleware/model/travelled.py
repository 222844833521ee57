"""Classes that came here by value, as those of a user's script do with a job: state names them, and does not hold them.

Held by value, a class would be another one where the state is read after a restart: its enum members and its instances would be
equal to none that the code of the new life makes.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakValueDictionary

_known: WeakValueDictionary[str, type] = WeakValueDictionary()


def know(kinds: Iterable[type]) -> None:
    """These classes are here now; of two with one name, the last counts."""
    _known.update((_name(kind), kind) for kind in kinds)


def name_of(kind: type) -> str | None:
    """The name under which ``found`` gives this class, here and wherever it is known; None if it is not known here."""
    name = _name(kind)
    return name if _known.get(name) is kind else None


def found(name: str) -> type:
    """The class of this name. Raises LookupError, which says what to do, if it did not come with the job."""
    kind = _known.get(name)
    if kind is None:
        raise LookupError(f"the class {name} is not there any more: put it back, or start with a new checkpoint")
    return kind


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"
