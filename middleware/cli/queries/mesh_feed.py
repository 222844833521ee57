"""The events of a node of a running mesh, for the commands that run queries over it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from middleware.model.change import Batch
from middleware.model.errors import NetworkError
from middleware.model.event import END, EventTypes

_PAUSE = 0.1
"""Seconds between two looks at what is shown while nothing comes."""


class MeshFeed:
    """The events of the subscribed types at a node, as they change; empty batches now and then while nothing comes.

    ``patience``: seconds that the node may take to answer (None: any time).
    """

    def __init__(self, address: str, types: EventTypes, subscribed: Collection[str], patience: float | None = None) -> None:
        self._address, self._known, self._patience = address, types, patience
        self._subscribed = frozenset(subscribed)
        self._drops: dict[str, int] = {}

    @property
    def types(self) -> frozenset[str]:
        """The names of the event types it brings."""
        return self._subscribed

    def __iter__(self) -> Iterator[Batch]:
        """Net changes, with all watermarks so far, until all types have ended.

        Raises NetworkError where changes are missing: one of them may withdraw what came before, so no result would be final.
        """
        from middleware.cli.meshes.awaited import report_missing_publishers
        from middleware.runtime.clients.subscriber import Subscriber

        subscribed = sorted(self._subscribed)
        watermarks: dict[str, int] = {}
        missed = 0
        with (
            Subscriber(self._address, subscribed, event_types=self._known, on_slow="disconnect") as subscriber,
            report_missing_publishers(subscriber, subscribed),
        ):
            if self._patience is not None:
                subscriber.wait_ready(self._patience)
            yield Batch()
            while any(watermarks.get(name) != END for name in subscribed):
                had_read = subscriber.has_read
                batch = subscriber.receive_batch(_PAUSE)
                self._drops = subscriber.statistics().drops
                if subscriber.gaps > missed and had_read:
                    raise NetworkError(
                        f"{self._address}: changes are missing (see above), so of what came early none can be called final: "
                        "what was final before is; run the query again"
                    )
                missed = subscriber.gaps
                watermarks |= batch.watermarks
                clocks = [event.ts for delta in batch.deltas.values() for event in delta.inserts if event.level == 0]
                yield Batch(batch.deltas, dict(watermarks), max(clocks, default=None))

    def notes(self) -> list[str]:
        """A note on events that could not be read, for readers of the results."""
        drops = {reason: count for reason, count in self._drops.items() if reason != "interruption"}
        return [f"{count} events could not be taken: {reason}" for reason, count in drops.items()]
