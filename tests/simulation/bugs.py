"""Deliberate bugs: each breaks something on which the promise rests, and must be seen by the simulated worlds.

``python -m tests.simulation.bugs [NAME ...]`` looks for each, and prints entries for ``START``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from detectors.cql.query_operators.stepped_queries import SteppedQuery
from detectors.cql.query_operators.windowed import WindowedOperation
from detectors.flow.operations.flow_operator import FlowOperation
from detectors.sequence.sequence_operator import SequenceOperation
from detectors.simulated import an_application, of_cql, of_flows, of_sequences, of_windows
from detectors.window.stepped_windows import SteppedWindows
from detectors.window.windows_operation import WindowsOperation
from middleware.broker import broker, outbound
from middleware.broker.broker import Broker
from middleware.broker.effects import Effects
from middleware.broker.ingress import sources
from middleware.broker.ingress.changed import ChangedEvents
from middleware.broker.ingress.checks import Ingress
from middleware.broker.ingress.publisher_admission import Admission
from middleware.broker.ingress.publisher_rows import Bounds
from middleware.broker.ingress.seen import SeenIds
from middleware.broker.log.log import Log
from middleware.broker.log.log_records import PeerKey
from middleware.broker.peers.peers import Peer
from middleware.broker.watermarks import combining
from middleware.broker.watermarks.combining import CombinedWatermarks
from middleware.broker.watermarks.generations import Generations
from middleware.broker.watermarks.tracker import LOCAL, WatermarkTracker
from middleware.delivery.barrier import Barrier
from middleware.delivery.cursor import Cursor
from middleware.delivery.publication import Publication
from middleware.delivery.subscription import Subscription
from middleware.durability import lives, recovery
from middleware.durability.durable_core import DurableCore, Write
from middleware.link.codec import Gap, Interest, LastCommit, Payload, Run
from middleware.link.frames import Parts
from middleware.link.link import Link
from middleware.model import detector
from middleware.model.block.waiting_blocks import WaitingBlocks
from middleware.model.change import Batch, Delta
from middleware.model.detector import Detector
from middleware.model.event import END, NEVER, TS
from middleware.model.identity import named
from middleware.model.operator import Operation
from middleware.model.values import attributes
from middleware.ordering.detector_unit import DetectorUnit
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.lanes import lane, lanes
from middleware.ordering.lanes.lane import Lane
from middleware.ordering.lanes.operation_lane import OperatorLane
from middleware.ordering.operator_unit import OperatorUnit
from middleware.ordering.slack.robust import RobustSlack
from middleware.ordering.unit import Unit
from middleware.testing.simulation import nodes
from middleware.testing.simulation.applications import Crests, Level, Pairs, Spans, Totals
from middleware.testing.simulation.hunt import hunt
from middleware.testing.simulation.plans.drawing import Application
from tests.oracles.keyed_lanes import KeyedLanes

MOST = 200
"""Worlds within which each of them must be found."""

Bug = Callable[[pytest.MonkeyPatch], None]
BUGS: dict[str, Bug] = {}

APPLICATIONS: dict[str, Application] = {}
"""Where else than among all of them a bug is looked for: in worlds that deploy what is broken."""


START: dict[str, int] = {
    "output before the log": 3,
    "replay ignores the recorded watermarks of units": 11,
    "what was final for a stopped unit withdrawn": 20_261_560_554,
    "promises for the silent not logged": 8,
    "log cut before readers have it": 8,
    "checkpoint forgets ids seen": 8,
    "checkpoint forgets revisions made": 91,
    "checkpoint forgets waiting events": 8,
    "checkpoint forgets what was published": 54,
    "checkpoint forgets what peers promised": 10,
    "checkpoint forgets readers": 8,
    "checkpoint forgets places in other logs": 10,
    "damage to the log not reported": 277,
    "slots left as they are when a state is restored": 31,
    "late revisions let through by units": 4,
    "revisions of refused ones let through by units": 27,
    "failed events leave their traces": 19,
    "results of what stopped are left": 79,
    "outliers move the lateness": 80,
    "clashes taken for repeats": 11,
    "a node believes its own clock": 18,
    "a node does not wait for a second clock": 511,
    "clocks of nodes that left forgotten": 20_261_520_273,
    "late revisions let through where they come in": 9,
    "late retractions let through where they come in": 87,
    "events below promises let through": 9,
    "watermarks combined as the largest": 5,
    "publishers do not promise again": 7,
    "an end of a former generation believed": 10,
    "units do not resume": 34,
    "operators resume without their state": 446,
    "generations not logged": 487,
    "publishers in the log that left not announced": 974,
    "generation not announced to readers": 10,
    "types change in any order": 19,
    "reader ignores where its name was": 5,
    "reader ignores gaps": 4,
    "gap not announced to forgotten readers": 146,
    "the log hides types without subscribers": 766,
    "repeats in columns taken": 17,
    "columns behind the watermark let through": 113,
    "waiting columns of a unit omitted from checkpoints": 74,
    "columns held back that were withdrawn released": 257,
    "state of FlowOperation not restored": 8,
    "state of SequenceOperation not restored": 10,
    "state of SteppedQuery not restored": 57,
    "state of WindowedOperation not restored": 32,
    "state of WindowsOperation not restored": 10,
}
"""The seed of a world that showed a bug when it was last looked for, unless one of the first three did: tests begin there. If
worlds are drawn otherwise since, they take longer."""


def of_levels_and_raw_events(rng: Random) -> dict[str, Detector]:
    """Detectors that read raw events and what is derived of them: what is final goes by clocks."""
    return named(
        [cls() for cls in rng.choice([[Totals, Spans, Crests], [Level, Spans, Crests], [Totals, Pairs], [Level, Pairs]])]
    )


APPLICATIONS["replay ignores the recorded watermarks of units"] = of_levels_and_raw_events


def bug(make: Bug) -> Bug:
    """Enter a bug under its name."""
    BUGS[make.__name__.replace("_", " ")] = make
    return make


def first_world(name: str) -> int | None:
    """The seed of the first world that fails with the bug of that name in place; None if none of so many does."""
    for outcome in hunt(START.get(name, 0), MOST, application=APPLICATIONS.get(name, an_application)):
        if outcome.failure is not None:
            return outcome.seed
    return None


def _without(part: str, of: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """A checkpoint of a thing, without a part of it."""
    return lambda self: {name: value for name, value in of(self).items() if name != part}


# -- the log and recovery ---------------------------------------------------------------------------------------------


@bug
def output_before_the_log(patch: pytest.MonkeyPatch) -> None:
    def hasty(self: DurableCore, now: int) -> tuple[Effects, Write | None]:
        effects, write = settle(self, now)
        for _, outgoing in self._unsent:
            effects.sends += outgoing.sends
        self._unsent.clear()
        return effects, write

    settle = DurableCore.settle
    patch.setattr(DurableCore, "settle", hasty)


@bug
def consumers_not_put_right_after_recovery(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "correcting", lambda *_: Delta())


@bug
def replay_ignores_the_recorded_watermarks_of_units(patch: pytest.MonkeyPatch) -> None:
    process = Hierarchy.process
    patch.setattr(Hierarchy, "process", lambda self, batch, finals=None: process(self, batch))


@bug
def promises_of_a_replay_made_at_its_end(patch: pytest.MonkeyPatch) -> None:
    def hasty(broker: Broker, hierarchy: Hierarchy, *rest: Any) -> tuple[recovery.RecoveryResult, Batch]:
        with pytest.MonkeyPatch.context() as during:
            during.setattr(WatermarkTracker, "promised_here", lambda self, watermarks, reached=NEVER: None)
            result = recovery.recover(broker, hierarchy, *rest)
        broker.tracker.promised_here(hierarchy.promised, hierarchy.reached)
        return result

    patch.setattr(nodes, "recover", hasty)


@bug
def what_was_final_for_a_stopped_unit_withdrawn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Hierarchy, "halted_at", property(lambda self: {}))


@bug
def promises_for_the_silent_not_logged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "kept_word", lambda self, entries: None)


@bug
def log_cut_before_readers_have_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "needed", property(lambda self: self.offset))


# -- what a checkpoint forgets ----------------------------------------------------------------------------------------


@bug
def checkpoint_forgets_ids_seen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SeenIds, "part", lambda self, count: {})


@bug
def checkpoint_forgets_revisions_made(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ChangedEvents, "state", lambda self: {})


@bug
def checkpoint_forgets_waiting_events(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Unit, "state", _emptied("waiting", []))


@bug
def checkpoint_forgets_what_was_published(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lanes, "keyed_lanes", KeyedLanes)
    restore = Lane.restore

    def forgetful(self: Lane, state: Any) -> None:
        restore(self, state)
        self.published = []

    patch.setattr(Lane, "restore", forgetful)


@bug
def checkpoint_forgets_what_peers_promised(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WatermarkTracker, "restore", lambda self, state: None)


@bug
def checkpoint_forgets_readers(patch: pytest.MonkeyPatch) -> None:
    state = Log.state
    patch.setattr(Log, "state", lambda self: state(self) | {"readers": {}})


@bug
def checkpoint_forgets_places_in_other_logs(patch: pytest.MonkeyPatch) -> None:
    restore = lives.restore

    def forgetful(of: Broker, state: dict[str, object]) -> None:
        restore(of, state)
        of.tracker.log_offsets.clear()

    patch.setattr(lives, "restore", forgetful)


def _emptied(part: str, empty: Any) -> Callable[[Unit], dict[str, Any]]:
    state = Unit.state
    return lambda self: state(self) | {part: empty}


@bug
def damage_to_the_log_not_reported(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Broker, "lost_log", lambda self, common: None)


@bug
def slots_left_as_they_are_when_a_state_is_restored(patch: pytest.MonkeyPatch) -> None:
    set_attributes = attributes.set_attributes

    def lax(instance: Any, values: dict[str, Any]) -> None:
        names = {name for name in attributes.slots(type(instance)) if hasattr(instance, name)}
        set_attributes(instance, values | {name: getattr(instance, name) for name in names})

    patch.setattr(detector, "set_attributes", lax)


# -- units ------------------------------------------------------------------------------------------------------------


@bug
def late_events_let_through(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Unit, "_admit", _with_nothing_final(Unit._admit))


@bug
def late_revisions_let_through_by_units(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Unit, "_withdraw", _with_nothing_final(Unit._withdraw))


def _with_nothing_final(do: Callable[..., Any]) -> Callable[..., Any]:
    def lax(self: Unit, *args: Any) -> Any:
        final, self.timeline.final = self.timeline.final, NEVER
        try:
            return do(self, *args)
        finally:
            self.timeline.final = final

    return lax


@bug
def revisions_of_refused_ones_let_through_by_units(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Unit, "_applicable", lambda self, gone, revises: (gone, revises))


@bug
def states_taken_for_the_same(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lanes, "keyed_lanes", KeyedLanes)
    patch.setattr(lane, "same_state", lambda one, other: True)


@bug
def failed_events_leave_their_traces(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lanes, "keyed_lanes", KeyedLanes)
    patch.setattr(Lane, "_rehearse", lambda self, end, odd: None)


@bug
def results_of_what_stopped_are_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OperatorLane, "withdraw", lambda self, promised: [])


@bug
def outliers_move_the_lateness(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RobustSlack, "missed", lambda self, clk, events, arrived: self._stretch(clk - min(map(TS, events))))


# -- where publishers come in -----------------------------------------------------------------------------------------


@bug
def repeats_taken(patch: pytest.MonkeyPatch) -> None:
    add = SeenIds.add

    def taken(self: SeenIds, source: str, number: int) -> bool:
        add(self, source, number)
        return True

    def all_taken(self: SeenIds, runs: list[Run]) -> bool:
        for source, first, last in runs:
            for number in range(first, last + 1):
                add(self, source, number)
        return True

    def none_left_out(self: SeenIds, events: list[Any]) -> list[Any]:
        take_new(self, events)
        return events

    take_new = SeenIds.take_new
    patch.setattr(SeenIds, "add", taken)
    patch.setattr(SeenIds, "take_new", none_left_out)
    patch.setattr(SeenIds, "take_named", none_left_out)
    patch.setattr(SeenIds, "add_runs", all_taken)


@bug
def clashes_taken_for_repeats(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ingress, "came_again", lambda self, *_: None)


@bug
def a_node_believes_its_own_clock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sources, "agreed_wall", lambda own, others, within: own)


@bug
def a_node_does_not_wait_for_a_second_clock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sources, "UNDECIDED", 0)


@bug
def clocks_of_nodes_that_left_forgotten(patch: pytest.MonkeyPatch) -> None:
    begin = sources.Sources.__init__
    patch.setattr(sources.Sources, "__init__", lambda self, policy, now, nodes=(): begin(self, policy, now))


@bug
def late_revisions_let_through_where_they_come_in(patch: pytest.MonkeyPatch) -> None:
    timely = Ingress._timely

    def lax(self: Ingress, name: str, delta: Delta, bounds: Bounds) -> Delta:
        kept = timely(self, name, Delta(delta.inserts, [], delta.retracts), bounds)
        return Delta(kept.inserts, delta.revises, kept.retracts)

    patch.setattr(Ingress, "_timely", lax)


@bug
def late_retractions_let_through_where_they_come_in(patch: pytest.MonkeyPatch) -> None:
    timely = Ingress._timely

    def lax(self: Ingress, name: str, delta: Delta, bounds: Bounds) -> Delta:
        kept = timely(self, name, Delta(delta.inserts, delta.revises), bounds)
        return Delta(kept.inserts, kept.revises, delta.retracts)

    patch.setattr(Ingress, "_timely", lax)


@bug
def events_below_promises_let_through(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Admission, "_promised", lambda self, name: NEVER)


@bug
def watermarks_combined_as_the_largest(patch: pytest.MonkeyPatch) -> None:
    value = combining._TypeWatermark.value

    def largest(self: Any, *conditions: bool) -> int | None:
        least = value(self, *conditions)
        finite = [promise for promise in self.promises.values() if promise not in (None, END)]
        return least if least in (None, END) else max([least, *finite])

    patch.setattr(combining._TypeWatermark, "value", largest)


@bug
def publishers_do_not_promise_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Publication, "restarted", lambda self: None)


# -- ended streams resume ----------------------------------------------------------------------------------------------


@bug
def an_end_of_a_former_generation_believed(patch: pytest.MonkeyPatch) -> None:
    begin_generation = CombinedWatermarks.begin_generation
    patch.setattr(
        CombinedWatermarks, "begin_generation", lambda self, may_resume: begin_generation(self, lambda origin: origin == LOCAL)
    )
    patch.setattr(Generations, "ends_in_doubt", property(lambda self: False))


@bug
def units_do_not_resume(patch: pytest.MonkeyPatch) -> None:
    for kind in (DetectorUnit, OperatorUnit):
        patch.setattr(kind, "resume", lambda self, floor: [])


@bug
def operators_resume_without_their_state(patch: pytest.MonkeyPatch) -> None:
    resume = OperatorLane.resume

    def forgetful(self: OperatorLane, floor: int) -> list[Delta]:
        self._before = None
        return resume(self, floor)

    patch.setattr(OperatorLane, "resume", forgetful)


@bug
def generations_not_logged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "noted", lambda self, entry: None)


@bug
def publishers_in_the_log_that_left_not_announced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outbound, "with_log", lambda interest, peer, ever: interest)


@bug
def generation_not_announced_to_readers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Peer, "is_in", lambda self, generation: None)


# -- links and readers ------------------------------------------------------------------------------------------------


@bug
def resending_skips_one(patch: pytest.MonkeyPatch) -> None:
    restart = Link._restart

    def skipping(self: Link, now: int) -> None:
        if self._unacked:
            self._unacked.popleft()
        restart(self, now)

    patch.setattr(Link, "_restart", skipping)


@bug
def barrier_lets_go_one_too_early(patch: pytest.MonkeyPatch) -> None:
    released = Barrier._released

    def hasty(self: Barrier) -> Any:
        reached = self.watermark
        self.watermark = min(reached + 1, END)
        try:
            return released(self)
        finally:
            self.watermark = reached

    patch.setattr(Barrier, "_released", hasty)


@bug
def types_change_in_any_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(broker, "retractions_first", lambda deltas: deltas.items())
    patch.setattr(recovery, "retractions_first", lambda deltas: deltas.items())


@bug
def gap_not_announced_to_readers_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "start_of", lambda self, *_: (self.oldest, False))


@bug
def gap_not_announced_to_forgotten_readers(patch: pytest.MonkeyPatch) -> None:
    start_of = Log.start_of

    def silent(self: Log, peer: PeerKey, interest: Interest) -> tuple[int, bool]:
        offset, is_gap = start_of(self, peer, interest)
        is_back = interest.line == self.line or interest.line in self.former or interest.after is not None
        return offset, is_gap and not (is_back and peer not in self.readers)

    patch.setattr(Log, "start_of", silent)


@bug
def the_log_hides_types_without_subscribers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "skipped", lambda self, name, is_local: None)


@bug
def cursor_forgets_what_is_held_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Cursor, "offset", property(lambda self: self.log_offset[1]))


@bug
def reader_forgets_its_place(patch: pytest.MonkeyPatch) -> None:
    restarted = Subscription.restarted

    def without_place(self: Subscription) -> Parts:
        self._log_offset = None
        return restarted(self)

    patch.setattr(Subscription, "restarted", without_place)


def _heeding_no(kind: type[LastCommit | Gap]) -> Callable[[Subscription, Payload], None]:
    heed = Subscription._heed
    return lambda self, payload: None if isinstance(payload, kind) else heed(self, payload)


@bug
def reader_ignores_where_its_name_was(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Subscription, "_heed", _heeding_no(LastCommit))


@bug
def reader_ignores_gaps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Subscription, "_heed", _heeding_no(Gap))


# -- columns ----------------------------------------------------------------------------------------------------------


@bug
def repeats_in_columns_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SeenIds, "take_columns", lambda self, columns: b"\1" * len(columns))


@bug
def columns_behind_the_watermark_let_through(patch: pytest.MonkeyPatch) -> None:
    new = Ingress._new_columns
    patch.setattr(Ingress, "_new_columns", lambda self, head, delta, bounds: new(self, head, delta, Bounds(NEVER, bounds.high)))


@bug
def waiting_columns_of_a_unit_omitted_from_checkpoints(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Unit, "_unpack", lambda self: None)


@bug
def columns_held_back_that_were_withdrawn_released(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WaitingBlocks, "pick", lambda self, ids: iter(()))


# -- operators --------------------------------------------------------------------------------------------------------


def _not_restored(operation: type[Operation]) -> Bug:
    return lambda patch: patch.setattr(operation, "restore", lambda self, state: None)


_OPERATIONS: list[tuple[type[Operation], Application]] = [
    (WindowsOperation, of_windows),
    (SteppedWindows, of_windows),
    (SequenceOperation, of_sequences),
    (WindowedOperation, of_cql),
    (SteppedQuery, of_cql),
    (FlowOperation, of_flows),
]
for _operation, _application in _OPERATIONS:
    _name = f"state of {_operation.__name__} not restored"
    BUGS[_name], APPLICATIONS[_name] = _not_restored(_operation), _application


def _measure(names: list[str]) -> Iterator[str]:
    for name in names or BUGS:
        start = time.process_time()
        with pytest.MonkeyPatch.context() as patch:
            BUGS[name](patch)
            found = first_world(name)
        yield f'    "{name}": {found},  # {time.process_time() - start:.0f} s'


if __name__ == "__main__":
    for line in _measure(sys.argv[1:]):
        print(line, flush=True)
