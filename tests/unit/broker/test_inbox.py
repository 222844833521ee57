"""Raw events that reach a node twice, once directly and once by another node, count once for its detectors."""

from collections import Counter

from middleware.broker.inbox import Inbox
from middleware.broker.ingress.checks import Ingress
from middleware.broker.pacing import spacing
from middleware.broker.watermarks.combining import CombinedWatermarks
from middleware.link.codec import EventCodec
from middleware.link.encoding import encode_delta
from middleware.model.change import Delta
from middleware.model.event import END, Event, EventTypes


class Reading(Event):
    value: int


def readings(*ids: int) -> list[Event]:
    return [Reading(n, ts=n, id=n, source="s") for n in ids]


def inbox_of(drops: Counter[str]) -> tuple[Inbox, Ingress]:
    types = EventTypes([Reading])
    codec = EventCodec(types)
    ingress = Ingress(types, codec, drops)
    return Inbox(frozenset({"Reading"}), codec, drops, ingress), ingress


def taken(inbox: Inbox) -> list[int]:
    batch = inbox.take(CombinedWatermarks(), None, ())
    return [event.id for event in batch.deltas["Reading"].inserts] if batch and batch.deltas else []


def test_what_a_publisher_sent_here_before_it_moved_is_not_taken_again():
    drops = Counter()
    inbox, ingress = inbox_of(drops)
    for event in readings(1, 2, 3):
        ingress.seen.add(event.source, event.id)  # as the ingress does with what comes in here
    ((head, block),) = encode_delta("Reading", Delta(readings(2, 3, 4)), raw=True)
    inbox.put(("node", "b"), head, block, None)
    assert taken(inbox) == [4]
    inbox.put(("node", "b"), head, block, None)
    assert taken(inbox) == []
    assert drops["duplicate"] == 5


def test_derived_events_are_not_looked_up():
    inbox, _ = inbox_of(Counter())
    ((head, block),) = encode_delta("Reading", Delta(readings(1)))
    inbox.put(("node", "b"), head, block, None)
    inbox.put(("node", "b"), head, block, Delta(retracts=readings(1)))
    inbox.put(("node", "b"), head, block, None)
    assert taken(inbox) == [1]


def test_detectors_of_very_many_types_hear_of_mere_progress_now_and_then_and_of_turns_at_once():
    names = [f"Kind{number}" for number in range(300)]
    _, ingress = inbox_of(Counter())
    types = EventTypes([Reading])
    inbox = Inbox(frozenset([*names, "Reading"]), EventCodec(types), Counter(), ingress)
    promises, clock, wait = CombinedWatermarks(), 0, spacing(301)
    promises.offer("p", [*names, "Reading"])

    def step(now, *ids):
        if ids:
            ((head, block),) = encode_delta("Reading", Delta(readings(*ids)), raw=True)
            inbox.put(("publisher", "p"), head, block, None)
        return inbox.take(promises, clock, (), now=now)

    assert wait > 0 and not step(wait).is_partial
    assert inbox.due_at(promises, clock) is None
    clock = 5
    assert step(wait + 1) is None and inbox.due_at(promises, clock) == 2 * wait
    partial = step(wait + 2, 1)
    assert partial.is_partial and partial.clock == 5 and set(partial.deltas) == {"Reading"}
    whole = step(2 * wait)
    assert not whole.is_partial and whole.clock == 5 and not whole.deltas
    promises.promise("p", dict.fromkeys(names, 3))
    assert step(2 * wait + 1).watermarks == dict.fromkeys(names, 3), "types that were open are not any more"
    promises.promise("p", dict.fromkeys(names, 4))
    assert step(2 * wait + 2) is None, "they have moved on, no more"
    promises.promise("p", {**dict.fromkeys(names, 4), "Kind7": END})
    assert step(2 * wait + 3).watermarks["Kind7"] == END
