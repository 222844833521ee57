"""The conformance suite passes detectors that keep the contract, and finds each way to break it."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from middleware.cli.main import application
from middleware.cli.output import ExitCode
from middleware.testing.conformance import Verdict, check_detector

HERE = str(Path(__file__).parent)
if HERE not in sys.path:  # fresh processes import the samples by name
    sys.path.insert(0, HERE)

import sample_detectors as samples  # noqa: E402


def failures(detector_class: type) -> dict[str, Verdict]:
    return {verdict.check: verdict for verdict in check_detector(detector_class, count=6, length=30) if verdict.state == "fail"}


@pytest.mark.parametrize(
    "detector_class",
    [samples.Good, samples.GoodKeyed, samples.GoodObjects, samples.GoodExamples, samples.GoodSlots, samples.GoodOnColumns],
)
def test_good_detectors_pass(detector_class: type) -> None:
    assert failures(detector_class) == {}


BROKEN = [
    (samples.UsesRandom, {"no hidden inputs", "pure: same in, same out", "pure: fresh processes"}, 1),
    (samples.UsesTime, {"no hidden inputs", "pure: same in, same out"}, 1),
    (samples.UsesTimeCoarsely, {"no hidden inputs"}, 1),
    (samples.Prints, {"no hidden inputs"}, 1),
    (samples.ClassState, {"pure: same in, same out", "instances share nothing"}, 1),
    (samples.ForgetfulGetState, {"snapshot: round trip", "snapshot: independent"}, 1),
    (samples.SharedByKeys, {"instances share nothing", "snapshot: round trip", "any order of arrival"}, 1),
    (samples.InClosure, {"instances share nothing"}, 1),
    (samples.ChangesEvents, {"events stay as they are"}, 1),
    (samples.LockInSlot, {"declaration"}, 0),
    (samples.MutableDefault, {"instances share nothing"}, 1),
    (samples.GlobalState, {"pure: same in, same out", "instances share nothing", "any order of arrival"}, 1),
    (samples.AliasingSnapshot, {"snapshot: independent", "replay stable", "any order of arrival"}, 1),
    (samples.AliasingRestore, {"snapshot: independent", "replay stable", "any order of arrival"}, 1),
    (samples.ForgetfulSnapshot, {"snapshot: round trip", "snapshot: independent", "replay stable", "any order of arrival"}, 1),
    (samples.SilentClassState, {"instances share nothing", "any order of arrival"}, 1),
    (samples.StateWithoutEquality, {"snapshot: equal if the state is"}, 1),
    (samples.SetOrder, {"pure: fresh processes"}, 2),
    (samples.Raises, {"takes its input"}, 1),
    (samples.TooEarly, {"results well formed"}, 1),
    (samples.OneTimeForMany, {"results well formed"}, 2),
    (samples.Undeclared, {"results well formed"}, 1),
    (samples.WrongField, {"results well formed"}, 1),
    (samples.BadKey, {"keys"}, 1),
    (samples.KeyWithoutForm, {"keys"}, 1),
    (samples.NoSubscription, {"declaration"}, 0),
    (samples.ReadsItself, {"declaration"}, 0),
    (samples.CannotBeMade, {"declaration"}, 0),
    (samples.ForgetsCuts, {"batches: any cuts"}, 2),
    (samples.RaisesTogether, {"batches: any cuts"}, 2),
    (samples.MixesKeys, {"batches: keys apart"}, 2),
    (samples.BothWays, {"declaration"}, 0),
]


@pytest.mark.parametrize(("detector_class", "expected", "events"), BROKEN, ids=[case[0].__name__ for case in BROKEN])
def test_broken_detectors_are_caught_on_small_examples(detector_class: type, expected: set[str], events: int) -> None:
    found = failures(detector_class)
    assert expected <= found.keys()
    for name in expected:
        assert found[name].problem
        assert found[name].advice
        # Where chance or process starts limit the search, the example may keep some events more.
        assert events <= len(found[name].example) <= events + 8


@pytest.mark.parametrize(
    ("detector_class", "only"),
    [
        (samples.UsesTimeCoarsely, "no hidden inputs"),
        (samples.Raises, "takes its input"),
        (samples.TooEarly, "results well formed"),
        (samples.StateWithoutEquality, "snapshot: equal if the state is"),
        (samples.BadKey, "keys"),
    ],
)
def test_a_single_fault_fails_a_single_check(detector_class: type, only: str) -> None:
    assert set(failures(detector_class)) == {only}


def test_hidden_inputs_are_named_with_their_place() -> None:
    problem = failures(samples.UsesTimeCoarsely)["no hidden inputs"].problem
    assert "time.time at " in problem
    assert "datetime.now at " in problem
    assert "sample_detectors.py:" in problem


def test_a_broken_key_leaves_the_rest_unchecked() -> None:
    states = [verdict.state for verdict in check_detector(samples.BadKey)]
    assert states[:3] == ["pass", "fail", "skip"]


@pytest.mark.parametrize(("detector_class", "state"), [(samples.Good, "pass"), (samples.Cold, "warn"), (samples.Sink, "pass")])
def test_a_detector_that_was_left_cold_is_not_called_good(detector_class: type, state: str) -> None:
    *others, exercised = check_detector(detector_class, count=2, length=10)
    assert {verdict.state for verdict in others} == {"pass"}
    assert (exercised.check, exercised.state) == ("exercised", state)


def invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(application(), ["check", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_command_passes_settings_and_writes_json() -> None:
    code, out, err = invoke("sample_detectors:Good", "--set", "limit=2.5", "--set", "window=2", "--count", "2", "--json", "-")
    assert code == ExitCode.OK, err
    assert {verdict["state"] for verdict in json.loads(out)} == {"pass"}


def test_command_shows_problem_example_and_advice() -> None:
    code, out, _ = invoke("sample_detectors:TooEarly", "--count", "1", "--length", "5")
    assert code == ExitCode.FAILED
    assert "before its cause" in out
    assert "smallest example found (1 events)" in out
    assert "declare backdate" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample_detectors"], "write module:name"),
        (["no_such_module:X"], "cannot import no_such_module"),
        (["sample_detectors:Goood"], "its detectors: "),
        (["sample_detectors:Good", "--set", "size=3"], "unexpected keyword argument 'size'"),
        (["sample_detectors:Good", "--set", "limit"], "write --set name=value"),
    ],
)
def test_what_cannot_be_checked_is_bad_input(arguments: list[str], message: str) -> None:
    code, out, err = invoke(*arguments)
    assert code == ExitCode.BAD_INPUT
    assert message in err.replace("\n", " ")
    assert out == ""
