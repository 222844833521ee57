"""The form of a scenario's file: its tables and keys with their defaults, and the policies that they mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import msgspec

from middleware.broker.ingress.sources import SourcePolicy
from middleware.model.errors import ScenarioError, SlacklineError
from middleware.model.quantities import parse_duration
from middleware.ordering.hierarchy import Adaptation
from middleware.ordering.lanes.retraction import Retraction
from middleware.ordering.policies import BUFFERING, Policies
from middleware.ordering.slack.kslack import FixedSlack, Lateness, MaxSlack, QuantileSlack, SlackPolicy
from middleware.ordering.slack.robust import RobustSlack
from middleware.runtime.endpoints import InputPlan, OutputPlan

ADAPTATIONS = (Adaptation.GAIN, Adaptation.EACH, Adaptation.WEIGHTED)
"""The ways to steer alpha that a file may name."""


class RecordingPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The recording to feed. Either ``generate`` (a function that makes it up) or ``files`` with a ``reader`` (or ``mapping``).

    ``delay``, ``delay_for``, ``duplicates``
        how arrival times are drawn; without these, the measured ones count.
    ``delay_like``
        name or folder of another scenario: delays are sampled from the arrival times measured in its recording.
    ``speed``
        how fast it is fed: 1x (as recorded), 20x, max.
    ``to``
        the node to feed (default: the first).
    """

    generate: str | None = None
    seconds: float = 30.0
    seed: int = 0
    files: tuple[str, ...] = ()
    reader: str | None = None
    mapping: str | None = None
    delay: str | None = None
    delay_for: dict[str, str] = {}
    delay_like: str | None = None
    duplicates: float = 0.0
    speed: str = "1x"
    to: str | None = None


class PolicyPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How units behave; see ``Policies``.

    ``alpha``
        "gain" (one budget, spent where it lowers the latency of subscribed results, as far as the node keeps up), "adaptive"
        (each unit by Algorithm 3 of the paper), "weighted" (that budget, controlled by Algorithm 3), a fixed number from 0
        (full speculation) to 1 (events wait for K), or "buffering": events wait for ``lateness`` or the slack if that is more,
        and no result is ever corrected; it takes ``failing = "stop"``.
    ``slack``
        "robust": learnt from events in time, never from one source alone; "max": as in the paper; a quantile such as
        "99.9%"; or a fixed duration.
    ``most``
        upper bound of K, except for "max" and a fixed one.
    ``spacing``
        events between snapshots, or "auto": the cheapest number, by measurement.
    ``lateness``
        the least time for which results may change; twice the slack if that is more.
    """

    alpha: str | float = "gain"
    slack: str = "robust"
    most: str = "10min"
    lateness: str = "1s"
    retraction: Retraction = Retraction.ON_DEMAND
    spacing: int | Literal["auto"] = "auto"
    late: str = "ledger"
    failing: str = "skip"

    def policies(self, alpha: float | None = None) -> Policies:
        """The policies described here; ``alpha`` overrides."""
        start = alpha if alpha is not None else 1.0 if self.alpha in ADAPTATIONS else self._alpha()
        floor = parse_duration(self.lateness)
        lateness = Lateness(1.0, floor) if start == BUFFERING else Lateness(floor=floor)
        slack = _slack(self.slack, lateness, parse_duration(self.most))
        spacing = None if self.spacing == "auto" else self.spacing
        return Policies(start, slack, lateness, self.retraction, spacing, self.late, self.failing)

    def _alpha(self) -> float | Literal["buffering"]:
        if self.alpha == BUFFERING:
            return BUFFERING
        if isinstance(self.alpha, str):
            kinds = 'alpha is "gain", "adaptive", "weighted", "buffering" or a number from 0 to 1'
            raise ScenarioError(f"{kinds}, not {self.alpha!r}")
        return self.alpha


class SourcesPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How far publishers are trusted with time; see ``middleware.broker.ingress.sources``.

    ``idle``
        after this long a silence, a publisher no longer holds the others back.
    ``ahead``
        events further than this beyond the wall clock are rejected; events at most this old are live.
    ``hold``
        sources wait so long for a reader that asked for it (``on_slow="block"``) and takes nothing, then no longer.
    """

    idle: str = "10s"
    ahead: str = "60min"
    hold: str = "60s"

    def policy(self) -> SourcePolicy:
        """The policy described here."""
        return SourcePolicy(parse_duration(self.idle), parse_duration(self.ahead), parse_duration(self.hold))


class MetricsPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where nodes serve metrics and health, and where they push metrics; see ``middleware.observe``.

    ``address``
        HOST:PORT of the first node in the file; the second one has the next port, and so on, so that one file works for one
        machine and for many. None: nothing is served.
    ``otlp``
        URL of the collector that all nodes push to. None: nothing is pushed.
    """

    address: str | None = None
    otlp: str | None = None

    def of(self, number: int) -> str | None:
        """The address of the node with this number, from 0. Raises ScenarioError."""
        if self.address is None:
            return None
        host, _, port = self.address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) + number < 65_536:
            raise ScenarioError(f"address {self.address!r}: write HOST:PORT, such as 127.0.0.1:9464")
        return f"{host}:{int(port) + number}"

    def collector(self) -> str | None:
        """``otlp``, if it is one. Raises ScenarioError."""
        if self.otlp is not None and not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s?#]*)?", self.otlp):
            raise ScenarioError(f"otlp {self.otlp!r}: write http://HOST:PORT, such as http://127.0.0.1:4318")
        return self.otlp


class LogPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How nodes log: lines for people, or one JSON object per line."""

    format: Literal["text", "json"] = "text"


class NodePlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A node: its address (port ``*``: any free one on this machine), and its detectors (``*``: all that are left).

    ``bind``
        where it listens, if others reach it at another address: tcp://0.0.0.0:PORT, behind address translation.
    ``durability``
        "disk": acknowledged events survive a crash. "memory": they do not. Default: disk for the node that is fed.
    """

    name: str
    address: str = "tcp://127.0.0.1:*"
    bind: str | None = None
    detectors: tuple[str, ...] = ()
    durability: Literal["disk", "memory"] | None = None


class EvaluationPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The results that ``slackline evaluate`` reports in more detail.

    ``latency``, ``corrections``
        the detectors whose latency, and whose corrected results, are shown separately.
    ``scorer``
        module:function that returns the ``scores`` (F1, or None) by name; called with the final results by detector name,
        and the recording's seed and seconds.
    ``types``
        module:function that returns the number of event types, counted as in the paper: per player, team and ball.
    """

    latency: str | None = None
    corrections: str | None = None
    scorer: str | None = None
    scores: tuple[str, ...] = ()
    types: str | None = None


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file.

    ``detectors``
        a function that returns them, or a list of classes, operators, and functions that each make one, as module:name;
        ``settings`` are the arguments of the function, or of the listed ones by name.
    ``results``
        the event types that people wait for: shown live, their latency summarised.
    ``view``
        module:function that returns the scenario's own part of the live page (``middleware.observe.view.scene``).
    ``recording``
        the recording that ``run`` feeds; a mesh with live events only needs none.
    ``inputs``, ``outputs``
        servers beside the mesh that events come from and results go to; ``slackline connect`` serves them.
    """

    name: str
    about: str = ""
    detectors: str | tuple[str, ...]
    settings: dict[str, Any] = {}
    results: tuple[str, ...] = ()
    view: str | None = None
    recording: RecordingPlan = RecordingPlan()
    policies: PolicyPlan = PolicyPlan()
    policies_for: dict[str, PolicyPlan] = {}
    evaluation: EvaluationPlan = EvaluationPlan()
    sources: SourcesPlan = SourcesPlan()
    metrics: MetricsPlan = MetricsPlan()
    log: LogPlan = LogPlan()
    inputs: tuple[InputPlan, ...] = ()
    outputs: tuple[OutputPlan, ...] = ()
    nodes: tuple[NodePlan, ...]


def _slack(text: str, lateness: Lateness, most: int) -> Callable[[], SlackPolicy]:
    try:
        if text == "max":
            slack: Callable[[], SlackPolicy] = MaxSlack
        elif text == "robust":
            slack = partial(RobustSlack, lateness, most)
        elif text.endswith("%"):
            slack = partial(QuantileSlack, float(text[:-1]) / 100, most=most)
        else:
            slack = partial(FixedSlack, parse_duration(text))
        slack()
    except (ValueError, SlacklineError) as error:
        raise ScenarioError(
            f'slack is "robust", "max", a quantile such as "99.9%" or a duration such as "50ms", not {text!r}: {error}'
        ) from None
    return slack
