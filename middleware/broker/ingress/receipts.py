"""Accounts of publishers: how many of its events a node took and rejected, which a publisher gets when it asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from middleware.broker.ingress.checks import LONG_SOURCE, UNCOMPARED, Ingress, RejectedEvent
from middleware.link.codec import OTHER_FIELDS, Drops, Sample, Tally

REJECTIONS = {
    "late": "late for what was promised",
    "ahead": "too far ahead",
    "clash": "clash",
    "derived": "derived type, which only nodes send",
    "source": "source that belongs to another",
    "right": "type that this key may not publish",
}
"""By ``RejectedEvent.reason``, the reason under which rejected events are counted."""

REPORTED = frozenset(REJECTIONS.values())
"""The reasons that the late ledger has."""

REPEATS = frozenset({"duplicate", "change made before"})
"""Reasons that lose nothing: the rejected change had been taken before."""

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
"""Reasons for which a broker skips events, without a report in the late ledger."""

_MOST_SAMPLES = 3
"""Samples kept for each reason."""


class Account:
    """The account of one publisher, in one life of its link. Bounded: reasons are few, and so are the samples of each."""

    __slots__ = ("_sampled", "_samples", "rejected", "taken")

    def __init__(self) -> None:
        self.taken = 0
        self.rejected: Counter[str] = Counter()
        self._samples: list[Sample] = []
        self._sampled: Counter[str] = Counter()

    def note(self, drops: Drops, uncompared: int, rejected: Iterable[RejectedEvent], samples: Iterable[Sample]) -> None:
        """Note dropped (``uncompared`` of the duplicates could not be compared) and rejected events, and samples."""
        self.rejected.update(drops)
        if uncompared:
            self.rejected["duplicate"] -= uncompared
            self.rejected[UNCOMPARED] += uncompared
        for each in samples:
            self._sample(each)
        for one in rejected:
            reason = REJECTIONS[one.reason]
            self.rejected[reason] += 1
            if self._sampled[reason] < _MOST_SAMPLES:
                self._sample(Sample(reason, one.type, one.ts, one.id, one.source, one.details))

    def _sample(self, sample: Sample) -> None:
        if self._sampled[sample.reason] < _MOST_SAMPLES:
            self._sampled[sample.reason] += 1
            self._samples.append(sample)

    def answer(self, number: int) -> Tally:
        """The answer to the publisher's question of this number."""
        return Tally(number, self.taken, dict(+self.rejected), self._samples)


def tally(ingress: Ingress, drops: Drops, account: Account | None = None, rejected: int = 0) -> int:
    """Count what was not admitted since the last time, in ``drops`` and in the sender's account: of the rejections, all
    after the first ``rejected``. Returns how many were not admitted, without repeats. O(1) if there is nothing.
    """
    wrong = len(ingress.rejected) - rejected
    if account is not None and (ingress.drops or len(ingress.rejected) > rejected):
        account.note(ingress.drops, ingress.uncompared, ingress.rejected[rejected:], ingress.samples)
    if ingress.drops:
        wrong += sum(count for reason, count in ingress.drops.items() if reason in LOST)
        drops.update(ingress.drops)
        ingress.drops.clear()
        ingress.samples.clear()
        ingress.uncompared = 0
    return wrong
