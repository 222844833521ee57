"""Keyed detectors, and random changes to push into two units that must agree."""

import random
from collections.abc import Iterator

from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.event import IDENTITY, NEVER
from tests.property.ordering.streams import Beat, Brittle, Filter, Fold, KeyedWindows, Mode, Reading


class KeyedFold(Fold):
    key = "sensor"


class KeyedMode(Mode):
    key = "sensor"


class KeyedFilter(Filter):
    key = ("sensor", "source")


class KeyedBrittle(Brittle):
    key = "sensor"


class Equals(Fold):
    """Keys of several types that are equal to each other."""

    key = staticmethod(lambda event: [0, 1, 1.0, True, "1", None, -0.0, 2**70, (1, "a"), (True, "a")][event.value])


class Picky(Brittle):
    """Some events have no key, others one that cannot be hashed."""

    @staticmethod
    def key(event):
        if event.value == 3:
            raise LookupError("no key for 3")
        return [event.sensor] if event.value == 4 else event.sensor


class OwnSnapshots(Detector):
    """Has a say in what its state is, and makes two spellings of it differ."""

    subscribes, publishes, key = (Reading,), (Beat,), "sensor"

    def __init__(self) -> None:
        self.values = [0]
        self.calls = 0

    def on_event(self, event):
        self.calls += 1
        self.values = [*self.values, event.value][-2:]
        return [Beat(event.sensor, sum(self.values), "", ts=event.ts)] if event.value % 3 else ()

    def snapshot(self):
        return tuple(self.values)

    def restore(self, state):
        self.values = list(state)
        self.calls = 0


class Atoms(Detector):
    """Shows what plain comparison of states overlooks: types, signs of zero, the order of attributes."""

    subscribes, publishes, key = (Reading,), (Beat,), "sensor"

    def __init__(self) -> None:
        self.first = 0
        self.second = 0.0

    def on_event(self, event):
        if event.value == 9:
            first = self.first
            del self.first
            self.first = first
        elif event.value > 4:
            self.second = (0.0, -0.0, 0, False)[event.value - 5]
        return Beat(event.sensor, event.value, repr(vars(self)), ts=event.ts) if event.value < 5 else None


KEYED = [KeyedFold, KeyedMode, KeyedFilter, KeyedBrittle, Equals, Picky, OwnSnapshots, Atoms, KeyedWindows]
UNKEYED = [type(f"{each.__name__}Alone", (each,), {"key": None, "__module__": __name__}) for each in KEYED]


def changes(seed: int, most: int = 80) -> Iterator[tuple[Delta, int]]:
    """Batches of inserts (late, repeated, with ties), revisions and retractions, each with a promise that they keep."""
    rng = random.Random(seed)
    ties, disorder = rng.choice([1, 1, 3]), rng.choice([0, 3, 9, 40])
    sources = rng.choice(["a", "abc"])
    queue = [
        Reading(
            rng.randrange(4),
            rng.randrange(10),
            ts=max(0, number - rng.randint(0, disorder)) // ties,
            id=number,
            source=rng.choice(sources),
        )
        for number in range(rng.randrange(1, most))
    ]
    for _ in range(rng.randrange(3)):
        queue.insert(rng.randrange(len(queue)), rng.choice(queue))
    stands: dict[tuple[str, int], Reading] = {}
    promised = NEVER
    while queue:
        size = rng.choice([1, 3, 8, 30])
        inserts, queue = [event for event in queue[:size] if event.ts > promised], queue[size:]
        delta = Delta(inserts)
        if rng.random() < 0.4:
            _disturb(rng, delta, stands, promised)
        stands.update({IDENTITY(event): event for event in inserts})
        newest = max((event.ts for event in stands.values()), default=0)
        promised = max(promised, rng.randint(-1, 1 + newest // 2), newest - 60)
        yield delta, promised


def _disturb(rng: random.Random, delta: Delta, stands: dict, promised: int) -> None:
    """Withdraw or revise some of what stands; now and then also what was never there."""
    open_ones = [identity for identity in sorted(stands) if stands[identity].ts > promised]
    for identity in rng.sample(open_ones, min(rng.randrange(5), len(open_ones))):
        old = stands.pop(identity)
        new = Reading(
            rng.choice([old.sensor, rng.randrange(4)]),
            rng.randrange(10),
            ts=max(promised + 1, old.ts + rng.randint(-3, 3)),
            id=old.id,
            source=old.source,
        )
        if rng.random() < 0.5:
            delta.retracts.append(old)
        elif new != old:
            stands[identity] = new
            delta.revises.append((old, new))
    if rng.random() < 0.1:
        delta.retracts.append(Reading(rng.randrange(6), 1, ts=promised + 2, id=10_000, source="stranger"))
