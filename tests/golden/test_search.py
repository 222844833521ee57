"""The inverted index: the same postings and updates, whoever keeps it and in whatever order pages come."""

import os
from random import Random

import pytest
from slackline_benchmarks.flow_grid import cell

from middleware.link.codec import Drops, EventCodec
from middleware.link.encoding import encode_delta
from middleware.model.errors import ScenarioError
from middleware.model.event import IDENTITY
from middleware.model.time import SECOND
from middleware.runtime.engine import run
from middleware.runtime.scenario import load_scenario
from middleware.testing.flows import sequential
from scenarios.search.index import Indexed, Page, Posted, flow, search, words_of
from scenarios.search.pages import pages
from scenarios.search.workers import Mode, placed

PAGES = [
    Page("one", "The cat and the dog", ts=1, id=1, source="a"),
    Page("two", "a dog", ts=2, id=1, source="b"),
    Page("three", "The dog, the dog!", ts=2, id=2, source="b"),
    Page("empty", "", ts=3, id=2, source="a"),
    Page("four", "CAT", ts=4, id=3, source="a"),
]

POSTED = [
    ("the", "one", (0, 3), 0, ""),
    ("cat", "one", (1,), 0, ""),
    ("and", "one", (2,), 0, ""),
    ("dog", "one", (4,), 0, ""),
    ("a", "two", (0,), 0, ""),
    ("dog", "two", (1,), 1, "one"),
    ("the", "three", (0, 2), 1, "one"),
    ("dog", "three", (1, 3), 2, "two"),
    ("cat", "four", (0,), 1, "one"),
]

INDEXED = [
    ("one", ("the", "cat", "and", "dog"), (0, 0, 0, 0)),
    ("two", ("a", "dog"), (0, 1)),
    ("three", ("the", "dog"), (1, 2)),
    ("four", ("cat",), (1,)),
]


def results(made):
    finals = [event for events in made.finals.values() for event in events]
    posted = sorted((event for event in finals if isinstance(event, Posted)), key=lambda event: (event.ts, event.cause))
    indexed = sorted(
        (event for event in finals if isinstance(event, Indexed)), key=lambda event: (event.ts, event.page == "three")
    )
    return (
        [(event.word, event.page, event.places, event.rank, event.before) for event in posted],
        [(event.page, event.words, event.ranks) for event in indexed],
    )


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("batch", [1, 3])
def test_a_small_library(workers, seed, batch):
    arrived = [*PAGES, PAGES[1]]
    Random(seed).shuffle(arrived)
    assert results(run(arrived, search(workers), batch=batch)) == (POSTED, INDEXED)


def test_the_sequential_run_has_them_too():
    made = sequential(flow().nodes, PAGES)
    assert [each.fields for each in made if each.event_type is Posted] == POSTED
    assert [each.fields for each in made if each.event_type is Indexed] == INDEXED


@pytest.mark.parametrize("workers", [1, 3])
def test_generated_pages(workers):
    given = [Page(**row) for row in pages(3, 4.0)["search.Page"].to_pylist()]
    generator = Random(1)
    arrived = sorted(given, key=lambda page: page.ts + generator.expovariate(5) * SECOND)
    expected = [each.fields for each in sequential(flow(False).nodes, given)]
    assert len(given) == 80 and len(expected) > 3_000
    made = run(arrived, search(workers, updates=False), batch=4)
    assert results(made)[0] == expected
    assert made.corrected > 0


def test_wikipedia():
    from scenarios.search import wikipedia

    try:
        rows = wikipedia.pages(0, 1.5)["search.Page"].to_pylist()
    except ScenarioError:
        pytest.skip(f"no extract of Wikipedia here: set SLACKLINE_DATA, which is {os.environ.get('SLACKLINE_DATA')!r}")
    given = [Page(**row) for row in rows]
    assert {"Anarchism"} <= {page.title for page in given}
    expected = [each.fields for each in sequential(flow(False).nodes, given)]
    assert results(run(given[8::-1] + given[:8:-1], search(2, updates=False), batch=5))[0] == expected
    assert len(expected) > 8_000


def test_what_changes_hands_survives_the_wire():
    """Every event that an operator publishes is decoded to what it was, by who knows the types alone."""
    plan = load_scenario("search")
    codec, seen = EventCodec(plan.types), set()

    def watch(batch):
        for name, delta in batch.deltas.items():
            drops = Drops()
            back = [codec.decode(head, block, drops) for head, block in encode_delta(name, delta)]
            assert not drops
            assert [event for part in back for event in part.inserts] == delta.inserts
            seen.add(name)

    more = [Page(f"page {number}", "the rest", ts=5 + number, id=number, source="c") for number in range(20)]
    run(PAGES + more, plan.detectors, watch=watch)
    assert len(seen) == len(plan.derived)


def test_identities_are_the_same_in_every_order():
    def identities(arrived):
        made = run(arrived, search(3), batch=1)
        return {IDENTITY(event) for events in made.finals.values() for event in events}

    assert identities(PAGES) == identities(PAGES[::-1])


def test_words():
    assert list(words_of("It's 42 Straße, no_one")) == ["it", "s", "straße", "no", "one"]


def test_a_scenario_on_other_workers():
    plan = load_scenario("search")
    assert sorted(plan.with_workers(3).placement) == ["entry", "worker0", "worker1", "worker2"]
    assert plan.with_workers(3).placement["worker2"] == {"search.Page.maps.2", "search.post.2", "search.gather.2"}
    assert plan.with_workers(1).placement == {"worker0": {"search.Page", "search.post", "search.gather"}}
    assert plan.with_workers(1).entry == "worker0"
    with pytest.raises(ScenarioError, match="at least 1"):
        plan.with_workers(0)
    with pytest.raises(ScenarioError, match="do not run in parts"):
        load_scenario("soccer").with_workers(2)


def test_optimism_releases_no_later_than_blocking_does():
    """In virtual time, so that it is a count and no measurement."""
    cells = {mode: cell(3, 300, 0.5, mode=mode) for mode in Mode}
    assert cells[Mode.OPTIMISTIC].release < cells[Mode.OOP].release < cells[Mode.IOP].release
    assert cells[Mode.IOP].ratio == cells[Mode.OOP].ratio == 1.0 <= cells[Mode.OPTIMISTIC].ratio < 1.1
    assert set(placed(2, Mode.OOP).plan.policies_for) == {"search.post.0", "search.post.1"}
