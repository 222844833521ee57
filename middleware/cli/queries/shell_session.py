"""A session: takes statements as they come, and runs one query over a feed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from detectors.cql.catalog import CatalogStream
from detectors.cql.cql_script import Script
from detectors.cql.grammar import statements as s
from middleware.cli.queries.mesh_feed import MeshFeed
from middleware.cli.queries.query_feed import UnitFailures, needed, only
from middleware.cli.queries.sql_feeds import PATIENCE, FileFeed, RawSources, RecordingFeed, TupleFeed
from middleware.model.change import Batch
from middleware.model.detector import Detector
from middleware.model.errors import SlacklineError
from middleware.model.event import END, EventType, EventTypes, type_name
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies
from middleware.ordering.records import LateSummary
from middleware.ordering.slack.kslack import Lateness
from middleware.runtime.scenario import Scenario, load_scenario


class ShellSession:
    """The statements so far, and the source of tuples.

    ``scenario``
        the name of a scenario whose streams can be queried, fed by its recording.
    ``address``
        a node of a live mesh to feed from; ``types`` are the event types that it may send.
    ``files``
        tables to feed from; their types are among ``types``.
    ``folder``
        where the paths of SOURCE FILE start.
    ``late``
        the tuples that came too late for the last run, and were skipped, in numbers; None if none did.
    ``failures``
        what failed in the last run, a sentence for each query or detector.
    """

    def __init__(
        self,
        types: Iterable[EventType] = (),
        scenario: str | None = None,
        address: str | None = None,
        folder: Path | None = None,
        lateness: int | None = None,
        files: FileFeed | None = None,
    ) -> None:
        self.scenario: Scenario | None = load_scenario(scenario) if scenario is not None else None
        self._known = EventTypes(types)
        self._files = files
        if self.scenario is not None:
            for _, event_type in self.scenario.types.items():
                self._known.add(event_type)
        self.script = Script([event_type for _, event_type in self._known.items()], folder=folder)
        self._address = address
        self._folder = folder or Path()
        self.late: LateSummary | None = None
        self.failures: list[str] = []
        self._policies = Policies(alpha=0.0, lateness=Lateness(floor=lateness) if lateness is not None else Lateness())

    @property
    def paths(self) -> list[Path]:
        """The files that statements read."""
        sources = (stream.source for stream in self.script.catalog)
        return [self._folder / source.path for source in sources if isinstance(source, s.File)]

    def add(self, text: str) -> list[CatalogStream]:
        """Take statements; returns the streams that they write. Raises QueryError."""
        return self.script.add(text)

    def _publishers(self) -> dict[str, Detector]:
        """All detectors and operators there are, by name: the session's own, and the scenario's."""
        found: dict[str, Detector] = {operator.name: operator for operator in self.script.operators}
        for name, detector in (self.scenario.detectors if self.scenario is not None else {}).items():
            found[name if name not in found else f"{self.scenario.plan.name}.{name}" if self.scenario else name] = detector
        return found

    def upstream(self, stream: CatalogStream) -> dict[str, Detector]:
        """Everything that derives a stream, by name. A mesh derives its own streams, so for those there is nothing."""
        publishers = self._publishers()
        if self._address is not None:
            publishers = {operator.name: operator for operator in self.script.operators}
        return needed([stream.event_type], publishers)

    def feed(self, detectors: dict[str, Detector], stream: CatalogStream) -> TupleFeed:
        """The feed for these detectors (or of ``stream`` itself, if nothing derives it). Raises SlacklineError if none."""
        derived = {t for detector in detectors.values() for t in detector.publishes}
        raw = {t for detector in detectors.values() for t in detector.subscribes} - derived
        raw = raw or ({stream.event_type} - derived)
        names = frozenset(map(type_name, raw))
        if self._address is not None:
            types = EventTypes(raw)
            return MeshFeed(self._address, types, names, PATIENCE)
        sources = [each for each in self.script.sources if each.event_type in raw]
        if sources and {each.event_type for each in sources} == raw:
            return RawSources(sources, self._folder)
        if self._files is not None and names <= self._files.types:
            return self._files
        if self.scenario is not None:
            feed = RecordingFeed(self.scenario, self.scenario.types)
            if names <= feed.types:
                return feed
            names -= feed.types
        own = {type_name(each.event_type) for each in sources}
        missing = ", ".join(sorted(names - own))
        if self._files is not None and names - own <= self._files.types:
            raise SlacklineError(
                f"{', '.join(sorted(own))} has a source of its own, and {missing} comes from --from: "
                "a query reads the one or the other"
            )
        raise SlacklineError(
            f"nothing feeds {missing}: give the stream a source (SOURCE FILE, SOURCE HOST), "
            "or start with --from, --scenario or --connect"
        )

    def run(self, stream: CatalogStream, feed: TupleFeed | None = None) -> Iterator[Batch]:
        """Changes of a stream and its watermark, as its feed comes; an empty batch now and then while nothing does.

        It ends when a query on the way has stopped, which makes no result final. ``failures`` says why.
        """
        self.late, self.failures = None, []
        detectors = self.upstream(stream)
        if feed is None:
            feed = self.feed(detectors, stream)
        name = type_name(stream.event_type)
        hierarchy = Hierarchy(detectors, policies=self._policies, resumes=False)
        failed = UnitFailures(hierarchy.units)
        try:
            yield from self._results(name, feed, hierarchy, failed) if detectors else (only(name, batch) for batch in feed)
        finally:
            self.late = LateSummary.of({unit.name: unit.late for unit in hierarchy.units})
            self.failures = failed.sentences()

    @staticmethod
    def _results(name: str, feed: TupleFeed, hierarchy: Hierarchy, failed: UnitFailures) -> Iterator[Batch]:
        outside: dict[str, int] = {}
        for batch in feed:
            outside.update(batch.watermarks)
            for out in hierarchy.process(Batch(batch.deltas, outside, batch.clock)):
                yield only(name, out)
            yield Batch()
            if failed.take():
                return
        for out in hierarchy.process(Batch({}, dict.fromkeys(hierarchy.subscriptions, END))):
            yield only(name, out)
        failed.take()
