"""Looking things up in the live index, while it is corrected."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from middleware.model.change import Batch, Delta
from middleware.runtime.engine import run
from scenarios.search.index import Page, Posted, search, words_of
from scenarios.search.lookup import LiveIndex

TEXTS = {
    "one": "the quick brown fox",
    "two": "the brown quick fox jumps over the fox",
    "three": "a lazy dog",
}


def library(order=("one", "two", "three")):
    index = LiveIndex()
    arrived = [
        Page(name, TEXTS[name], ts=list(TEXTS).index(name) + 1, id=ord(name[0]) + len(name), source="x") for name in order
    ]
    run(arrived, search(2, updates=False), batch=1, watch=index.take)
    return index


def found(index, query):
    return [hit.page for hit in index.search(query)]


def test_words_and_phrases():
    index = library()
    assert (index.pages, index.words, index.changed) == (3, 9, 0)
    assert found(index, "fox") == ["two", "one"]
    assert found(index, "fox jumps") == ["two"]
    assert found(index, '"quick brown"') == ["one"]
    assert found(index, '"brown quick" the') == ["two"]
    assert found(index, "dog fox") == []
    assert found(index, '"" ?') == []
    (hit,) = index.search('"brown quick fox"')
    assert hit.places == (1,) and hit.is_final


def test_what_is_corrected_is_corrected_here():
    index = library(("three", "two", "one"))
    assert index.changed > 0
    assert [(posted.page, posted.rank) for posted in index.posting_list("fox")] == [("one", 0), ("two", 1)]
    assert found(index, '"quick brown"') == ["one"]


def test_a_posting_that_is_not_final_says_so_and_one_that_is_withdrawn_is_gone():
    index = LiveIndex()
    posted = Posted("fox", "one", (3,), 0, "", ts=5, id=1, source="post")
    index.take(Batch({"search.Posted": Delta([posted])}, {"search.Posted": 4}))
    assert [hit.is_final for hit in index.search("fox")] == [False]
    index.take(Batch({"search.Posted": Delta([], [], [posted])}))
    assert index.search("fox") == [] and (index.pages, index.words) == (0, 0)


@given(st.lists(st.text("ab ", max_size=12), max_size=6), st.text("ab ", max_size=5), st.integers(0, 99))
def test_against_looking_at_the_pages(texts, query, seed):
    given_pages = [Page(f"p{number}", text, ts=number + 1, id=number, source="x") for number, text in enumerate(texts)]
    Random(seed).shuffle(given_pages)
    index = LiveIndex()
    run(given_pages, search(1, updates=False), batch=2, watch=index.take)
    terms = list(words_of(query))
    whole = {page.title for page in given_pages if terms and set(terms) <= set(words_of(page.text))}
    assert set(found(index, query)) == whole
    phrase = {page.title for page in given_pages if terms and f" {' '.join(terms)} " in f" {' '.join(words_of(page.text))} "}
    assert set(found(index, f'"{query}"')) == phrase
