"""Operators that raise: wherever one does in whatever operation, the aggregator is as it was, and later answers are right."""

from random import Random

import pytest
from slackline_benchmarks.plain_fiba import PlainFiba

from detectors.window import Fiba, Monoid
from tests.property.window.naive import NaiveWindow

CLASSES = [PlainFiba, Fiba]


class Unlucky(Exception):
    """Raised by an operator."""


class Luck:
    """Raises at the call after the next ``left`` ones, once."""

    left: float = float("inf")

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            self.left = float("inf")
            raise Unlucky


def unlucky(luck: Luck, commutative: bool) -> Monoid:
    """Tuples, so that order, or the set of values at least, shows in every aggregate."""

    def lift(value):
        luck.spend()
        return (value,)

    def combine(one, other):
        luck.spend()
        return tuple(sorted(one + other)) if commutative else one + other

    def lower(aggregate):
        luck.spend()
        return aggregate

    return Monoid(name="unlucky", identity=(), lift=lift, combine=combine, lower=lower, commutative=commutative)


def history(random: Random, ordered: bool, steps: int):
    """Operations as (name, arguments), over few times, so that trees grow, split, merge and shrink."""

    def bound():
        return random.randrange(120)

    def time():
        return (bound(), random.choice("abc"), random.randrange(3)) if ordered else bound()

    def times(most):
        return [time() for _ in range(random.randrange(most))]

    def values(column):
        return [random.randrange(10) for _ in column]

    for _ in range(steps):
        match random.choice(["insert", "insert", "bulk", "bulk", "evict", "oldest", "cut", "round", "rounds", "clear", "ask"]):
            case "insert":
                yield "insert", (time(), random.randrange(10)), {"replace": random.random() < 0.3}
            case "bulk":
                column = sorted(times(random.choice([4, 60])))
                yield "bulk_insert", (column, values(column)), {"replace": random.random() < 0.3}
            case "evict":
                yield "evict", (time(),), {}
            case "oldest":
                yield "evict_oldest", (), {}
            case "cut":
                yield "bulk_evict", (random.choice([bound() // 4, bound()]),), {}
            case "round":
                yield "round", (bound() // 3, time(), random.randrange(10)), {}
            case "rounds":
                column = times(6)
                yield "rounds", (sorted(bound() // 2 for _ in column), column, values(column)), {}
            case "clear":
                if random.random() < 0.1:
                    yield "clear", (), {}
            case "ask":
                yield "range_query", (bound() // 2, bound()), {}


def seen(window) -> tuple:
    return len(window), window.oldest, window.youngest, tuple(window), window.query()


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("min_arity", [2, 3, 4, 8])
@pytest.mark.parametrize("commutative", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_raising_at_any_call_changes_nothing(kind, min_arity, commutative, ordered):
    """Each operation is tried with its first, second, ... call raising, until it gets through; then it must have its effect."""
    random, luck = Random(f"{min_arity} {commutative} {ordered}"), Luck()
    monoid = unlucky(luck, commutative)
    window = kind(monoid, min_arity=min_arity, ordered=ordered)
    naive = NaiveWindow(unlucky(Luck(), commutative), ordered=ordered)
    raised = 0
    for name, arguments, options in history(random, ordered, 45):
        if name.startswith("evict") and not len(naive):
            continue
        before = seen(naive)
        for call in range(100_000):
            luck.left = call
            try:
                given = getattr(window, name)(*arguments, **options)
            except Unlucky:
                raised += 1
                if call < 4 or call % 11 == 0:  # the tree is the same one throughout: what is left behind shows later, too
                    window.check()
                    assert seen(window) == before, (name, call)
                continue
            break
        luck.left = float("inf")
        expected = getattr(naive, name)(*arguments, **options)
        assert given == expected or list(given) == list(expected), name
        window.check()
        assert seen(window) == seen(naive), name
    assert raised > 50


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("min_arity", [2, 8])
@pytest.mark.parametrize("seed", range(20))
def test_a_later_answer_is_right_where_nothing_was_tried_again(kind, min_arity, seed):
    """Most operations fail once and are dropped; those that went through are what counts."""
    random, luck = Random(seed), Luck()
    window, naive = kind(unlucky(luck, False), min_arity=min_arity), NaiveWindow(unlucky(Luck(), False))
    for name, arguments, options in history(random, False, 60):
        if name.startswith("evict") and not len(naive):
            continue
        luck.left = random.choice([random.randrange(4), random.randrange(200), float("inf")])
        try:
            getattr(window, name)(*arguments, **options)
        except Unlucky:
            pass
        else:
            getattr(naive, name)(*arguments, **options)
        luck.left = float("inf")
        window.check()
        assert seen(window) == seen(naive), name


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_values_that_cannot_be_combined_change_nothing(kind):
    """Built-in operators raise, too, if only where they are not native: what is no number among numbers."""
    from detectors.window import MAX

    window = kind(MAX, min_arity=2)
    window.bulk_insert(range(30), [float(ts) for ts in range(30)])
    for operation in (
        lambda: window.insert(12, "twelve"),
        lambda: window.insert(40, "forty"),
        lambda: window.bulk_insert([3, 4, 50], [1.0, "four", 2.0]),
        lambda: window.round(4, 41, "round"),
        lambda: window.rounds([4, 5], [41, 42], [1.0, "round"]),
    ):
        with pytest.raises(TypeError):
            operation()
        window.check()
        assert (len(window), window.oldest, window.query()) == (30, 0, 29.0)
