"""Flows that are not sound are turned down before they run, with words that say why; sound ones can be drawn."""

import asyncio
import pickle
from collections.abc import Iterable
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest

from detectors.flow import Flow, FlowError
from detectors.flow.graphs.flow_graph import FlowNodeKind
from detectors.flow.graphs.flow_stages import stages
from detectors.flow.operations.flow_operator import operators
from detectors.flow.operations.items import same
from detectors.flow.operations.sharding import part_of
from middleware.model.change import Delta
from middleware.model.errors import DetectorError
from middleware.model.event import END, Event, type_name
from middleware.runtime.engine import run
from middleware.testing.flows import check_flow


class Page(Event):
    text: str


class Found(Event):
    word: str
    count: int


class Nothing(Event):
    pass


class Word(NamedTuple):
    text: str


class Tally(NamedTuple):
    text: str
    count: int

    @property
    def word(self) -> str:
        return self.text


def words(page: Page) -> Iterable[Word]:
    return [Word(text) for text in page.text.split()]


def tally(count, word: Word) -> tuple[int, list[Tally]]:
    count = (count or 0) + 1
    return count, [Tally(word.text, count)]


def by_text(word: Word | Tally) -> str:
    return word.text


def counted():
    flow = Flow("counted")
    flow.source(Page).map(words).stateful(tally, key=by_text).sink(Found)
    return flow


def broken(*names):
    """Flows with one thing wrong each."""

    def no_sink(flow):
        flow.source(Page).map(words)

    def leads_nowhere(flow):
        flow.source(Page).map(words)
        flow.source(Page).map(lambda page: [(page.text, 1)]).sink(Found)

    def never_closed(flow):
        flow.cycle().sink(Found)

    def wrong_type(flow):
        flow.source(Page).map(words).map(lambda_of(Page)).sink(Found)

    def unknown_type(flow):
        flow.source(Page).map(lambda page: page.text.split()).group(len, window=2).sink(Found)

    def no_group(flow):
        cycle = flow.cycle()
        again = flow.source(Page).union(cycle).map(lambda value: [value])
        cycle.close(again)
        again.sink(Found)

    def two_groups(flow):
        cycle = flow.cycle(gives=Tally)
        one = flow.source(Page).map(words).union(cycle).group(by_text, window=2).map(lambda g: [Tally("", 1)], gives=Tally)
        two = one.group(by_text, window=2).map(lambda g: [Tally("", 1)], gives=Tally)
        cycle.close(two)
        two.sink(Found)

    def short_window(flow):
        cycle = flow.cycle(gives=Tally)
        back = flow.source(Page).map(words).union(cycle).group(by_text, window=1).map(lambda g: [], gives=Tally)
        cycle.close(back)
        back.sink(Found)

    def no_map(flow):
        cycle = flow.cycle()
        group = flow.source(Page).map(words).union(cycle).group(lambda value: 1, window=2)
        cycle.close(group)
        group.sink(Found)

    def same_type(flow):
        cycle = flow.cycle(gives=Word)
        back = flow.source(Page).map(words).union(cycle).group(by_text, window=2).map(lambda g: [], gives=Word)
        cycle.close(back)
        back.sink(Found, fields=lambda word: (word.text, 1))

    def nothing_to_fill(flow):
        flow.source(Page).map(words).sink(Nothing)

    return locals()[names[0]]


def lambda_of(accepts):
    def takes(value):
        return [value]

    takes.__annotations__ = {"value": accepts}
    return takes


def test_any_says_nothing():
    flow = Flow("anything")
    flow.source(Page).map(lambda_of(Any), gives=Any).map(words).filter(lambda_of(Any)).map(lambda_of(Any)).sink(Found)
    flow.check()
    annotations = [(node.accepts, node.gives) for node in flow.nodes if node.name == "takes"]
    assert annotations[0] == (None, None) and {accepts for accepts, _ in annotations} == {None}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("no_sink", "has no sink"),
        ("leads_nowhere", "map 'words' leads nowhere"),
        ("never_closed", "was never closed"),
        ("wrong_type", "gives Word, but map 'takes' takes Page"),
        ("unknown_type", "nothing declares what that gives"),
        ("no_group", "has no grouping"),
        ("two_groups", "has 2 groupings"),
        ("short_window", "has window=1"),
        ("no_map", "has no map"),
        ("same_type", "feeds back Word, as map 'words' gives"),
        ("nothing_to_fill", "has no fields of its own"),
    ],
)
def test_unsound_flows_are_turned_down(wrong, says):
    flow = Flow("broken")
    broken(wrong)(flow)
    with pytest.raises(FlowError, match=says):
        flow.operators()


