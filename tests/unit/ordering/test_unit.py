"""What the property tests do not say: quarantine, ledgers, policies, records, memory."""

import pickle

import pytest

from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.errors import LateEventError
from middleware.model.event import END, Event
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.lanes.lane import Lane
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness


class Step(Event):
    kind: str
    value: int = 0


class Sum(Event):
    total: int


class Sums(Detector):
    """Adds up; misbehaves on request, after its state has changed."""

    subscribes, publishes, backdate = (Step,), (Sum,), 5

    def __init__(self):
        self.total = 0
        self.seen = []

    def on_event(self, event):
        self.total += event.value
        self.seen.append(event.value)
        match event.kind:
            case "raise":
                raise ValueError(f"cannot take {event.value}")
            case "nonsense":
                return 42
            case "stranger":
                return Step("?", ts=event.ts)
            case "back":
                return Sum(self.total, ts=event.ts - 6)
            case "ts":
                return Sum(self.total, ts=1.5)
            case "field":
                return Sum("much", ts=event.ts)
            case "half":
                return self.half(event)
        return Sum(self.total, ts=event.ts)

    def half(self, event):
        yield Sum(self.total, ts=event.ts)
        self.total += 1000
        raise KeyError("half way")


class KeyedSums(Sums):
    key = "kind"


def steps(*kinds):
    return [Step(kind, 10**number, ts=number, id=number, source="s") for number, kind in enumerate(kinds)]


def totals(deltas):
    return [event.total for delta in deltas for event in delta.inserts]


BAD = ["raise", "nonsense", "stranger", "back", "ts", "field", "half"]


@pytest.mark.parametrize("bad", BAD)
def test_a_failing_event_is_quarantined_and_the_state_before_it_kept(bad):
    unit = unit_for("Sums", Sums())
    out = unit.push(Delta(steps("ok", bad, "ok", bad, "ok")), promised=END, is_open=False)
    assert totals(out) == [1, 101, 10101]
    assert [failed.cause.ts for failed in unit.quarantine] == [1, 3]
    assert all("Error" in failed.failure for failed in unit.quarantine)
    assert unit.statistics().failures == 2


@pytest.mark.parametrize("bad", BAD)
def test_keyed_detectors_too(bad):
    unit = unit_for("KeyedSums", KeyedSums())
    out = unit.push(Delta(steps("ok", bad, "ok", bad, "ok")), promised=END, is_open=False)
    assert totals(out) == [1, 101, 10101]
    assert len(unit.quarantine) == 2


@pytest.mark.parametrize("made", [Sums, KeyedSums])
def test_a_failure_is_listed_as_soon_as_it_is_final_after_a_restart_too(made):
    first = unit_for("Sums", made(), 1, Policies(alpha=0.0))
    first.push(Delta(steps("ok", "raise", "ok")), promised=0, is_open=False)
    unit = unit_for("Sums", made(), 1, Policies(alpha=0.0))
    unit.restore(pickle.loads(pickle.dumps(first.state())))
    unit.restore_part(first.part(10))
    assert not unit.quarantine
    unit.push(Delta(), promised=2, is_open=False)
    assert [failed.cause.ts for failed in unit.quarantine] == [1]


def test_the_errors_name_detector_and_remedy():
    unit = unit_for("Sums", Sums())
    unit.push(Delta(steps(*BAD)), promised=END, is_open=False)
    failures = [failed.failure.strip().splitlines()[-1] for failed in unit.quarantine]
    assert "cannot take 1" in failures[0]
    assert "Sums returned 42; on_event returns None, an event, or an iterable of events" in failures[1]
    assert "Sums returned Step, but declares that it publishes Sum" in failures[2]
    assert "Sums stamped Sum 6 ns before its cause, but declares backdate = 5" in failures[3]
    assert "it must be int64 nanoseconds" in failures[4]
    assert "Expected `int`, got `str`" in failures[5]


def test_policy_stop_ends_the_detector_at_the_failure_and_a_late_event_may_undo_it():
    unit = unit_for("Sums", Sums(), 1, Policies(alpha=0.0, failing="stop", lateness=Lateness(2, 100)))
    first, bad, after, early = steps("ok", "raise", "ok", "ok")
    assert totals(unit.push(Delta([first, bad, after]))) == [1]
    assert totals(unit.push(Delta([early]))) == [], "a stopped detector stays stopped"
    (delta,) = unit.push(Delta(retracts=[bad]))
    assert [event.total for event in delta.inserts] == [101, 1101], "unless what stopped it is withdrawn"
    unit.push(Delta(), promised=END, is_open=False)
    assert unit.quarantine == []


@pytest.mark.parametrize("key", [None, "source"])
def test_what_comes_after_a_stop_is_listed_and_other_keys_go_on(key):
    class Stopping(Sums):
        pass

    Stopping.key = key
    unit = unit_for("Stopping", Stopping(), 1, Policies(failing="stop"))
    other = Step("ok", 5, ts=150, id=0, source="t")
    unit.push(Delta(first := steps("ok", "raise", "ok")), promised=100, is_open=False)
    made = unit.push(Delta([other, last := Step("ok", ts=200, id=9, source="s")]), promised=300, is_open=False)
    unit.push(Delta(), promised=END, is_open=False)
    left_out = [first[2], last] if key else [first[2], other, last]
    assert totals(made) == ([5] if key else [])
    assert [failed.cause for failed in unit.quarantine] == [first[1], *left_out]
    assert "cannot take" in unit.quarantine[0].failure
    assert all("had stopped at an earlier event" in failed.failure for failed in unit.quarantine[1:])


