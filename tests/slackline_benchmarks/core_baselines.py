"""What Slackline is measured against in its own language: parts of the core that a checkout has, and a wheel has not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from detectors.window.aggregation.monoid import Monoid
from middleware import native
from middleware.model.errors import SlacklineError
from middleware.model.event import Event

if TYPE_CHECKING:
    from middleware.native._core import Baseline, SequenceSpecification

_MISSING = "the core of this installation has no baselines: run the benchmark in a checkout, after 'make env'"


def baseline(kind: str, monoid: Monoid, **options: Any) -> Baseline:
    """An aggregator of windows that FiBA is measured against: its name is one of those in ``window_figures``."""
    try:
        from middleware.native._core import Baseline
    except ImportError:
        raise SlacklineError(_MISSING) from None
    return Baseline(kind, monoid, **options)


def matcher_in_order(plan: SequenceSpecification, fail: Callable[[Event, str], None]) -> native.SequenceMatcher:
    """A matcher of sequences that ignores disorder."""
    if not hasattr(native.SequenceMatcher, "in_order"):
        raise SlacklineError(_MISSING)
    return native.SequenceMatcher.in_order(plan, fail)
