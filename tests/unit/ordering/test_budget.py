from middleware.ordering.alpha.budget import Budget, Load

K = 400_000_000


def loads(**each):
    return [Load(name, *values) for name, values in each.items()]


def test_what_nobody_subscribes_to_buffers():
    budget = Budget()
    for _ in range(5):
        alphas = budget.adapt(0.3, loads(low=(K, 5.0, 10), top=(K, 1.0, 10), idle=(K, 9.0, 0)), frozenset({"low", "top"}))
    assert alphas["idle"] == 1.0
    assert alphas["low"] == alphas["top"] == 1 / 32


def test_all_wait_the_same_time():
    alphas = Budget().adapt(
        0.3, loads(low=(K, 5.0, 10), top=(2 * K, 1.0, 10), new=(0, 0.0, 0)), frozenset({"low", "top", "new"})
    )
    assert alphas["top"] == 0.5
    assert alphas["low"] == 1.0, "it would win nothing by letting events go before the top does"
    assert alphas["new"] == 0.5


def test_under_pressure_the_poor_go_first_and_come_back():
    budget = Budget()
    subscribed = frozenset({"rich", "poor"})
    rows = loads(rich=(K, 10.0, 100), poor=(K, 90.0, 1))
    for _ in range(3):
        budget.adapt(0.3, rows, subscribed)
    before = budget.control.alpha
    alphas = budget.adapt(0.95, rows, subscribed)
    assert alphas == {"rich": before, "poor": 1.0}, "the one that costs most for what it wins"
    assert budget.adapt(0.95, rows, subscribed) == {"rich": 1.0, "poor": 1.0}, "still too much: all back off"
    for _ in range(6):
        alphas = budget.adapt(0.2, rows, subscribed)
    assert alphas["poor"] < 1.0


def test_without_anyone_poor_it_is_algorithm_3():
    budget = Budget()
    subscribed = frozenset({"one", "two"})
    rows = loads(one=(K, 10.0, 10), two=(K, 12.0, 10))
    seen = [budget.adapt(busy, rows, subscribed)["one"] for busy in (0.3, 0.4, 0.6, 0.85, 0.95, 0.4, 0.5)]
    assert seen == [0.5, 0.25, 0.125, 0.125, 1.0, 0.5, 0.45]
