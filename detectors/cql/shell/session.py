"""A session: takes statements as they come, and runs one query over a feed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from detectors.cql.catalog import Stream
from detectors.cql.script import Script
from detectors.cql.shell.feeds import Feed, Mesh, RawSources, Recorded
from detectors.feeding import needed, only
from middleware.model.change import Batch
from middleware.model.detector import Detector
from middleware.model.errors import SlacklineError, last_line
from middleware.model.event import END, EventType, EventTypes, type_name
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.kslack import Lateness
from middleware.ordering.policies import Policies
from middleware.runtime.scenario import Scenario, load_scenario


class Session:
    """The statements so far, and the source of tuples.

    ``scenario``
        the name of a scenario whose streams can be queried, fed by its recording.
    ``address``
        a node of a live mesh to feed from; ``types`` are the event types that it may send.
    ``folder``
        where the paths of SOURCE FILE start.
    ``late``
        how many tuples came too late for the last run, and were left out.
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
    ) -> None:
        self.scenario: Scenario | None = load_scenario(scenario) if scenario is not None else None
        self._known = EventTypes(types)
        if self.scenario is not None:
            for _, event_type in self.scenario.types.items():
                self._known.add(event_type)
        self.script = Script([event_type for _, event_type in self._known.items()])
        self._address = address
        self._folder = folder or Path()
        self.late = 0
        self.failures: list[str] = []
        self._policies = Policies(alpha=0.0, lateness=Lateness(floor=lateness) if lateness is not None else Lateness())

    def add(self, text: str) -> list[Stream]:
        """Take statements; returns the streams that they write. Raises QueryError."""
        return self.script.add(text)

    def _publishers(self) -> dict[str, Detector]:
        """All detectors and operators there are, by name: the session's own, and the scenario's."""
        found: dict[str, Detector] = {operator.name: operator for operator in self.script.operators}
        for name, detector in (self.scenario.detectors if self.scenario is not None else {}).items():
            found[name if name not in found else f"{self.scenario.plan.name}.{name}" if self.scenario else name] = detector
        return found

    def upstream(self, stream: Stream) -> dict[str, Detector]:
        """Everything that derives a stream, by name. A mesh derives its own streams, so for those there is nothing."""
        publishers = self._publishers()
        if self._address is not None:
            publishers = {operator.name: operator for operator in self.script.operators}
        return needed([stream.event_type], publishers)

    def feed(self, detectors: dict[str, Detector], stream: Stream) -> Feed:
        """The feed for these detectors (or of ``stream`` itself, if nothing derives it). Raises SlacklineError if none."""
        derived = {t for detector in detectors.values() for t in detector.publishes}
        raw = {t for detector in detectors.values() for t in detector.subscribes} - derived
        raw = raw or ({stream.event_type} - derived)
        names = frozenset(map(type_name, raw))
        if self._address is not None:
            types = EventTypes(raw)
            return Mesh(self._address, types, names)
        sources = [each for each in self.script.sources if each.event_type in raw]
        if sources and {each.event_type for each in sources} == raw:
            return RawSources(sources, self._folder)
        if self.scenario is not None:
            feed = Recorded(self.scenario, self.scenario.types)
            if names <= feed.types:
                return feed
            names -= feed.types
        missing = ", ".join(sorted(names - {type_name(each.event_type) for each in sources}))
        raise SlacklineError(
            f"nothing feeds {missing}: give the stream a source (SOURCE FILE, SOURCE HOST), "
            "or start with --scenario or --connect"
        )

    def run(self, stream: Stream, feed: Feed | None = None) -> Iterator[Batch]:
        """Changes of a stream and its watermark, as its feed comes; an empty batch now and then while nothing does.

        It ends when a query on the way has stopped, which makes no result final. ``failures`` says why.
        """
        self.late, self.failures = 0, []
        detectors = self.upstream(stream)
        if feed is None:
            feed = self.feed(detectors, stream)
        name = type_name(stream.event_type)
        hierarchy = Hierarchy(detectors, policies=self._policies)
        failed = _Failed(hierarchy)
        try:
            yield from self._results(name, feed, hierarchy, failed) if detectors else (only(name, batch) for batch in feed)
        finally:
            self.late = sum(len(unit.late) for unit in hierarchy.units)
            self.failures = failed.told()

    @staticmethod
    def _results(name: str, feed: Feed, hierarchy: Hierarchy, failed: _Failed) -> Iterator[Batch]:
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


class _Failed:
    """The failures in a hierarchy: for each unit the number and the last one, so it stays small in an endless run."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._units = hierarchy.units
        self._counts: Counter[str] = Counter()
        self._last: dict[str, str] = {}

    def take(self) -> bool:
        """Note failures since the last call; returns whether something has stopped."""
        for unit in self._units:
            if unit.quarantine:
                failed, unit.quarantine = unit.quarantine, []
                self._counts[unit.name] += len(failed)
                self._last[unit.name] = last_line(failed[-1].failure)
        return any(unit.halted for unit in self._units)

    def told(self) -> list[str]:
        """A sentence for each detector or operator that has failed."""
        stopped = {unit.name: last_line(unit.halted) for unit in self._units if unit.halted}
        lost = "is missing in the results: please report it, with the statement and the tuples"
        sentences = [f"{name} has stopped: {why}; what came with that or later {lost}" for name, why in stopped.items()]
        left_out = {name: count for name, count in self._counts.items() if name not in stopped}
        more = "{name}: {n} event{s} failed and left out, at last by {why}"
        return sentences + [more.format(name=name, n=n, s="s" * (n != 1), why=self._last[name]) for name, n in left_out.items()]
