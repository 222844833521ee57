"""A view that a scenario adds: the events it wants, and the frames it makes of them. Pure except for the file it names.

A scenario names it in its file, ``view = "yard.scene:scene"``: a function without arguments that returns a scene.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from middleware.model.event import Event

MOST_FRAMES = 6_000
"""The number of frames kept for the scrubber: ten minutes."""


class Scene(Protocol):
    """The parts of a scenario's own view.

    ``script``
        a JavaScript module that exports ``draw(context, width, height, frame, fixed, colours)``.
    ``title``
        its title on the page.
    ``fixed``
        what never changes (such as the lines of a pitch), as JSON values.
    ``samples``
        names of event types that are sampled at some blocks a second; the others are dropped undecoded.
    """

    script: Path
    title: str
    fixed: dict[str, Any]
    samples: Collection[str]

    def sampled(self, events: Sequence[Event]) -> None:
        """Take some events of the types in ``samples``."""
        ...

    def found(self, events: Sequence[Event]) -> None:
        """Take results as they come, and as they are corrected."""
        ...

    def frame(self) -> dict[str, Any] | None:
        """The frame to draw now, with its stream time as ``t`` (seconds); None if there is nothing yet."""
        ...


class Film:
    """The frames of a scene, for live viewers and for rewinding: the last MOST_FRAMES.

    ``is_torn``
        whether the scene has raised; then it is not called again.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.version = 0
        self.is_torn = False
        self.latest: msgspec.Raw | None = None
        self._frames: deque[msgspec.Raw] = deque(maxlen=MOST_FRAMES)
        self._last: float | None = None

    def expose(self) -> None:
        """Take the next frame, if the scene's time has moved."""
        frame = self.scene.frame()
        if frame is None or frame["t"] == self._last:
            return
        self._last = frame["t"]
        self.latest = msgspec.Raw(msgspec.json.encode(frame))
        self._frames.append(self.latest)
        self.version += 1

    def all(self) -> bytes:
        """All kept frames, as a JSON list."""
        return msgspec.json.encode(list(self._frames))
