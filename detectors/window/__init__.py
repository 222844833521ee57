"""Sliding windows over events that arrive out of order: the aggregator ``Fiba``, monoids, and windows as operators."""

from detectors.window.aggregation.aggregates import Aggregate
from detectors.window.aggregation.fiba import Aggregator, Fiba
from detectors.window.aggregation.monoid import Group, Monoid
from detectors.window.aggregation.monoids import (
    ARGMAX,
    ARGMIN,
    BUILT_IN,
    CONCAT,
    COUNT,
    FIRST,
    GEOMEAN,
    LAST,
    MAX,
    MAXCOUNT,
    MEAN,
    MIN,
    RANGE,
    SAMPLE_STDDEV,
    SAMPLE_VARIANCE,
    STDDEV,
    SUM,
    VARIANCE,
)
from detectors.window.aggregation.ranks import MEDIAN, exact_quantile
from detectors.window.aggregation.sketches import BLOOM, DISTINCT, Filter, quantile
from detectors.window.kinds import Counted, Hopping, Landmark, Session, Sliding, Tumbling, WindowKind
from detectors.window.sharing import SharedWindows
from detectors.window.windows import Windows

__all__ = [
    "ARGMAX",
    "ARGMIN",
    "BLOOM",
    "BUILT_IN",
    "CONCAT",
    "COUNT",
    "DISTINCT",
    "FIRST",
    "GEOMEAN",
    "LAST",
    "MAX",
    "MAXCOUNT",
    "MEAN",
    "MEDIAN",
    "MIN",
    "RANGE",
    "SAMPLE_STDDEV",
    "SAMPLE_VARIANCE",
    "STDDEV",
    "SUM",
    "VARIANCE",
    "Aggregate",
    "Aggregator",
    "Counted",
    "Fiba",
    "Filter",
    "Group",
    "Hopping",
    "Landmark",
    "Monoid",
    "Session",
    "SharedWindows",
    "Sliding",
    "Tumbling",
    "WindowKind",
    "Windows",
    "exact_quantile",
    "quantile",
]