def test_what_cannot_be_put_together_says_so_at_once():
    flow = Flow("one")
    pages = flow.source(Page)
    with pytest.raises(FlowError, match="no event type"):
        flow.source(str)
    with pytest.raises(FlowError, match="give a plain word"):
        Flow("two words")
    with pytest.raises(FlowError, match="window=0"):
        pages.group(lambda page: 1, window=0)
    with pytest.raises(FlowError, match="no event type"):
        pages.sink(Word)
    with pytest.raises(FlowError, match="has no word, count"):
        pages.sink(Found)
    with pytest.raises(FlowError, match="joins two flows"):
        pages.union(Flow("other").source(Page))
    cycle = flow.cycle()
    cycle.close(pages)
    with pytest.raises(FlowError, match="closed already"):
        cycle.close(pages)
    with pytest.raises(FlowError, match="0 partitions"):
        counted().operators(0)


def test_names_of_operators_and_types():
    flow = counted()
    assert sorted(flow.operators()) == ["counted.Page", "counted.tally"]
    assert flow.operators() is flow.operators(1)
    operators = flow.operators(2)
    assert sorted(operators) == [
        "counted.Page",
        "counted.Page.maps.0",
        "counted.Page.maps.1",
        "counted.tally.0",
        "counted.tally.1",
    ]
    assert [type_name(each) for each in operators["counted.tally.1"].subscribes] == ["counted.words_to_tally_1"]
    assert operators["counted.Page.maps.0"].publishes == operators["counted.Page.maps.1"].publishes


def test_items_can_be_pickled_and_types_made_twice_are_one():
    (once, again) = (counted().operators(2)["counted.tally.0"].subscribes for _ in range(2))
    assert once == again
    item = once[0](Word("a"), (0, "x", 1), ts=1)
    assert pickle.loads(pickle.dumps(item)) == item
    assert type_name(type(item)) == "counted.words_to_tally_0"


def test_a_map_behind_two_sources_runs_behind_each():
    flow = Flow("both")
    flow.source(Page).union(flow.source(Found)).map(lambda event: [("x", 1)], name="either").sink(Found)
    assert [[node.name for node in stage.maps] for stage in stages(flow)] == [["either"], ["either"]]


def test_drawings():
    flow = counted()
    assert flow.text().splitlines() == [
        "flow counted",
        "  source Page             -> words",
        "  map    words            -> tally.union",
        "  cycle  tally.state      -> tally.union",
        "  union  tally.union      -> tally",
        "  group  tally (window 2) -> tally.combine",
        "  map    tally.combine    -> tally.states, tally.outputs",
        "  map    tally.states     -> tally.state (back)",
        "  map    tally.outputs    -> Found",
        "  sink   Found",
    ]
    drawn = ElementTree.fromstring(flow.svg(parts := 4))
    boxes = [each for each in drawn.iter() if each.tag.endswith("rect")]
    labels = "".join(drawn.itertext())
    assert len(boxes) == len(flow.nodes)
    assert "window 2 ×4" in labels
    assert f"spread over {parts}" in labels


def test_keys_that_are_equal_have_one_part():
    for parts in (1, 2, 7):
        assert part_of(1, parts) == part_of(1.0, parts) == part_of(True, parts)
        assert {part_of(str(number), parts) for number in range(100)} == set(range(parts))
    with pytest.raises(DetectorError, match="cannot be a key"):
        part_of([1], 2)


def pages(*texts):
    return [Page(text, ts=place, id=place, source="x") for place, text in enumerate(texts, 1)]


@pytest.mark.parametrize("error", [ValueError, SystemExit, asyncio.CancelledError])
def test_an_item_at_which_a_function_raises_is_quarantined_and_the_rest_goes_on(error):
    def risky(page: Page) -> Iterable[Word]:
        if page.text == "bad":
            raise error("this page")
        return words(page)

    flow = Flow("risky")
    flow.source(Page).map(risky).stateful(tally, key=by_text).sink(Found)
    operation = flow.operators()["risky.Page"].start("risky.Page", 1)
    out = operation.apply(Delta(pages("a", "bad", "b")), 3, 0)
    assert [event.value.text for event in out.inserts] == ["a", "b"]
    ((event, failure),) = operation.failed(3)
    assert (event.source, event.id, event.ts) == ("x", 2, 2)
    assert "risky: Traceback" in failure and "this page" in failure
    assert operation.failed(END) == []


