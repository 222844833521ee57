"""A whole application on a simulated network, drawn from a seed: nodes with real brokers and real ordering units,
publishers that come and go, a subscriber behind a barrier, and the watchers that hold all of them to their promises."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable

from middleware.change import Batch, Delta
from middleware.clock import MILLISECOND, SECOND
from middleware.derivation import named
from middleware.detector import Detector
from middleware.event import END, IDENTITY, NEVER, ORDER, Event, EventTypes, Identity, type_name
from middleware.operator import Operation, Operator, Origin
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.kslack import FixedSlack, Horizon, QuantileSlack
from middleware.ordering.retraction import Retraction
from middleware.ordering.unit import Policies
from middleware.pubsub.barrier import Barrier
from middleware.pubsub.codec import Changes, decode_payload
from middleware.pubsub.merge import merged
from middleware.pubsub.wire import Parts, payload_size
from middleware.testing.oracle import oracle
from middleware.testing.simulation import Faults, SimulatedNode, SimulatedPublisher, SimulatedSubscriber, Simulation

LONGEST = 1_200 * SECOND


class Reading(Event):
    sensor: int
    value: int


class Probe(Event):
    sensor: int
    value: int


class Low(Event):
    sensor: int
    total: int


class High(Event):
    sensor: int
    total: int


class Pair(Event):
    sensor: int
    total: int


class Summary(Event):
    order: str


class Echoed(Event):
    count: int


class Span(Event):
    sensor: int
    count: int


class Crest(Event):
    order: str


TYPES = EventTypes([Reading, Probe, Low, High, Pair, Summary, Echoed, Span, Crest])


class Level(Detector):
    """The type of its results turns with its state, which often returns to what it was."""

    subscribes, publishes, backdate = (Reading,), (Low, High), 2

    def __init__(self) -> None:
        self.up = False
        self.recent: deque[int] = deque(maxlen=2)

    def on_event(self, event):
        self.recent.append(event.value)
        if event.value in (3, 7):
            self.up = event.value == 7
        if event.value == 5:
            raise RuntimeError("five")
        if event.value > 1:
            yield (High if self.up else Low)(event.sensor, sum(self.recent), ts=event.ts - event.value % 3)


class Totals(Detector):
    """Its state depends on the order of everything it ever saw for a sensor; publishes the same types as Level."""

    subscribes, publishes, key = (Reading, Probe), (Low, High), "sensor"

    def __init__(self) -> None:
        self.total = 0

    def on_event(self, event):
        self.total = (self.total * 31 + event.value) % 1009
        return [kind(event.sensor, self.total, ts=event.ts) for kind in (Low, High)[: self.total % 3]]


class Pairs(Detector):
    """Reads raw events and two derived types; its key changes when what it reads is revised."""

    subscribes, publishes, key, backdate = (Low, High, Probe), (Pair,), staticmethod(lambda e: e.sensor % 2), 3

    def __init__(self) -> None:
        self.last = 0

    def on_event(self, event):
        before, self.last = self.last, getattr(event, "total", event.sensor)
        return Pair(event.sensor, before * 1000 + self.last, ts=event.ts - 3) if (before + self.last) % 2 else None


class Summaries(Detector):
    """Reads two levels at once, and is driven by clock marks alone."""

    subscribes, publishes = (Low, Pair), (Summary,)

    def __init__(self) -> None:
        self.order = ""

    def on_event(self, event):
        self.order = (self.order + f"{type(event).__name__[0]}{event.total % 10}")[-6:]
        return Summary(self.order, ts=event.ts)


class Echo(Detector):
    """The fourth level; stamps into the future."""

    subscribes, publishes, clock = (Summary, Reading), (Echoed,), (Reading,)

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event):
        self.count += 1
        return Echoed(self.count, ts=event.ts + self.count % 4) if isinstance(event, Summary) else None


class Spans(Operator):
    """An operator: how many events of each sensor lie in (end - 5, end]. Published while the window is still open."""

    subscribes, publishes, name = (Low, Probe), (Span,), "Spans"
    is_open = True

    def start(self, name: str, level: int) -> Operation:
        return Spanning(Origin(name, level), self.is_open)


class ClosedSpans(Spans):
    """The same, but published once time has passed the window."""

    is_open = False


class Spanning(Operation):
    def __init__(self, origin: Origin, is_open: bool) -> None:
        super().__init__()
        self.origin, self.is_open = origin, is_open
        self.counts: Counter[tuple[int, int]] = Counter()
        self.published: dict[tuple[int, int], Span] = {}

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        for sign, events in ((-1, delta.retracts), (1, delta.inserts)):
            for event in events:
                self.counts[-(-event.ts // 5) * 5, event.sensor] += sign
        out = Delta()
        for (end, sensor), count in list(self.counts.items()):
            was = self.published.pop((end, sensor), None)
            now = self.result(sensor, count, end) if count and (self.is_open or end <= emitted) else None
            if was and now and was != now:
                out.revises.append((was, now))
            elif was and not now:
                out.retracts.append(was)
            elif now and not was:
                out.inserts.append(now)
            if end <= final:
                del self.counts[end, sensor]
            elif now:
                self.published[end, sensor] = now
        return out

    def result(self, sensor: int, count: int, end: int) -> Span:
        origin = self.origin
        return Span(sensor, count, ts=end, id=origin.id(sensor, end), source=origin.source, level=origin.level)


class Crests(Detector):
    """Reads what an operator derives, and raw events."""

    subscribes, publishes = (Span, Reading), (Crest,)

    def __init__(self) -> None:
        self.order = ""

    def on_event(self, event):
        if isinstance(event, Span):
            self.order = (self.order + str(event.count))[-5:]
            return Crest(self.order, ts=event.ts)
        self.order = (self.order + "r")[-5:]
        return None


APPLICATIONS: list[list[type[Detector]]] = [
    [Level, Spans, Crests],
    [Level, ClosedSpans, Crests],
    [Totals, Spans, Crests],
    [Level],
    [Level, Totals, Pairs, Summaries],
    [Totals, Pairs, Summaries],
    [Level, Pairs, Summaries],
    [Level, Totals, Pairs],
    [Totals, Pairs, Summaries, Echo],
    [Level, Totals, Pairs, Summaries, Echo],
]


def a_policy(rng: random.Random) -> Policies:
    """A policy with anything in it but a horizon too narrow to be worth a test."""
    return Policies(
        alpha=rng.choice([0.0, 0.0, 0.5, 1.0]),
        slack=rng.choice([None, None, lambda: FixedSlack(6), lambda: QuantileSlack(0.9, 32)]),
        horizon=rng.choice([Horizon(1, 0), Horizon(2, 10), Horizon(2, 200), Horizon(1, 10_000)]),
        retraction=rng.choice(list(Retraction)),
        spacing=rng.choice([None, 1, 3, 8]),
    )


class PromiseError(AssertionError):
    """Someone changed what was final, or took back what was never there."""


class Watch:
    """Nets the changes of one producer, and refuses those that break a promise."""

    def __init__(self, who: str) -> None:
        self.who = who
        self.now: dict[tuple[str, Identity], Event] = {}
        self.progress: dict[str, int] = {}

    def take(self, batch: Batch) -> None:
        for name, delta in batch.deltas.items():
            for event in delta.retracts:
                self._remove(name, event)
            for old, new in delta.revises:
                self._remove(name, old)
                self._add(name, new)
            for event in delta.inserts:
                self._add(name, event)
        for name, until in batch.progress.items():
            if until < self.progress.get(name, NEVER):
                raise PromiseError(f"{self.who}: progress of {name} went back to {until}")
            self.progress[name] = until

    def _remove(self, name: str, event: Event) -> None:
        if self.now.pop((name, IDENTITY(event)), None) != event:
            raise PromiseError(f"{self.who}: took back {event}, which does not stand")
        self._check(name, event)

    def _add(self, name: str, event: Event) -> None:
        if self.now.setdefault((name, IDENTITY(event)), event) is not event:
            raise PromiseError(f"{self.who}: {event} stands already")
        self._check(name, event)

    def _check(self, name: str, event: Event) -> None:
        if event.ts <= self.progress.get(name, NEVER):
            raise PromiseError(f"{self.who}: change of {event}, final since {self.progress[name]}")


class Sink(SimulatedSubscriber):
    """A subscriber that takes each payload by itself: nets the early changes, and holds the final ones behind a barrier."""

    def __init__(self, simulation: Simulation, name: str, node: str, types: list[str]) -> None:
        super().__init__(simulation, name, node, types, TYPES)
        self.barrier = Barrier(types)
        self.watch = Watch(name)
        self.finals: list[Event] = []
        self.history: list[str] = []

    def _read(self, parts: Parts) -> None:
        payload = decode_payload(parts)
        if not isinstance(payload, Changes):
            super()._read(parts)
            return
        by_type: dict[str, list[Delta]] = {}
        for head, block in zip(payload.blocks, parts[1:], strict=True):
            by_type.setdefault(head.type, []).append(self._codec.decode(head, block, self.drops))
        batch = Batch({name: merged(deltas) for name, deltas in by_type.items()}, payload.progress or {})
        self.history.append(repr((batch.deltas, batch.progress)))
        self.watch.take(batch)
        self.finals += self.barrier.take(batch)
        self.link.consume(payload_size(parts))


class Source:
    """A publisher with what it is still to send: events in its order of arrival, and promises if it makes any."""

    def __init__(self, publisher: SimulatedPublisher, kind: type[Event], arrivals: list[Event], promises: bool, leaves: bool):
        self.publisher, self.kind, self.promises, self.leaves = publisher, kind, promises, leaves
        self.arrivals = arrivals
        self.sent = 0
        self.ended = False

    def step(self, rng: random.Random, most: int) -> None:
        """Publish a batch, then promise what is true; leave in the end, or end the stream."""
        if self.sent < len(self.arrivals):
            batch = self.arrivals[self.sent : self.sent + rng.randint(1, most)]
            self.sent += len(batch)
            self.publisher.publish(batch)
        elif not self.ended and self.publisher.idle:
            self.ended = True
            if self.leaves:
                self.publisher.link.bye("has said all")
            else:
                self.publisher.advance(self.kind, END)
        if self.promises and not self.publisher.waiting and self.sent < len(self.arrivals):
            self.publisher.advance(self.kind, min(event.ts for event in self.arrivals[self.sent :]) - 1)


class World:
    """One drawn application, on a drawn network unless one is given; ``run`` plays it to the end."""

    def __init__(self, seed: int, network: Faults | None = None) -> None:
        rng = self.rng = random.Random(seed)
        drawn = Faults(rng.choice([0, 0.02, 0.1]), rng.choice([0, 0.2]), MILLISECOND, rng.choice([1, 40, 80]) * MILLISECOND)
        self.simulation = Simulation(seed, network if network is not None else drawn)
        self.detectors = [cls() for cls in rng.choice(APPLICATIONS)]
        self.names = list("abc"[: rng.randint(1, 3)])
        self.hierarchies: dict[str, Hierarchy] = {}
        self.watches: dict[str, Watch] = {}
        self.nodes: list[SimulatedNode] = []
        policies = {name: a_policy(rng) for name in named(self.detectors)}
        place = {name: rng.choice(self.names) for name in named(self.detectors)}
        for node in self.names:
            here = [name for name in place if place[name] == node]
            hierarchy = self.hierarchies[node] = Hierarchy(self.detectors, here, policies)
            self.watches[node] = Watch(node)
            reads, derives, process = hierarchy.subscriptions, hierarchy.publications, self._processor(node)
            self.nodes.append(
                SimulatedNode(self.simulation, node, self.names, TYPES, reads=reads, derives=derives, process=process)
            )
        derived = sorted({type_name(t) for d in self.detectors for t in d.publishes})
        self.sinks = [Sink(self.simulation, f"sink{i}", rng.choice(self.names), derived) for i in range(rng.choice([1, 1, 2]))]
        self.sources = self._sources()
        self.burst = rng.choice([1, 4, 16])

    def _processor(self, node: str) -> Callable[[Batch], list[Batch]]:
        hierarchy, watch, rng = self.hierarchies[node], self.watches[node], self.rng

        def process(batch: Batch) -> list[Batch]:
            if rng.random() < 0.02:
                for unit in hierarchy.units:
                    unit.alpha = rng.choice([0.0, 0.5, 1.0])
            batches = hierarchy.process(batch)
            for published in batches:
                watch.take(published)
            return batches

        return process

    def _sources(self) -> list[Source]:
        rng = self.rng
        sources = []
        for number in range(rng.randint(1, 4)):
            kind = Reading if number == 0 else rng.choice([Reading, Probe])
            name = f"p{number}"
            publisher = SimulatedPublisher(self.simulation, name, rng.choice(self.names), [kind] if rng.random() < 0.8 else [])
            arrivals = a_stream(rng, kind, name)
            leaves = number > 1 and rng.random() < 0.4
            sources.append(Source(publisher, kind, arrivals, rng.random() < 0.5, leaves))
        if not any(source.kind is Probe and not source.leaves for source in sources):
            ending = SimulatedPublisher(self.simulation, "ending", rng.choice(self.names), [Probe])
            sources.append(Source(ending, Probe, [], False, False))
        return sources

    @property
    def raw(self) -> list[Event]:
        return [event for source in self.sources for event in source.arrivals]

    @property
    def quiet(self) -> bool:
        """Whether nothing is under way any more."""
        nodes = [endpoint.broker for endpoint in self.nodes]
        return all(not p.link.queued_bytes and not p.link.unacked_bytes for b in nodes for p in b.statistics().peers)

    @property
    def over(self) -> bool:
        everywhere = all(unit.final == END for h in self.hierarchies.values() for unit in h.units)
        said = all(source.ended for source in self.sources)
        return said and everywhere and all(sink.barrier.progress == END for sink in self.sinks)

    def run(self) -> None:
        """Let everyone meet, then publish, part and heal at random, until all streams have ended everywhere."""
        simulation, rng = self.simulation, self.rng
        assert simulation.run_until(lambda: all(sink.ready for sink in self.sinks), LONGEST), "the nodes never met"
        pace = rng.choice([0.1, 0.5, 1.0])
        starts = {source.publisher.name: simulation.now + rng.choice([0, 0, 3]) * SECOND for source in self.sources}
        cut_until = next_cut = 0

        def step() -> None:
            nonlocal cut_until, next_cut
            for source in self.sources:
                if simulation.now >= starts[source.publisher.name] and rng.random() < pace:
                    source.step(rng, self.burst)
            if cut_until and simulation.now >= cut_until:
                simulation.heal()
                cut_until, next_cut = 0, simulation.now + SECOND  # no peer is to seem dead
            elif not cut_until and len(self.names) > 1 and simulation.now >= next_cut and rng.random() < 0.003:
                simulation.partition(*rng.sample(self.names, 2))
                cut_until = simulation.now + rng.randint(100, 4_000) * MILLISECOND

        assert simulation.run_until(lambda: self.over, LONGEST, step), "progress never came to the end"
        simulation.heal()
        assert simulation.run_until(lambda: self.quiet, LONGEST), "something is never acknowledged"
        simulation.run(SECOND)

    def late(self) -> dict[str, set[Identity]]:
        """By detector, the raw events that are listed as late."""
        return {
            unit.name: {IDENTITY(entry.event) for entry in unit.ledger} for h in self.hierarchies.values() for unit in h.units
        }

    def check(self) -> None:
        """Hold the run to everything that Slackline promises."""
        for hierarchy in self.hierarchies.values():
            for unit in hierarchy.units:
                unit._check()
                assert all(entry.event.level == 0 for entry in unit.ledger), "a derived event was late"
                assert unit.statistics().unknown == 0, "a retraction of what never came"
        for node in self.nodes:
            assert not any(closed.role == "node" for closed in node.closed), "a node was given up"
            assert node.broker.drops.keys() <= {"duplicate", "frame of an unknown link"}
        expected = sorted([e for events in oracle(self.raw, self.detectors, self.late()).values() for e in events], key=ORDER)
        for sink in self.sinks:
            assert not sink.barrier.violations
            assert not sink.drops
            assert sink.finals == expected
            assert sorted(sink.watch.now.values(), key=ORDER) == expected, "early changes do not net out to the finals"

    def history(self) -> list[str]:
        """All that the subscribers were told, in bytes."""
        return [told for sink in self.sinks for told in sink.history]


def a_stream(rng: random.Random, kind: type[Event], source: str) -> list[Event]:
    """Events in order of arrival: late, repeated, with equal time stamps."""
    count, rate = rng.choice([5, 60, 60, 150]), rng.choice([1, 2, 5])
    disorder, share = rng.choice([0, 3, 12, 60]), rng.choice([0.05, 0.5, 1.0])
    rows = []
    for number in range(count):
        ts = number // rate
        event = kind(rng.randrange(4), rng.randrange(10), ts=ts, id=number, source=source)  # type: ignore[call-arg]
        rows.append((ts + (rng.randint(0, disorder) if rng.random() < share else 0), number, event))
    arrived = [event for _, _, event in sorted(rows)]
    for again in rng.sample(arrived, rng.choice([0, 0, 3])):
        arrived.insert(rng.randrange(len(arrived) + 1), again)
    return arrived


def troubles(world: World) -> Counter[str]:
    """How much trouble there was: so that a test can tell that it tests something."""
    counts: Counter[str] = Counter()
    for hierarchy in world.hierarchies.values():
        for record in hierarchy.statistics():
            counts += Counter(late=record.late, rollbacks=record.rollbacks, failures=record.failures, revised=record.revised)
    return counts
