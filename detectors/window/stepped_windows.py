"""``Windows`` in step with each other, over plain numbers, in the native core: the fast alternative to ``running``."""

from __future__ import annotations

from typing import Any

from detectors.operator_columns import joined
from detectors.outcomes import withheld
from detectors.window.aggregation.aggregates import Aggregate
from detectors.window.aggregation.monoids import SAMPLE_STDDEV, SAMPLE_VARIANCE, STDDEV, VARIANCE
from detectors.window.aggregation.ranks import MEDIAN
from detectors.window.kinds import Hopping
from detectors.window.steps import Column, SteppedOperation, Steps, is_in_step
from detectors.window.windows_plan import WindowsPlan
from middleware.model.change import Delta
from middleware.model.event import END, EventType
from middleware.model.schema import fields_of, is_optional

_SPREADS = (VARIANCE, STDDEV, SAMPLE_VARIANCE, SAMPLE_STDDEV)
_KNOWN = ("count", "sum", "mean", "min", "max", "range", "median", *(each.name for each in _SPREADS))


def can_run(plan: WindowsPlan) -> bool:
    """Whether the native core can run these windows."""
    if not isinstance(plan.over, Hopping) or not is_in_step(plan.over):
        return False
    return all(
        (aggregate.monoid.native is not None or aggregate.monoid is MEDIAN)
        and aggregate.monoid.name in _KNOWN
        and (aggregate.field is None if aggregate.monoid.name == "count" else isinstance(aggregate.field, str))
        for aggregate in plan.aggregates.values()
    )


def _column(aggregate: Aggregate) -> Column | None:
    if not isinstance(aggregate.field, str):
        return None
    return aggregate.field, aggregate.monoid.native is None or aggregate.monoid.native[1] == "float"


def _are_there(plan: WindowsPlan, steps: Steps) -> bool:
    """Whether no value of a result is missing that must be there."""
    shown = fields_of(plan.result)
    if all(is_optional(shown[field]) for field in plan.aggregates):
        return True
    return not any(is_optional(fields_of(each)[field]) for each in plan.subscribes for field, _ in steps.columns)


class SteppedWindows(SteppedOperation):
    """Runs ``Windows`` for which ``can_run``."""

    def __init__(self, plan: WindowsPlan, name: str, level: int) -> None:
        assert isinstance(plan.over, Hopping)
        aggregates = [(aggregate.monoid.name, _column(aggregate)) for aggregate in plan.aggregates.values()]
        keys, at_once = list(plan.key_fields), plan.emit == "change"
        steps = Steps(plan.over, keys, aggregates, plan.layout(), plan.shown, at_once)
        super().__init__(steps, name, level, plan.result, plan.result, _are_there(plan, steps))
        self._plan = plan

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        upto = {"close": emitted, "final": final, "change": END}[self._plan.emit]
        inserted, old, new, withdrawn, is_beyond, made = self._step(delta, upto, final)
        events = self._plan.events
        revised = list(zip(events(old), events(new), strict=True)) if old else []
        gone = events(withdrawn) if withdrawn else []
        columns = self._columns_of(made)
        if columns is not None and not inserted and not is_beyond:
            return Delta(columns, revised, gone)
        out = Delta(joined(columns, events(inserted)), revised, gone)
        return withheld(self, out, self._plan.wrong) if is_beyond or self._plan.has_misfits else out

    def _takes(self, event_type: EventType) -> bool:
        """Besides, results must take the keys of these columns, whichever they are."""
        own, shown = fields_of(event_type), fields_of(self._plan.result)
        return super()._takes(event_type) and all(shown[field] in (own[field], Any) for field in self._steps.key)
