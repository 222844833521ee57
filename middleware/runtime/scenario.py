"""Scenarios: a folder with a TOML file that names the recording, the detectors and their nodes, and how they behave."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

import msgspec

from middleware.installation import ROOT
from middleware.link.frames import misnamed
from middleware.model.detector import Detector
from middleware.model.errors import ScenarioError, SlacklineError
from middleware.model.event import EventTypes, stable_hash
from middleware.model.identity import levels, named
from middleware.model.operator import LineSource, Operator
from middleware.model.words import listed, redacted
from middleware.ordering.hierarchy import Adaptation
from middleware.ordering.policies import Policies
from middleware.runtime.plan import ADAPTATIONS, NodePlan, Plan, RecordingPlan
from middleware.runtime.usercode import called, import_user_module, load_object

FILE = "nodes.toml"
"""The name of a scenario's file in its folder."""

_SOURCES = (".py", ".toml", ".cql", ".sase")
"""The ends of files that are a scenario's own, wherever they are named."""

STATE = "SLACKLINE_STATE"
"""Environment variable: the folder in which nodes keep their state, with one folder per scenario."""

DATA = "SLACKLINE_DATA"
"""Environment variable: the folder with real recordings."""


class Scenario:
    """A scenario that was read and checked.

    ``detectors``
        all of them by name.
    ``placement``
        the names of the detectors that each node runs.
    ``sources``
        the lines that each node reads for its operators; each is read by the first node with an operator that wants it.
    ``types``
        every event type that occurs in it.
    """

    def __init__(self, plan: Plan, file: Path) -> None:
        self.plan = plan
        self.file = file
        self.folder = file.parent
        _check_names(plan)
        self.detectors = _detectors(plan, self.folder)
        self.levels = levels(self.detectors)
        self.placement = _placement(plan, self.detectors)
        self.sources = _sources(self.placement, self.detectors)
        self.types = EventTypes()
        for detector in self.detectors.values():
            for event_type in (*detector.subscribes, *detector.publishes):
                self.types.add(event_type)
        self._check()

    @property
    def settings(self) -> dict[str, dict[str, str]]:
        """The arguments of each detector by name, as text; operators made of data state them themselves."""
        plan, everything = self.plan, self.detectors
        if isinstance(plan.detectors, str):
            given = [plan.settings] * len(everything)  # those of the function that makes all of them
        else:
            given = [plan.settings.get(name, {}) for name in _class_names(plan.detectors)]
        text = [{key: repr(value) for key, value in sorted(each.items())} for each in given]
        return {
            name: own
            for (name, detector), own in zip(everything.items(), text, strict=True)
            if not isinstance(detector, Operator)
        }

    @property
    def entry(self) -> str:
        """The node that the recording is fed to."""
        return self.plan.recording.to or self.plan.nodes[0].name

    @property
    def is_recorded(self) -> bool:
        """Whether it has a recording to run."""
        return self.plan.recording.generate is not None or bool(self.plan.recording.files)

    def is_durable(self, name: str) -> bool:
        """Whether a node keeps a log on disk."""
        node = next(node for node in self.plan.nodes if node.name == name)
        return node.durability == "disk" or (node.durability is None and name == self.entry)

    def metrics_address(self, name: str) -> str | None:
        """Where a node serves metrics; None: it does not."""
        return self.plan.metrics.of([node.name for node in self.plan.nodes].index(name))

    @property
    def derived(self) -> list[str]:
        """Names of all event types that detectors publish."""
        own = {t for detector in self.detectors.values() for t in detector.publishes}
        return sorted(name for name, event_type in self.types.items() if event_type in own)

    @property
    def adaptation(self) -> Adaptation:
        """How alpha is steered at run time."""
        alpha = self.plan.policies.alpha
        return Adaptation(alpha) if isinstance(alpha, str) and alpha in ADAPTATIONS else Adaptation.NONE

    def policies(self, alpha: float | None = None) -> dict[str, Policies]:
        """Policies by detector name, "" for all others; ``alpha`` overrides what the file says."""
        each = {name: plan.policies(alpha) for name, plan in self.plan.policies_for.items()}
        return {**each, "": self.plan.policies.policies(alpha)}

    def lasting(self, seconds: float | None, seed: int | None) -> Scenario:
        """Return the scenario with a generated recording of another length or seed."""
        recording = self.plan.recording
        if (seconds is not None or seed is not None) and recording.generate is None:
            raise ScenarioError(f"{self.file}: its recording is not generated: it has the length and the events that it has")
        changed = msgspec.structs.replace(
            recording,
            seconds=recording.seconds if seconds is None else seconds,
            seed=recording.seed if seed is None else seed,
        )
        return Scenario(msgspec.structs.replace(self.plan, recording=changed), self.file)

    def with_workers(self, workers: int) -> Scenario:
        """Return the scenario with its parts on this many nodes; ``settings.workers`` passes this number to the detectors.

        The node with the parts ``.0`` is the pattern; a single worker runs everything. Raises ScenarioError if there are no
        parts.
        """
        plan, first = self.plan, next((n for n in self.plan.nodes if any(d.endswith(".0") for d in n.detectors)), None)
        if "workers" not in plan.settings or first is None:
            raise ScenarioError(
                f"{self.file}: its detectors do not run in parts: no settings.workers, and no node with parts (.0)"
            )
        if workers < 1:
            raise ScenarioError(f"workers={workers}: give at least 1")
        kept = [n for n in plan.nodes if not any(d.rpartition(".")[2].isdigit() for d in n.detectors)]
        names = [d.rpartition(".")[0] if d.endswith(".0") else d for d in first.detectors]
        nodes = [
            NodePlan(name=f"{first.name.removesuffix('0')}{part}", detectors=tuple(f"{name}.{part}" for name in names))
            for part in range(workers)
        ]
        recording = plan.recording
        if workers == 1:
            kept, nodes = [], [NodePlan(name=first.name, detectors=("*",))]
            recording = msgspec.structs.replace(recording, to=first.name)
        settings = {**plan.settings, "workers": workers}
        changed = msgspec.structs.replace(plan, settings=settings, nodes=(*kept, *nodes), recording=recording)
        return Scenario(changed, self.file)

    def source_version(self) -> int:
        """A number that changes with the code that generates the recording; 0 for recorded ones."""
        if self.plan.recording.generate is None:
            return 0
        module = import_user_module(self.plan.recording.generate.partition(":")[0])
        file = Path(module.__file__ or "")
        files = sorted(file.parent.glob("*.py")) if file.name == "__init__.py" else [file]
        return stable_hash("".join(each.read_text(encoding="utf-8") for each in files))

    def files(self) -> list[Path]:
        """The recording's files: beside the scenario, or in the data folder. Raises ScenarioError if one is missing."""
        return [find_file(self.folder, file) for file in self.plan.recording.files]

    @property
    def own_files(self) -> list[Path]:
        """The files that it consists of, as far as they are there: its own, code and queries beside it, and recordings."""
        beside = [each for kind in _SOURCES for each in self.folder.glob(f"*{kind}")]
        named = [*self.plan.recording.files, *filter(None, [self.plan.recording.mapping])]
        return [self.file, *beside, *(folder / each for folder in _file_folders(self.folder) for each in named)]

    def _check(self) -> None:
        plan = self.plan
        names = [node.name for node in plan.nodes]
        for key, each in ("nodes", plan.nodes), ("inputs", plan.inputs), ("outputs", plan.outputs):
            if wrong := next(filter(None, (misnamed(one.name) for one in each)), None):
                raise ScenarioError(f"{key}: {wrong}")
        if len(set(names)) < len(names):
            raise ScenarioError(f"nodes: two are named {max(names, key=names.count)!r}")
        check_addresses({node.name: node.address for node in plan.nodes})
        if self.entry not in names:
            raise ScenarioError(f"recording.to: there is no node {self.entry!r}; there are {', '.join(names)}")
        if stray := sorted(plan.policies_for.keys() - self.detectors.keys()):
            there = listed(sorted(self.detectors))
            raise ScenarioError(f"policies_for.{stray[0]}: there is no such detector; there are {there}")
        if unknown := sorted(set(plan.results) - set(self.derived)):
            raise ScenarioError(f"results: nobody publishes {unknown[0]}; what is published: {listed(self.derived)}")
        focus = {plan.evaluation.latency, plan.evaluation.corrections} - {None, *self.detectors}
        if focus:
            raise ScenarioError(f"evaluation: there is no detector {focus.pop()!r}; there are {listed(sorted(self.detectors))}")
        self._check_ends(names)
        recording = plan.recording
        has_none = msgspec.structs.replace(recording, to=None) == RecordingPlan()
        if not has_none and (recording.generate is None) == (not recording.files):
            raise ScenarioError("recording: give either generate (a function) or files (with a reader or a mapping)")
        if recording.delay_like is not None and recording.delay is not None:
            raise ScenarioError("recording: give either delay (a model) or delay_like (another scenario)")
        behaviour: dict[str, Callable[[], object]] = {"policies": plan.policies.policies, "sources": plan.sources.policy}
        behaviour["metrics"] = lambda: (plan.metrics.of(len(plan.nodes) - 1), plan.metrics.collector())
        behaviour |= {f"policies_for.{name}": own.policies for name, own in plan.policies_for.items()}
        for key, make in behaviour.items():
            try:
                make()
            except (SlacklineError, ValueError) as error:
                raise ScenarioError(f"{key}: {error}") from None

    def _check_ends(self, nodes: Collection[str]) -> None:
        """Check what the inputs and outputs name."""
        inputs = [(f"inputs.{each.name}", each.to, list(each.types.values())) for each in self.plan.inputs]
        outputs = [(f"outputs.{each.name}", each.node, list(each.types)) for each in self.plan.outputs]
        ends = [*inputs, *outputs]
        for key, node, patterns in ends:
            if sum(each[0] == key for each in ends) > 1:
                raise ScenarioError(f"{key}: two have this name")
            if node is not None and node not in nodes:
                raise ScenarioError(f"{key}: there is no node {node!r}; there are {', '.join(nodes)}")
            if stray := next((each for each in patterns if "*" not in each and each not in self.types), None):
                raise ScenarioError(f"{key}: there is no event type {stray!r}; there are {listed(sorted(self.types))}")


