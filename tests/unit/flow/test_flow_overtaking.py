"""What parts of a stage send may overtake each other: an item that moved to another part is not taken for what it was."""

import pytest

from detectors.flow import Flow
from detectors.flow.operations.sharding import part_of
from middleware.model.change import Delta
from middleware.model.event import Event, type_name


class Number(Event):
    value: int


class Out(Event):
    value: int


def flow_of_two_groupings():
    flow = Flow("overtaking")
    first = flow.source(Number).map(lambda number: [number.value], gives=int).group(lambda value: value, window=1, name="first")
    second = first.map(list, gives=int).group(lambda value: "all", window=1, name="second")
    second.map(lambda group: [group], gives=tuple).sink(Out)
    return flow


@pytest.mark.parametrize("new_first", [False, True])
@pytest.mark.parametrize("apart", [False, True])
def test_a_revision_that_moves_an_item_to_another_part(new_first, apart):
    operators = flow_of_two_groupings().operators(2)
    old = 1
    new = next(value for value in range(2, 50) if part_of(value, 2) != part_of(old, 2))
    running = {name: operator.start(name, 1) for name, operator in operators.items()}

    def reach(name, sent):
        """The changes that come to an operator, as its unit gives them."""
        subscribed = {type_name(each) for each in operators[name].subscribes}
        parts = [part for each in sent for kind, part in each.by_type().items() if kind in subscribed]
        inserts = [event for part in parts for event in part.inserts + [new for _, new in part.revises]]
        return Delta(inserts, [], [event for part in parts for event in part.retracts + [old for old, _ in part.revises]])

    def cut(delta):
        """From the source to what the first grouping's parts send, by part."""
        spread = [running["overtaking.Number"].apply(delta, 9, 0)]
        maps = [
            running[f"overtaking.Number.maps.{part}"].apply(reach(f"overtaking.Number.maps.{part}", spread), 9, 0)
            for part in (0, 1)
        ]
        return {
            part: running[f"overtaking.first.{part}"].apply(reach(f"overtaking.first.{part}", maps), 9, 0) for part in (0, 1)
        }

    before, after = (Number(value, ts=1, id=1, source="x") for value in (old, new))
    second = f"overtaking.second.{part_of('all', 2)}"
    held = {}

    def take(*sent):
        out = running[second].apply(reach(second, sent), 9, 0)
        for event in out.retracts:
            assert held.pop((event.source, event.id)) == event
        for was, now in out.revises:
            assert held[now.source, now.id] == was
            held[now.source, now.id] = now
        held.update({(event.source, event.id): event for event in out.inserts})

    take(*cut(Delta([before])).values())
    assert [event.value for event in held.values()] == [old]
    made = cut(Delta([after], [], [before]))
    tombstone, successor = made[part_of(old, 2)], made[part_of(new, 2)]
    assert tombstone.retracts and successor.inserts
    sent = [successor, tombstone] if new_first else [tombstone, successor]
    if apart:
        for each in sent:
            take(each)
    else:
        take(*sent)
    assert [event.value for event in held.values()] == [new]
