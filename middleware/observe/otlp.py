"""A node's metrics pushed to a collector by OpenTelemetry's protocol (OTLP over HTTP). Needs the extra ``otlp``.

It pushes the families of ``/metrics`` under their names, so that one dashboard serves for both. A thread of its own asks
the node and pushes: a collector that is away or slow costs the node nothing, and is logged once. Every push has all counts
since the node's start, so one that failed is not tried again: the next one makes up for it.

The further needs of a collector (headers, certificates, compression) are taken from the environment, in OpenTelemetry's own
``OTEL_EXPORTER_OTLP_...`` variables, and further attributes of the node from ``OTEL_RESOURCE_ATTRIBUTES``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from types import TracebackType
from typing import Any, Protocol, Self

import requests
import structlog
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import ProcessCollector
from prometheus_client.core import Metric as Family

from middleware import __version__
from middleware.model.words import redacted
from middleware.observe.metrics import families
from middleware.runtime.status import Status

PERIOD = 15.0
"""Seconds between two pushes."""

LIMIT = 5.0
"""Seconds that a collector has to take a connection, and to answer."""

_PATIENCE = 2.0
_PATH = "/v1/metrics"
_UNITS = {"seconds": "s", "bytes": "By", "ratio": "1"}

_log = structlog.get_logger()


class StatusSource(Protocol):
    """A node that gives its status to any thread."""

    def status(self, patience: float) -> Status | None:
        """The status of the node."""
        ...


class Pusher:
    """Pushes a node's metrics to ``collector`` (http://HOST:PORT) from now until it is closed, and then once more.

    ``period``: see PERIOD; ``limit``: see LIMIT.
    """

    def __init__(self, collector: str, node: StatusSource, period: float = PERIOD, limit: float = LIMIT) -> None:
        self._address = collector.rstrip("/") + _PATH
        self._node, self._period, self._limit = node, period, limit
        self._session = _Session()
        self._session.headers["Connection"] = "close"  # until the next push it would only be in the way, or die
        self._exporter = OTLPMetricExporter(self._address, timeout=limit, session=self._session)
        logging.getLogger(OTLPMetricExporter.__module__).disabled = True  # it would log every push that fails
        self._process = ProcessCollector(registry=None)
        self._succeeds: bool | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Push what the node knew at its end, unless the collector is away. If that takes too long, it is dropped."""
        self._over.set()
        self._thread.join(_PATIENCE + self._limit)
        if self._thread.is_alive():
            _log.warning("the last metrics were not pushed: the collector is too slow", collector=redacted(self._address))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _run(self) -> None:
        self._push()
        while not self._over.wait(self._period):
            self._push()
        if self._succeeds is not False:
            self._push()
        self._exporter.shutdown()

    def _push(self) -> None:
        status = self._node.status(_PATIENCE)
        if status is None:
            return
        self._session.failure = "the metrics could not be encoded"
        data = metrics_data(status, chain(families(status), self._process.collect()))
        before, self._succeeds = self._succeeds, self._exporter.export(data) is MetricExportResult.SUCCESS
        if self._succeeds is before:
            return
        if self._succeeds:
            _log.info("metrics are pushed", node=status.node, collector=redacted(self._address))
        else:
            why = redacted(self._session.failure, self._address)
            _log.warning("metrics cannot be pushed for now", node=status.node, collector=redacted(self._address), why=why)


class _Session(requests.Session):
    """Says why a request has failed. The exporter takes redirections for success, and would try again what the next push
    has anyway: so both are errors here that it does not know."""

    failure = ""

    def request(self, *args: Any, **options: Any) -> requests.Response:
        try:
            response = super().request(*args, **options)
        except requests.RequestException as error:
            self.failure = str(error)
            raise RuntimeError(self.failure) from None
        if not 200 <= response.status_code < 300:
            self.failure = f"it answers {response.status_code} {response.reason}"
            raise RuntimeError(self.failure)
        return response


def metrics_data(status: Status, all_of_them: Iterable[Family]) -> MetricsData:
    """Families of metrics as OpenTelemetry has them, of the node that made ``status``. O(samples).

    Names and labels stay as Prometheus has them; units are taken from the names.
    """
    now = time.time_ns()
    metrics = [_metric(family, status.vitals.started, now) for family in all_of_them if family.samples]
    scope = ScopeMetrics(InstrumentationScope("slackline", __version__), metrics, "")
    about = {"service.name": "slackline", "service.version": __version__, "service.instance.id": status.node}
    return MetricsData([ResourceMetrics(Resource.create(about), [scope], "")])


def _metric(family: Family, start: int, now: int) -> Metric:
    cumulative = AggregationTemporality.CUMULATIVE
    name = family.name if family.type == "histogram" else family.samples[0].name  # a counter's family has no _total
    data: Histogram | Sum | Gauge
    if family.type == "histogram":
        data = Histogram(list(_distributions(family, start, now)), cumulative)
    else:
        points = [NumberDataPoint(sample.labels, start, now, float(sample.value)) for sample in family.samples]
        data = Sum(points, cumulative, is_monotonic=True) if family.type == "counter" else Gauge(points)
    unit = _UNITS.get(name.removesuffix("_total").rpartition("_")[2], "")
    return Metric(name, family.documentation, unit, data)


def _distributions(family: Family, start: int, now: int) -> Iterator[HistogramDataPoint]:
    """Prometheus' buckets hold all up to their bounds, OpenTelemetry's what lies between two bounds."""
    buckets, sums = defaultdict(list), {}
    for sample in family.samples:
        labels = dict(sample.labels)
        bound, series = labels.pop("le", None), tuple(labels.items())
        if bound is not None:
            buckets[series].append((float(bound), int(sample.value)))
        elif sample.name.endswith("_sum"):
            sums[series] = float(sample.value)
    for series, pairs in buckets.items():
        bounds, totals = zip(*pairs, strict=True)
        counts = [after - before for before, after in pairwise((0, *totals))]
        unknown: Any = None  # the least and the largest one
        labels = dict(series)
        yield HistogramDataPoint(labels, start, now, totals[-1], sums[series], counts, bounds[:-1], unknown, unknown)