def load_scenario(where: str | Path) -> Scenario:
    """The scenario at ``where``: a folder, a file, or the name of one under ``scenarios/``. Raises ScenarioError."""
    path = _scenario_file(where)
    try:
        plan = msgspec.toml.decode(path.read_bytes(), type=Plan)
    except OSError as error:
        raise ScenarioError(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.ValidationError as error:
        what, _, at = str(error).partition(" - at `$")
        raise ScenarioError(f"{path}: {at.strip('`.') or 'top level'}: {what}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if path.suffix.lower() != ".toml":
            raise ScenarioError(
                f"{path} is no scenario: if it is a recording, write a nodes.toml that names it (docs/guide/recordings.md) and "
                "give that, or make a trace of it with 'slackline trace prepare' and give the trace's folder"
            ) from None
        if not isinstance(error, UnicodeDecodeError):
            raise ScenarioError(f"{path} is no TOML: {error}") from None
        raise ScenarioError(f"{path} is no TOML: it is not UTF-8, from byte {error.start} on; save it as UTF-8") from None
    try:
        return Scenario(plan, path)
    except SlacklineError as error:
        raise ScenarioError(f"{path}: {error}") from None


def state_folder(scenario: Scenario) -> Path:
    """The folder where nodes of a scenario keep their logs and checkpoints by default.

    It is beside the scenario's file, wherever a node is started; but in the working folder if the scenario came with
    Slackline, or if its own folder cannot be written.
    """
    if STATE in os.environ:
        return Path(os.environ[STATE]) / scenario.plan.name
    is_own = not scenario.folder.is_relative_to((ROOT / "scenarios").resolve())
    beside = is_own and os.access(scenario.folder, os.W_OK)
    return (scenario.folder if beside else Path.cwd()) / ".slackline" / scenario.plan.name


def changed_plan(where: str | Path, file: Path) -> Scenario:
    """The scenario at ``where`` with another plan: the one in ``file``, as JSON. Raises ScenarioError."""
    try:
        plan = msgspec.json.decode(file.read_bytes(), type=Plan)
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise ScenarioError(f"{file} is no plan: {error}") from None
    return Scenario(plan, _scenario_file(where))


def takes_any_port(address: str) -> bool:
    """Whether a node with this address listens at any free port: only itself knows which."""
    return address.rpartition(":")[2] in ("*", "0")


def check_addresses(addresses: Mapping[str, str]) -> None:
    """Raise ScenarioError if two nodes have the same address; port ``*`` is any free one."""
    taken: dict[str, str] = {}
    for name, address in addresses.items():
        normalized = address.strip().lower().replace("//localhost:", "//127.0.0.1:")
        if takes_any_port(normalized):
            continue
        if normalized in taken:
            raise ScenarioError(
                f"nodes: {taken[normalized]} and {name} have one address, {redacted(address)}: give each its own port"
            )
        taken[normalized] = name


def _scenario_file(where: str | Path) -> Path:
    path = Path(where)
    for candidate in (path, path / FILE):
        if candidate.is_file():
            return candidate.resolve()
    folders = _installed()
    for folder in folders:
        if (folder / path / FILE).is_file():
            return (folder / path / FILE).resolve()
    known = sorted(file.parent.name for folder in folders for file in folder.glob(f"*/{FILE}"))
    what = "scenario or file" if path.suffix else "scenario"
    raise ScenarioError(f"there is no {what} {str(where)!r}: name a folder with a {FILE}, or one of {', '.join(known)}")


def _installed() -> list[Path]:
    """The folders of the namespace package ``scenarios``: those installed with Slackline, and others on the path."""
    spec = find_spec("scenarios")
    return [Path(folder) for folder in spec.submodule_search_locations or ()] if spec is not None else []


def _detectors(plan: Plan, folder: Path) -> dict[str, Detector]:
    if isinstance(plan.detectors, str):
        found = load_object(plan.detectors, folder)
        if not callable(found):  # a CQL script, a flow, or detectors made already
            found = getattr(found, "operators", found)
        made = called(plan.detectors, found, plan.settings) if callable(found) else found
        if not isinstance(made, Iterable):
            raise ScenarioError(f"detectors: {plan.detectors} gives {made!r}: it must give detectors, in a list or a dict")
        return named(made)
    names = _class_names(plan.detectors)
    if stray := sorted(plan.settings.keys() - set(names)):
        raise ScenarioError(f"settings.{stray[0]}: there is no such detector; there are {listed(names)}")
    return named(
        [_made(target, plan.settings.get(name, {}), folder) for target, name in zip(plan.detectors, names, strict=True)]
    )


def _class_names(targets: Iterable[str]) -> list[str]:
    """The name of the class in ``module:Class``: ``settings`` go by it."""
    return [target.partition(":")[2] for target in targets]


def _made(target: str, settings: Mapping[str, object], folder: Path) -> Detector:
    """An instance of the class, or what the function makes, with its settings; an operator is returned as it is."""
    found = load_object(target, folder)
    if isinstance(found, Operator):
        return found
    made = called(target, found, settings)
    if not isinstance(made, Detector):
        raise ScenarioError(f"detectors: {target} gives {made!r}, which is no detector")
    return made


def _check_names(plan: Plan) -> None:
    """Check the names of the scenario and its nodes, which are folder names, too."""
    if not plan.nodes:
        raise ScenarioError("nodes: there are none; add [[nodes]] with a name and its detectors")
    named_ones = [
        (f"{kind}[{at}].name", each.name)
        for kind in ("nodes", "inputs", "outputs")
        for at, each in enumerate(getattr(plan, kind))
    ]
    for key, name in [("name", plan.name), *named_ones]:
        outside = name in ("", ".") or ".." in name or set(name) & {"/", "\\"}
        if outside or not name.isprintable() or name != name.strip():
            raise ScenarioError(f"{key}: {name!r} cannot name a folder for state: use a word, without slashes and '..'")


def _placement(plan: Plan, detectors: Mapping[str, Detector]) -> dict[str, frozenset[str]]:
    placement: dict[str, frozenset[str]] = {}
    taken: dict[str, str] = {}
    for node in plan.nodes:
        for name in node.detectors:
            if name != "*" and name not in detectors:
                raise ScenarioError(f"nodes.{node.name}: there is no detector {name!r}; there are {listed(sorted(detectors))}")
            if name in taken:
                raise ScenarioError(f"nodes.{node.name}: {name!r} runs on {taken[name]} already; a detector runs on one node")
            taken[name] = node.name
    rest = frozenset(detectors) - taken.keys()
    if rest and "*" not in taken:
        raise ScenarioError(f'nodes: nobody runs {", ".join(sorted(rest))}: name them in a node, or give one node "*"')
    for node in plan.nodes:
        named_here = frozenset(node.detectors) - {"*"}
        placement[node.name] = named_here | (rest if "*" in node.detectors else frozenset())
    return placement


def _sources(placement: Mapping[str, frozenset[str]], detectors: Mapping[str, Detector]) -> dict[str, list[LineSource]]:
    found: dict[str, tuple[str, LineSource]] = {}  # types of one name are one class, so sources of one name are one, too
    for node, names in placement.items():
        operators = [each for name in sorted(names) if isinstance(each := detectors[name], Operator)]
        for source in (each for operator in operators for each in operator.sources):
            found.setdefault(source.name, (node, source))
    return {node: [source for where, source in found.values() if where == node] for node in placement}


def _file_folders(folder: Path) -> list[Path]:
    return [folder, *([Path(os.environ[DATA])] if DATA in os.environ else [])]


def find_file(folder: Path, file: str) -> Path:
    """A file of a recording: beside the scenario, or in the data folder. Raises ScenarioError if it is missing."""
    folders = _file_folders(folder)
    for each in folders:
        if (each / file).is_file():
            return (each / file).resolve()
    raise ScenarioError(
        f"recording.files: {file} is not there (looked in {', '.join(map(str, folders))}); set {DATA} to the folder that has it"
    )


__all__ = ["FILE", "Scenario", "find_file", "load_object", "load_scenario"]
