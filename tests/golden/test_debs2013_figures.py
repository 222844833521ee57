"""The worked examples of DEBS'13 (Figures 4, 8 and 9, as its text tells them), event by event.

The papers' setting is lateness = K and a clock set by A alone. One unit of the figures' time is a nanosecond here.
"""

from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.event import Event
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.lanes.retraction import Retraction
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness, MaxSlack


class A(Event):
    """Near: the player is at the ball."""


class B(Event):
    """Not near any more."""


class C(Event):
    """A peak in acceleration."""


class D(Event):
    """The player hit the ball: A, then C, and no B in between. ``number`` counts them, as in section 4.3."""

    number: int


class Hits(Detector):
    """The automaton of Figure 3(a)."""

    subscribes, publishes, clock = (A, B, C), (D,), (A,)

    def __init__(self) -> None:
        self.near = False
        self.count = 0

    def on_event(self, event):
        if isinstance(event, C) and self.near:
            self.near = False
            self.count += 1
            return D(self.count, ts=event.ts)
        self.near = isinstance(event, A) or (self.near and not isinstance(event, B))
        return None


class Traced(Hits):
    """The same, writing down what it is given."""

    def __init__(self, given: list[str]) -> None:
        super().__init__()
        self.given = given

    def on_event(self, event):
        self.given.append(label(event))
        return super().on_event(event)

    def snapshot(self):
        return self.near, self.count

    def restore(self, state):
        self.near, self.count = state


def label(event):
    return f"{type(event).__name__}{event.ts}"


PAPER = Lateness(1, 0)


class Figure:
    """A unit in the papers' setting, fed one event at a time."""

    def __init__(self, alpha, retraction=Retraction.ON_DEMAND, lateness=PAPER):
        self.given = []
        self.unit = unit_for("Hits", Traced(self.given), 1, Policies(alpha, MaxSlack, lateness, retraction, spacing=1))
        self.number = 0

    def receive(self, event_type, ts):
        """What the detector is given, replays included, when this event arrives."""
        self.number += 1
        self.given.clear()
        self.out = self.unit.push(Delta([event_type(ts=ts, id=self.number, source="figure")]))
        self.unit.check()
        return list(self.given)

    @property
    def buffered(self):
        """Emitted events that a late one may still disturb, and those that wait: the column of the figure."""
        state = self.unit.state()
        ((_, lane),) = state["detector"].lanes
        return [label(event) for event in lane.history], [label(event) for event in state["waiting"]]


def test_figure_4_dynamic_k_slack():
    figure = Figure(alpha=1)
    assert figure.receive(A, 0) == ["A0"], "no delay is known yet: passed on at once"
    assert figure.receive(A, 2) == ["A2"]
    # The plain buffer of the figure can only keep C1 till the clock moves; a unit that can go back gives it its place.
    assert figure.receive(C, 1) == ["C1", "A2"]
    assert [len(delta) for delta in figure.out] == [1], "and D is found where the naive order finds none"
    assert figure.receive(A, 4) == []
    assert figure.unit.clock.k == 3, "the delay of C1 is 4 - 1"
    assert figure.buffered[1] == ["A4"], "A4 waits until clk is 7"
    assert figure.receive(B, 3) == []
    assert figure.receive(A, 6) == ["B3"]
    assert figure.unit.clock.k == 3, "the delay of B3 is 6 - 3: K holds"
    assert figure.receive(C, 5) == []
    assert figure.receive(A, 7) == ["A4"]
    assert figure.receive(A, 8) == ["C5"]
    assert [event for delta in figure.out for event in delta.inserts] == [
        D(2, ts=8 - 3, id=figure.out[0].inserts[0].id, source="Hits", level=1)
    ], "D out of A4 and C5 (section 3.2)"


def test_naive_processing_would_be_wrong():
    naive = Hits()
    arrivals = [A(ts=0), A(ts=2), C(ts=1), A(ts=4), B(ts=3), A(ts=6), C(ts=5)]
    found = [(event.ts, result) for event in arrivals if (result := naive.on_event(event))]
    assert [ts for ts, _ in found] == [1, 5], "C1 behind A2, and C5 behind A6, which both come too late"


