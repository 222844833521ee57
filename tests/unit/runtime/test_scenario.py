import os
from pathlib import Path

import pytest

from middleware.model.errors import ScenarioError
from middleware.runtime.scenario import check_addresses, load_scenario, state_folder

GOOD = """
name = "small"
detectors = ["watch:Peaks", "watch:Alarms"]
results = ["Alarm"]

[recording]
generate = "watch:positions"

[[nodes]]
name = "edge"
detectors = ["Peaks"]

[[nodes]]
name = "centre"
detectors = ["*"]
"""

CODE = """
from slackline import Detector, Event
from middleware.model.operator import Operator

class Reading(Event):
    value: float

class Peak(Event):
    value: float

class Alarm(Event):
    value: float

class Peaks(Detector):
    subscribes, publishes = (Reading,), (Peak,)
    def on_event(self, event):
        return Peak(event.value, ts=event.ts)

class Alarms(Detector):
    subscribes, publishes = (Peak,), (Alarm,)
    def on_event(self, event):
        return Alarm(event.value, ts=event.ts)

class Query(Operator):
    def __init__(self, name, reads=Peak):
        self.name, self.subscribes = name, (reads,)

query = Query("Fixed")

def fails(**settings):
    return 1 / 0

def nothing():
    return None

def make(name):
    return Query(name, Alarm)
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    (tmp_path / "watch.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(text):
        (tmp_path / "nodes.toml").write_text(text)
        return tmp_path

    return write


def test_a_sound_scenario(write):
    scenario = load_scenario(write(GOOD))
    assert scenario.levels == {"Peaks": 1, "Alarms": 2}
    assert scenario.placement == {"edge": {"Peaks"}, "centre": {"Alarms"}}
    assert scenario.derived == ["Alarm", "Peak"]
    assert scenario.entry == "edge"
    assert scenario.adaptation == "gain"
    assert scenario.policies(0.0)[""].alpha == 0.0
    assert scenario.lasting(3.0, None).plan.recording.seconds == 3.0


def test_a_module_that_ends_the_program_is_reported(write):
    folder = write(GOOD.replace("watch:", "leaves:"))
    (folder / "leaves.py").write_text(CODE + "\nimport sys\nsys.exit(0)\n")
    with pytest.raises(ScenarioError, match=r"cannot import leaves: it ends the program as it is imported \(sys.exit\)"):
        load_scenario(folder)


def test_operators_stand_beside_detectors(write):
    plan = GOOD.replace(
        '"watch:Alarms"]', '"watch:Alarms", "watch:query", "watch:make"]\nsettings = { make = { name = "Made" } }'
    )
    scenario = load_scenario(write(plan))
    assert scenario.levels == {"Peaks": 1, "Alarms": 2, "Fixed": 2, "Made": 3}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("[recording]", "[settings.Alarm]\nlimit = 3\n[recording]"),
            "settings.Alarm: there is no such detector",
        ),
        (("[recording]", "[settings]\nlimit = 3\n[recording]"), "settings.limit: there is no such detector"),
        (("[[nodes]]", "[[node]]"), r"nodes.toml: top level: Object (missing|contains)"),
        (('results = ["Alarm"]', 'result = ["Alarm"]'), "unknown field `result`"),
        (
            ('generate = "watch:positions"', 'generate = "watch:positions"\nseconds = "long"'),
            r"recording.seconds: Expected `float`",
        ),
        (
            ('detectors = ["Peaks"]', 'detectors = ["Peeks"]'),
            "nodes.edge: there is no detector 'Peeks'; there are Alarms, Peaks",
        ),
        (('detectors = ["*"]', 'detectors = ["Peaks"]'), "'Peaks' runs on edge already"),
        (('detectors = ["*"]', "detectors = []"), 'nobody runs Alarms: name them in a node, or give one node "*"'),
        (('name = "centre"', 'name = "edge"'), "two are named 'edge'"),
        (('name = "centre"', f'name = "{"x" * 257}"'), "nodes: a name has 1 to 256 characters, not 257"),
        (('["Alarm"]', '["Alert"]'), "results: nobody publishes Alert"),
        (('"watch:Alarms"', '"watch:Alerts"'), "watch has no Alerts"),
        (('"watch:Alarms"', '"clock:Alarms"'), "cannot import clock"),
        (('"watch:Alarms"', '"watch"'), "write module:name"),
        (('generate = "watch:positions"', "seconds = 2.0"), "give either generate"),
        (('generate = "watch:positions"', 'generate = "watch:positions"\nto = "moon"'), "there is no node 'moon'"),
        (
            ('"watch:Alarms"]', '"watch:fails"]'),
            r"detectors: watch:fails fails: ZeroDivisionError: .* \(.*watch.py, line \d+\)",
        ),
        (('["watch:Peaks", "watch:Alarms"]', '"watch:fails"'), "detectors: watch:fails fails: ZeroDivisionError"),
        (('["watch:Peaks", "watch:Alarms"]', '"watch:nothing"'), "detectors: watch:nothing gives None"),
        (("[recording]", '[policies]\nslack = "150%"\n[recording]'), r"policies: slack is .*not '150%': .*\(0, 1\]"),
        (("[recording]", '[policies]\nslack = "many%"\n[recording]'), "policies: slack is .*not 'many%'"),
        (("[recording]", '[policies]\nslack = "nan%"\n[recording]'), "policies: slack is .*not 'nan%'"),
        (("[recording]", '[policies_for.Peaks]\nslack = "-1s"\n[recording]'), "policies_for.Peaks: slack is .*not '-1s'"),
        (("[recording]", '[policies]\nlateness = "-1s"\n[recording]'), "policies: a lateness needs"),
        (("[recording]", '[sources]\nidle = "-1s"\n[recording]'), "sources: idle is a duration above 0, not -1000000000"),
        (('name = "small"', 'name = "a/b"'), "name: 'a/b' cannot name a folder"),
        (('name = "small"', 'name = ""'), "name: '' cannot name a folder"),
        (('name = "edge"', 'name = ".."'), r"nodes\[0\].name: '..' cannot name a folder"),
        (('name = "centre"', 'name = "../../etc"'), r"nodes\[1\].name: '../../etc' cannot name a folder"),
        (('name = "centre"', 'name = "a\\u0000b"'), r"nodes\[1\].name: .* cannot name a folder"),
        (
            ("[recording]", '[policies]\nalpha = "much"\n[recording]'),
            'alpha is "gain", "adaptive", "weighted", "buffering" or a number',
        ),
        (("[recording]", '[policies]\nalpha = "buffering"\n[recording]'), 'set failing = "stop"'),
        (("[recording]", "[policies]\nalpha = 2.0\n[recording]"), "alpha must be a number from 0"),
        (("[recording]", '[policies]\nlateness = "long"\n[recording]'), "'long' is no duration"),
        (("[recording]", '[policies]\nretraction = "never"\n[recording]'), r"policies.retraction: Invalid enum value"),
        (("[recording]", "[policies_for.Nobody]\nalpha = 0.0\n[recording]"), "policies_for.Nobody: there is no such detector"),
        (('name = "small"', "name = small"), "is no TOML"),
    ],
)
def test_what_is_wrong_is_named_with_file_key_and_reason(write, change, message):
    folder = write(GOOD.replace(*change))
    with pytest.raises(ScenarioError, match=message) as caught:
        load_scenario(folder)
    assert str(folder) in str(caught.value)


def test_no_nodes_and_no_detectors(write):
    text = GOOD.partition("[[nodes]]")[0].replace('["watch:Peaks", "watch:Alarms"]', "[]").replace('["Alarm"]', "[]")
    with pytest.raises(ScenarioError, match=r"nodes.toml: nodes: there are none; add \[\[nodes\]\]"):
        load_scenario(write("nodes = []\n" + text))


def test_a_file_that_is_not_utf_8(write, tmp_path):
    write(GOOD)
    (tmp_path / "nodes.toml").write_bytes(b'name = "caf\xe9"\n')
    with pytest.raises(ScenarioError, match=r"nodes.toml is no TOML: it is not UTF-8, from byte 11 on"):
        load_scenario(tmp_path)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f(:\n", r"cannot import broken_0: invalid syntax \(.*broken_0.py, line 1\)"),
        ("\nx = {}['y']\n", r"cannot import broken_1: KeyError: 'y' \(.*broken_1.py, line 2\)"),
    ],
)
def test_a_module_that_fails_is_named_with_file_and_line(write, tmp_path, code, message):
    name = f"broken_{int('KeyError' in message)}"
    (tmp_path / f"{name}.py").write_text(code)
    with pytest.raises(ScenarioError, match=message) as caught:
        load_scenario(write(GOOD.replace('"watch:Peaks"', f'"{name}:Peaks"')))
    assert "nodes.toml" in str(caught.value)


def test_a_recording_whose_module_is_not_there(write):
    scenario = load_scenario(write(GOOD.replace('generate = "watch:positions"', 'generate = "wotch:positions"')))
    with pytest.raises(ScenarioError, match="cannot import wotch"):
        scenario.source_version()


def test_a_name_nobody_knows(tmp_path):
    with pytest.raises(ScenarioError, match=r"there is no scenario 'nowhere'.*soccer"):
        load_scenario("nowhere")


def test_files_that_are_not_there_name_the_places_looked_in(write, monkeypatch, tmp_path):
    monkeypatch.setenv("SLACKLINE_DATA", str(tmp_path / "data"))
    scenario = load_scenario(write(GOOD.replace('generate = "watch:positions"', 'files = ["a.csv"]\nreader = "umts"')))
    with pytest.raises(ScenarioError, match=r"a.csv is not there \(looked in .*data\); set SLACKLINE_DATA"):
        scenario.files()
    with pytest.raises(ScenarioError, match="not generated"):
        scenario.lasting(3.0, None)


@pytest.mark.parametrize("name", ["soccer", "umts", "debs2013", "tracab", "tromso", "half"])
def test_the_scenarios_that_come_with_the_project_are_sound(name):
    assert load_scenario(name).plan.name == name


def test_state_is_beside_the_scenario_from_wherever_it_is_started(write, tmp_path, monkeypatch):
    folder = write(GOOD)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.delenv("SLACKLINE_STATE", raising=False)
    for place in (folder, elsewhere):
        monkeypatch.chdir(place)
        assert state_folder(load_scenario(folder)) == folder / ".slackline" / "small"
        assert state_folder(load_scenario("ticks")) == place / ".slackline" / "ticks", "it came with Slackline"
    with monkeypatch.context() as other:
        other.setattr(os, "access", lambda path, mode: Path(path) != folder)
        assert state_folder(load_scenario(folder)) == elsewhere / ".slackline" / "small"
    monkeypatch.setenv("SLACKLINE_STATE", "/var/lib/slackline")
    assert state_folder(load_scenario(folder)) == Path("/var/lib/slackline/small")


@pytest.mark.parametrize(
    ("addresses", "complaint"),
    [
        (("tcp://127.0.0.1:5701", "tcp://127.0.0.1:5701"), "nodes: a and b have one address, tcp://127.0.0.1:5701"),
        (("tcp://localhost:5701", "tcp://127.0.0.1:5701"), "nodes: a and b have one address"),
        (("ipc:///tmp/x", "ipc:///tmp/x"), "nodes: a and b have one address"),
        (("tcp://127.0.0.1:*", "tcp://127.0.0.1:*"), None),
        (("tcp://10.0.0.1:5701", "tcp://10.0.0.2:5701"), None),
    ],
)
def test_two_nodes_with_one_address_are_named(addresses: tuple[str, str], complaint: str | None) -> None:
    if complaint is None:
        check_addresses(dict(zip("ab", addresses, strict=True)))
        return
    with pytest.raises(ScenarioError, match=complaint):
        check_addresses(dict(zip("ab", addresses, strict=True)))


def test_two_nodes_with_one_address_are_found_when_the_file_is_read(write):
    text = GOOD
    for name in ("edge", "centre"):
        text = text.replace(f'name = "{name}"', f'name = "{name}"\naddress = "tcp://127.0.0.1:5701"')
    with pytest.raises(ScenarioError, match=r"nodes.toml: nodes: edge and centre have one address"):
        load_scenario(write(text))


@pytest.mark.parametrize("address", ["9464", "127.0.0.1", "127.0.0.1:*", "127.0.0.1:65535"])
def test_a_metrics_address_that_not_all_nodes_can_have_is_refused(tmp_path: Path, address: str) -> None:
    (tmp_path / "watch.py").write_text(CODE)
    (tmp_path / "nodes.toml").write_text(GOOD.replace("[recording]", f'metrics.address = "{address}"\n\n[recording]'))
    with pytest.raises(ScenarioError, match=r"metrics: address .*: write HOST:PORT, such as"):
        load_scenario(tmp_path)


@pytest.mark.parametrize("url", ["127.0.0.1:4318", "grpc://collector:4317", "http://", "http://user:secret@collector:4318"])
def test_a_collector_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    (tmp_path / "watch.py").write_text(CODE)
    (tmp_path / "nodes.toml").write_text(GOOD.replace("[recording]", f'metrics.otlp = "{url}"\n\n[recording]'))
    with pytest.raises(ScenarioError, match=r"metrics: otlp .*: write http://HOST:PORT, such as"):
        load_scenario(tmp_path)
    (tmp_path / "nodes.toml").write_text(GOOD.replace("[recording]", 'metrics.otlp = "https://c.example/otlp"\n\n[recording]'))
    assert load_scenario(tmp_path).plan.metrics.collector() == "https://c.example/otlp"


def test_nodes_serve_metrics_at_ports_that_count_up(tmp_path: Path) -> None:
    (tmp_path / "watch.py").write_text(CODE)
    (tmp_path / "nodes.toml").write_text(GOOD.replace("[recording]", 'metrics.address = "[::1]:9464"\n\n[recording]'))
    scenario = load_scenario(tmp_path)
    assert [scenario.metrics_address(name) for name in ("edge", "centre")] == ["[::1]:9464", "[::1]:9465"]
    (tmp_path / "nodes.toml").write_text(GOOD)
    assert load_scenario(tmp_path).metrics_address("edge") is None
