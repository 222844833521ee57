"""What became of what a publisher sent: counted where it comes in, told when the publisher asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from middleware.broker.ingress.checks import LONG_SOURCE, UNCOMPARED, Ingress, Turned
from middleware.link.codec import OTHER_FIELDS, Drops, Sample, Tally

TURNED = {
    "late": "late for what was promised",
    "ahead": "too far ahead",
    "clash": "clash",
    "derived": "derived type, which only nodes send",
    "source": "source that belongs to another",
    "right": "type that this key may not publish",
}
"""Why an event was turned away: the reason under which it is counted."""

LISTED = frozenset(TURNED.values())
"""The reasons that the late ledger has."""

REPEATS = frozenset({"duplicate", "change made before"})
"""Reasons that lose nothing: what was turned away had been taken before."""

LOST = frozenset(
    {
        "unknown type",
        OTHER_FIELDS,
        "malformed event",
        "malformed block",
        "no source",
        LONG_SOURCE,
        "level of a derived event",
        "raw events of a derived type",
        "later than its block says",
        "oversized event",
    }
)
"""Reasons for which a broker leaves events out, and lists them nowhere."""

_MOST_SAMPLES = 3
"""Samples kept for each reason."""


class Account:
    """The account of one publisher, in one life of its link. Bounded: reasons are few, and so are the samples of each."""

    __slots__ = ("_sampled", "_samples", "taken", "turned")

    def __init__(self) -> None:
        self.taken = 0
        self.turned: Counter[str] = Counter()
        self._samples: list[Sample] = []
        self._sampled: Counter[str] = Counter()

    def note(self, drops: Drops, uncompared: int, turned: Iterable[Turned], samples: Iterable[Sample]) -> None:
        """Note what was dropped (``uncompared`` of the duplicates could not be compared) or turned away, and samples."""
        self.turned.update(drops)
        if uncompared:
            self.turned["duplicate"] -= uncompared
            self.turned[UNCOMPARED] += uncompared
        for each in samples:
            self._sample(each)
        for one in turned:
            reason = TURNED[one.reason]
            self.turned[reason] += 1
            if self._sampled[reason] < _MOST_SAMPLES:
                self._sample(Sample(reason, one.type, one.ts, one.id, one.source, one.told))

    def _sample(self, sample: Sample) -> None:
        if self._sampled[sample.reason] < _MOST_SAMPLES:
            self._sampled[sample.reason] += 1
            self._samples.append(sample)

    def answer(self, number: int) -> Tally:
        """What to tell the publisher."""
        return Tally(number, self.taken, dict(+self.turned), self._samples)


def tally(ingress: Ingress, drops: Drops, account: Account | None = None, turned: int = 0) -> int:
    """Count what was not admitted since the last time, in ``drops`` and in the sender's account: of what was turned away, all
    after the first ``turned``. Returns how many were not admitted, without repeats. O(1) if there is nothing.
    """
    wrong = len(ingress.turned) - turned
    if account is not None and (ingress.drops or len(ingress.turned) > turned):
        account.note(ingress.drops, ingress.uncompared, ingress.turned[turned:], ingress.samples)
    if ingress.drops:
        wrong += sum(count for reason, count in ingress.drops.items() if reason in LOST)
        drops.update(ingress.drops)
        ingress.drops.clear()
        ingress.samples.clear()
        ingress.uncompared = 0
    return wrong