def test_figure_8_speculation_with_snapshots():
    figure = Figure(
        1 / 3, Retraction.FULL
    )  # the figure replays to the end; on demand, C9 alone would do: the state is as before
    unit = figure.unit
    assert figure.receive(A, 0) == ["A0"]
    assert figure.receive(A, 2) == ["A2"]
    assert figure.receive(C, 1) == ["C1", "A2"], "A2 was emitted too early: restore its snapshot, replay"
    assert figure.receive(A, 3) == [] and unit.clock.k == 2, "3 + 2/3 > clk: A3 waits"
    assert figure.buffered == (["A2"], ["A3"]), "C1 is purged: nothing older than 3 - K = 1 can come"
    assert figure.receive(B, 4) == []
    assert figure.receive(A, 6) == ["A3", "B4"], "3.67 <= 6 and 4.67 <= 6"
    assert figure.buffered == ([], ["A6"]), "A2, A3 and B4 are safe by the rules of pure K-slack"
    assert figure.receive(C, 5) == ["C5"], "5.67 <= 6, though clk has not moved; A6 was not processed: no replay"
    assert figure.receive(B, 8) == [] and figure.receive(C, 7) == []
    assert figure.receive(A, 11) == ["A6", "C7", "B8"] and unit.clock.k == 6
    assert figure.buffered == (["A6", "C7", "B8"], ["A11"]), "C5 is purged"
    assert figure.receive(B, 10) == []
    assert figure.receive(A, 12) == ["B10"], "10 + 6/3 = 12 <= 12"
    assert figure.receive(C, 9) == ["C9", "B10"], "a false speculation: AEP relocated, C9 and B10 replayed"
    assert figure.buffered == (["C7", "B8", "C9", "B10"], ["A11", "A12"])


def feed_figure_9(retraction):
    """A3, C5, A6, C7 and B8 are emitted speculatively; D 3 and D 6 (the figure's names) are out; then B4 comes."""
    figure = Figure(0, retraction, Lateness(1, 100))  # the figure's buffer still holds A3: K is larger than its few events show
    known = {}
    for kind, ts in ((A, 3), (A, 6), (C, 5), (A, 8), (C, 7), (B, 8)):
        figure.receive(kind, ts)
        for delta in figure.out:
            known |= {event.ts: event for event in delta.inserts} | {new.ts: new for _, new in delta.revises}
    assert {ts: event.number for ts, event in known.items()} == {5: 1, 7: 2}
    return figure, known


def test_figure_9a_full_retraction_withdraws_all_at_once():
    figure, known = feed_figure_9(Retraction.FULL)
    replayed = figure.receive(B, 4)
    assert replayed[:5] == ["B4", "C5", "A6", "C7", "A8"] and replayed[5:] == ["B8"]
    withdrawn, again = figure.out
    assert withdrawn.retracts == [known[5], known[7]] and not withdrawn.inserts
    assert [(event.ts, event.number) for event in again.inserts] == [(7, 1)], "no D at 5, and the other is the first now"


def test_figure_9b_on_demand_retraction_sends_the_difference():
    figure, known = feed_figure_9(Retraction.ON_DEMAND)
    figure.receive(B, 4)
    (difference,) = figure.out
    assert difference.retracts == [known[5]]
    ((old, new),) = difference.revises
    assert old == known[7]
    assert (new.ts, new.number, new.id) == (7, 1, old.id), "its identity comes from its cause, not from a counter"
    assert not difference.inserts


def test_figure_9b_replay_ends_where_the_state_is_what_it_was():
    """If the state after B4 equals s5 (= s4), replay and retraction are aborted: here B4 changes nothing."""
    figure = Figure(0, lateness=Lateness(1, 100))
    for kind, ts in ((A, 1), (B, 2), (A, 5), (C, 6), (A, 8)):
        figure.receive(kind, ts)
    assert figure.receive(B, 3) == ["B3"], "not near already: nothing behind it is run again"
    assert figure.out == [] and figure.unit.statistics().early_stops == 1


def test_k_plus_lets_an_upper_unit_measure_the_delay_of_plain_buffering():
    """Section 4.1: an event derived prematurely carries how much earlier it came than plain buffering would have let it."""
    early, plain = Figure(alpha=0), Figure(alpha=1)
    arrivals = [(A, 10), (A, 20), (B, 14), (A, 30), (A, 40), (C, 41), (A, 42), (A, 50), (A, 60), (A, 70), (A, 80)]
    k = {}
    for name, figure in (("early", early), ("plain", plain)):
        upper = unit_for("Upper", Upper(), 2, Policies(alpha=1, slack=MaxSlack))
        for kind, ts in arrivals:
            figure.receive(kind, ts)
            for delta in figure.out or [Delta()]:
                upper.push(delta, mark=figure.unit.clock.clk)
        k[name] = upper.clock.k, figure.unit.clock.k
    assert k["early"][0] > 0
    assert k["early"][0] == k["plain"][0] or abs(k["early"][0] - k["plain"][0]) <= 10, "but for one step of the clock"


class Upper(Detector):
    subscribes = (D,)

    def on_event(self, event):
        return None
