"""A view that a scenario adds: what it wants of the stream, and what it makes of it. Pure but for the file it names.

A scenario names one in its file, ``view = "yard.scene:scene"``: a function without arguments that returns a scene.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from middleware.model.event import Event

MOST_FRAMES = 6_000
"""Frames that are kept for the scrubber: ten minutes."""


class Scene(Protocol):
    """What a scenario's own view is made of.

    ``script``
        a JavaScript module that exports ``draw(context, width, height, frame, fixed, colours)``.
    ``title``
        what it is called on the page.
    ``fixed``
        what never changes (the lines of a pitch), as JSON takes it.
    ``samples``
        names of event types of which some blocks a second are enough; the others are dropped unread.
    """

    script: Path
    title: str
    fixed: dict[str, Any]
    samples: Collection[str]

    def sampled(self, events: Sequence[Event]) -> None:
        """Some events of the types in ``samples``."""
        ...

    def found(self, events: Sequence[Event]) -> None:
        """Results as they come, and as they are corrected."""
        ...

    def frame(self) -> dict[str, Any] | None:
        """What is to be drawn now, with its time of the stream as ``t`` (seconds); None if there is nothing yet."""
        ...


class Film:
    """The frames of a scene, for those who look on live, and for those who wind back: the last MOST_FRAMES.

    ``is_torn``
        whether the scene has raised, and is not to be asked again.
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
        """Every frame that is kept, as a JSON list."""
        return msgspec.json.encode(list(self._frames))