def test_an_item_that_is_withdrawn_is_no_failure_any_more():
    flow = Flow("risky")
    flow.source(Page).map(lambda page: [1 // 0]).map(lambda one: [("", one)]).sink(Found)
    operation = flow.operators()["risky.Page"].start("risky.Page", 1)
    (page,) = pages("x")
    operation.apply(Delta([page]), 1, 0)
    assert operation.failures
    operation.apply(Delta([], [], [page]), 2, 0)
    assert not operation.failed(END)


def test_values_of_the_wrong_type_do_not_leave_a_stage():
    flow = Flow("liar")
    flow.source(Page).map(lambda page: [page.text], gives=int).group(lambda value: 0, window=1).sink(Found)
    operation = flow.operators()["liar.Page"].start("liar.Page", 1)
    assert not operation.apply(Delta(pages("a")), 1, 0)
    assert "Expected `int`" in next(iter(operation.failed(END)))[1]


def test_a_cycle_that_feeds_back_more_than_state_comes_to_an_end():
    flow = Flow("endless")
    cycle = flow.cycle(gives=Tally)
    back = flow.source(Page).map(words).union(cycle).group(by_text, window=2).map(lambda group: [Tally(group[-1].text, 1)])
    cycle.close(back.map(lambda one: [one], gives=Tally))
    back.sink(Found)
    (group,) = [each for each in flow.operators().values() if each.stage.entry.kind is FlowNodeKind.GROUP]
    feed = flow.operators()["endless.Page"].start("endless.Page", 1).apply(Delta(pages("a")), 1, 0)
    operation = group.start("endless", 2)
    assert len(operation.apply(feed, 1, 0).inserts) < 200
    assert "does not come to rest" in operation.failed(END)[0][1]


def test_what_is_fed_back_keeps_its_key():
    flow = Flow("stray")
    cycle = flow.cycle(gives=Tally)
    back = flow.source(Page).map(words).union(cycle).group(by_text, window=2)
    made = back.map(lambda group: [] if isinstance(group[-1], Tally) else [Tally("elsewhere", 1)], gives=Tally)
    cycle.close(made)
    made.sink(Found)
    feed = flow.operators()["stray.Page"].start("stray.Page", 1).apply(Delta(pages("a")), 1, 0)
    (group,) = [each for each in flow.operators().values() if each.stage.entry.kind is FlowNodeKind.GROUP]
    operation = group.start("stray", 2)
    operation.apply(feed, 1, 0)
    assert "what is fed back keeps its key" in operation.failed(END)[0][1]


def test_states_may_be_changed_in_place():
    class Box:
        def __init__(self):
            self.words = []

    def boxed(box, word: Word) -> tuple[Box, list[tuple[str, int]]]:
        box = box or Box()
        box.words.append(word.text)
        return box, [(",".join(box.words), len(box.words))]

    def listed(texts, word: Word) -> tuple[dict[str, list[str]], list[tuple[str, int]]]:
        texts = texts or {"all": []}
        texts["all"].append(word.text)
        return texts, [(",".join(texts["all"]), len(texts["all"]))]

    for fold in (boxed, listed):
        for fuse in (True, False):
            flow = Flow("changing")
            flow.source(Page).map(words).stateful(fold, key=lambda word: 0, name="all").sink(Found)
            made = run(pages("a", "b", "c")[::-1], operators(flow, 1, fuse), batch=1)
            assert [event.word for event in made.finals["changing.all"]] == ["a", "a,b", "a,b,c"]


@pytest.mark.parametrize(
    ("one", "other", "are"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (1, True, False),
        ((1, "a"), (1, "a"), True),
        ((1, 2), (1, 2.0), False),
        (Word("a"), Word("a"), True),
        (Word("a"), ("a",), False),
        (Word(1), Word(1.0), False),
        (Page("a", ts=1), Page("a", ts=1), True),
        (Page(1, ts=1), Page(1.0, ts=1), False),
        ([1], [1], True),
        ([1], [True], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        (float("nan"), float("nan"), False),
        (0.0, -0.0, False),
    ],
)
def test_what_counts_as_the_same_value(one, other, are):
    assert same(one, other) is are
    assert same(one, one)


def test_values_that_cannot_be_compared_are_not_the_same():
    class Stubborn:
        def __eq__(self, other):
            raise ValueError("no truth value")

        __hash__ = None

    assert not same(Stubborn(), Stubborn())


def test_flows_that_do_not_keep_the_rules_are_found_out():
    check_flow(counted(), pages("a b", "b a", "", "c a"))
    seen: list[str] = []

    def remembering(page: Page) -> Iterable[Word]:
        seen.append(page.text)
        return [Word(str(len(seen)))]

    flow = Flow("impure")
    flow.source(Page).map(remembering).map(lambda word: [(word.text, 1)]).sink(Found)
    with pytest.raises(AssertionError, match="different outputs for the same value"):
        check_flow(flow, pages("a", "b", "c"))