@pytest.mark.parametrize(("key", "failing"), [(None, "stop"), ("source", "stop"), (None, "skip"), ("source", "skip")])
def test_each_failure_and_what_comes_after_a_stop_is_listed_once_it_is_final(key, failing):
    """However long others continue after it, and few events there are."""
    made = type("Sums", (Sums,), {"key": key})
    unit = unit_for("Sums", made(), 1, Policies(alpha=0.0, failing=failing))
    for ts in range(0, 40, 2):
        unit.push(Delta([Step("raise", ts=ts, id=ts, source="s")]), promised=ts - 5, is_open=False)
        assert all(failed.cause.ts <= ts - 5 for failed in unit.quarantine)
    unit.push(Delta(), promised=36, is_open=False)
    assert [failed.cause.ts for failed in unit.quarantine] == list(range(0, 37, 2))


def test_an_event_without_a_key_is_listed_once_it_is_final():
    def key(event):
        return 1 // event.value

    unit = unit_for("Sums", type("Sums", (Sums,), {"key": staticmethod(key)})())
    unit.push(Delta([Step("ok", value, ts=ts, id=ts, source="s") for ts, value in ((1, 1), (2, 0), (9, 1))]))
    assert not unit.quarantine
    unit.push(Delta([Step("ok", 1, ts=12, id=12, source="s")]), promised=9, is_open=False)
    assert [failed.cause.ts for failed in unit.quarantine] == [2]


def test_a_failure_that_a_late_event_repairs_is_not_quarantined():
    class Fragile(Sums):
        def on_event(self, event):
            self.total += event.value
            if self.total == 100:
                raise ValueError("alone")
            return Sum(self.total, ts=event.ts)

    unit = unit_for("Fragile", Fragile(), 1, Policies(alpha=0.0))
    late, last = steps("ok", "ok", "ok")[1:]
    assert totals(unit.push(Delta([last]))) == []
    (delta,) = unit.push(Delta([late]))
    assert [event.total for event in delta.inserts] == [10, 110]
    unit.push(Delta(), promised=END, is_open=False)
    assert unit.quarantine == []


def test_a_key_that_cannot_be_had_is_a_failure_of_the_event():
    class Picky(Sums):
        @staticmethod
        def key(event):
            return {"raise": 1}[event.kind] if event.kind == "raise" else event.kind if event.value < 100 else [event]

    class Raising(Picky):
        @staticmethod
        def key(event):
            return 1 // (event.value - 10)

    for detector, left in ((Picky(), 2), (Raising(), 2)):
        unit = unit_for("Picky", detector, 1, Policies(alpha=0.0))
        out = unit.push(Delta(steps("ok", "ok", "ok")), promised=END, is_open=False)
        assert len(totals(out)) == left
        assert len(unit.quarantine) == 1


def test_late_events_are_listed_with_the_circumstances():
    unit = unit_for("Sums", Sums(), 1, Policies(lateness=Lateness(1, 10)))
    unit.push(Delta([Step("ok", ts=100, id=1, source="s")]))
    late = Step("ok", ts=90, id=2, source="s")
    assert unit.push(Delta([late])) == []
    (entry,) = unit.late
    assert (entry.event, entry.change, entry.clk, entry.final) == (late, "insert", 100, 90)
    assert unit.statistics().late == 1
    unit.push(Delta(retracts=[late]))
    assert [entry.change for entry in unit.late] == ["insert", "retract"]


def test_policy_error_for_late_events_says_what_to_do():
    unit = unit_for("Sums", Sums(), 1, Policies(lateness=Lateness(1, 10), late="error"))
    unit.push(Delta([Step("ok", ts=100, id=1, source="s")]))
    with pytest.raises(LateEventError, match="raise lateness"):
        unit.push(Delta([Step("ok", ts=90, id=2, source="s")]))


@pytest.mark.parametrize(
    "bad", [{"alpha": 1.5}, {"alpha": -0.1}, {"spacing": 0}, {"late": "drop"}, {"failing": "ignore"}], ids=str
)
def test_senseless_policies_are_refused(bad):
    with pytest.raises(ValueError, match=r"must"):
        Policies(**bad)


@pytest.mark.parametrize("detector", [Sums, KeyedSums])
def test_memory_is_bounded_by_the_lateness(detector):
    class Quiet(detector):
        def on_event(self, event):
            self.total += event.value

    unit = unit_for("Quiet", Quiet(), 1, Policies(alpha=0.0, lateness=Lateness(1, 100)))
    for start in range(0, 50_000, 50):
        unit.push(Delta([Step(f"k{n % 7}", 1, ts=n, id=n, source="s") for n in range(start, start + 50)]))
    assert unit.statistics().held < 3_000, "of 50,000"
    assert unit.statistics().emitted == 50_000


def test_alpha_may_change_at_any_time_without_losing_anything():
    unit = unit_for("Sums", Sums(), 1, Policies(alpha=0.0))
    out = unit.push(Delta([Step("ok", 1, ts=10, id=1, source="s"), Step("ok", 2, ts=20, id=2, source="s")]))
    unit.alpha = 1.0
    out += unit.push(Delta([Step("ok", 4, ts=15, id=3, source="s")]))
    assert totals(out) == [1, 3, 5], "what is behind the AEP is put right at once"
    assert unit.statistics().revised == 1


def test_the_loop_over_events_holds_no_closure():
    assert not Lane._execute.__code__.co_cellvars, "what a closure shares costs every event, even where it is never called"
