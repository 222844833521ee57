"""Examples 1 to 6 of Li et al. (ICDCSW 2007), event by event: the paper's algorithms as printed, and the operator beside them.

Where the text mixes up instances, the algorithms count: b8 of Example 5 goes with a7 too, and the divider of Example 6 needs a
window of 8 for the sequence that it names.
"""

import pytest
from slackline_benchmarks.sequence_study import Reading, Scan

from detectors.sequence import SequenceQuery
from detectors.sequence.algorithm import Algorithm
from detectors.sequence.sequence_operator import SequenceOperation
from middleware.model.change import Delta
from middleware.model.errors import DetectorError
from middleware.model.event import END, Event
from middleware.model.operator import Origin
from tests.oracles.sequence_runs import plain_sequence


class A(Event):
    pass


class B(Event):
    pass


class D(Event):
    pass


EVENTS = {"A": A, "B": B, "D": D}
STREAM = ["a3", "b6", "a7", "d10", "b11", "c13", "d15", "f17"]  # Figure 2(c), without what precedes a3
cores = pytest.mark.parametrize("studied", [plain_sequence, None], ids=["oracle", "core"])
OUT_OF_ORDER = [Algorithm.SORT, Algorithm.CLOCK, Algorithm.PARTITION]


def readings(*names):
    return [Reading(name[0].upper(), int(name[1:])) for name in names]


def take(scan, *names):
    """What each event leads to, in the paper's way of writing."""
    return [" ".join(map(str, sequence)) for event in readings(*names) for sequence in scan.take(event)]


def stacks(scan):
    return [[str(instance) for instance in stack.instances] for stack in scan.stacks]


def operator(*names, within=10, studied=None):
    """The sequences that the operator makes of events that come one by one."""
    query = SequenceQuery(
        f"EVENT SEQ(A a, B b, D d) WITHIN {within} ns RETURN Found(a.ts AS a, b.ts AS b, d.ts AS d)", EVENTS.values()
    )
    operation = SequenceOperation(query.plan, Origin("Paper", 1), studied=studied)
    found = []
    for number, (kind, ts) in enumerate(readings(*names)):
        if kind in EVENTS:
            delta = operation.apply(Delta([EVENTS[kind](ts=ts, id=number)]), END, -1)
            found.append(sorted(f"a{each.a} b{each.b} d{each.d}" for each in delta.inserts))
    return found


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_example_1_stacks_and_pointers(algorithm):
    scan = Scan("ABD", 10, algorithm, purges=False)
    found = [take(scan, name) for name in STREAM]
    assert stacks(scan) == [["a3()", "a7()"], ["b6(a3)", "b11(a7)"], ["d10(b6)", "d15(b11)"]]
    assert [each for each in found if each] == [["a3 b6 d10"], ["a7 b11 d15"]]
    built, in_vain = scan.work.constructed, scan.work.filtered
    assert (built, in_vain) == ((2, 0) if algorithm is Algorithm.PARTITION else (4, 2))


@cores
def test_example_1_operator(studied):
    assert operator(*STREAM, studied=studied) == [[], [], [], ["a3 b6 d10"], [], ["a7 b11 d15"]]


def test_section_2_2_2_purge_by_the_window():
    scan = Scan("ABD", 10, Algorithm.TOTAL_ORDER)
    take(scan, *STREAM[:6])
    assert stacks(scan)[0] == ["a3()", "a7()"]
    take(scan, "d15")
    assert stacks(scan)[0] == ["a7()"]
    take(scan, "f17")
    assert stacks(scan)[1] == ["b11(a7)"]


@cores
def test_example_2_incomplete_retrieval(studied):
    stream = ["b1", *STREAM, "a0", "d2"]
    blind = Scan("ABD", 10, Algorithm.TOTAL_ORDER, purges=False)
    assert "a0 b1 d2" not in take(blind, *stream)
    for algorithm in OUT_OF_ORDER:
        scan = Scan("ABD", 10, algorithm)
        take(scan, *stream[:-1])
        assert take(scan, "d2") == ["a0 b1 d2"]
    assert operator(*stream, studied=studied)[-1] == ["a0 b1 d2"]


def test_example_3_misplacement_under_total_order():
    scan = Scan("ABD", 10, Algorithm.TOTAL_ORDER, purges=False)
    take(scan, *STREAM)
    assert take(scan, "b8") == []
    assert stacks(scan)[1] == ["b6(a3)", "b11(a7)", "b8(a7)"]
    wrong = take(scan, "d2")
    assert stacks(scan)[2][-1] == "d2(b8)"
    assert {"a3 b6 d2", "a3 b11 d2"} <= set(wrong)


@pytest.mark.parametrize("algorithm", OUT_OF_ORDER)
def test_example_3_put_right(algorithm):
    scan = Scan("ABD", 10, algorithm)
    take(scan, *STREAM)
    assert "a7 b8 d10" in take(scan, "b8")
    assert take(scan, "d2") == []


def test_example_4_unauthorized_purge():
    blind = Scan("ABD", 10, Algorithm.TOTAL_ORDER)
    take(blind, *STREAM)
    assert "a3()" not in stacks(blind)[0]
    assert "a3 b8 d10" not in take(blind, "b8")
    early = Scan("ABD", 10, Algorithm.PARTITION, slack=2)
    take(early, *STREAM)
    assert "a3 b8 d10" not in take(early, "b8")  # it is late by 9, more than K allows for
    enough = Scan("ABD", 10, Algorithm.PARTITION, slack=9)
    take(enough, *STREAM)
    assert "a3 b8 d10" in take(enough, "b8")


@pytest.mark.parametrize("algorithm", OUT_OF_ORDER)
def test_example_5_a_late_instance_resets_pointers(algorithm):
    scan = Scan("ABD", 10, algorithm)
    take(scan, *STREAM)
    assert stacks(scan)[2] == ["d10(b6)", "d15(b11)"]
    built = scan.work.constructed
    assert sorted(take(scan, "b8")) == ["a3 b8 d10", "a7 b8 d10", "a7 b8 d15"]
    assert scan.work.constructed - built == 4  # and a3 b8 d15, which spans 12
    assert stacks(scan)[1:] == [["b6(a3)", "b8(a7)", "b11(a7)"], ["d10(b8)", "d15(b11)"]]


@cores
def test_example_5_operator(studied):
    assert operator(*STREAM, "b8", studied=studied)[-1] == ["a3 b8 d10", "a7 b8 d10", "a7 b8 d15"]


def test_example_6_purge_by_slack():
    scan = Scan("ABD", 7, Algorithm.PARTITION, slack=2)
    gone = {}
    for name in ["a3", "b6", "d10", "c13", "f16", "f21"]:
        before = {str(i.event) for stack in scan.stacks for i in stack.instances}
        take(scan, name)
        after = {str(i.event) for stack in scan.stacks for i in stack.instances}
        gone.update(dict.fromkeys(before - after, name))
    assert gone == {"a3": "c13", "b6": "f16", "d10": "f21"}


def test_example_6_divider():
    for within, expected in ((7, []), (8, ["a7 b11 d15"])):
        plain = Scan("ABD", within, Algorithm.CLOCK, slack=10)
        divided = Scan("ABD", within, Algorithm.PARTITION, slack=10)
        for scan in (plain, divided):
            take(scan, *STREAM[:6])
        before = plain.work.constructed, divided.work.constructed
        assert take(plain, "d15") == take(divided, "d15") == expected
        assert plain.held == divided.held == 6
        assert plain.work.constructed - before[0] == 3
        assert divided.work.constructed - before[1] == len(expected)


@pytest.mark.parametrize("seed", range(40))
def test_all_algorithms_find_what_the_operator_finds(seed):
    from random import Random

    random = Random(seed)
    events = [Reading(random.choice("ABDX"), ts) for ts in random.sample(range(60), 25)]
    names = [str(event) for event in events]
    expected = sorted(name for found in operator(*names, within=12) for name in found)
    for algorithm in OUT_OF_ORDER:
        assert sorted(take(Scan("ABD", 12, algorithm, slack=60), *names)) == expected
    ordered = sorted(names, key=lambda name: int(name[1:]))
    assert sorted(take(Scan("ABD", 12, Algorithm.TOTAL_ORDER), *ordered)) == expected


def test_the_operator_pays_what_each_algorithm_costs():
    """In order, sort semantics search at every event; without the divider, what is outdated is built in vain."""
    spent = {}
    for algorithm in OUT_OF_ORDER:
        query = SequenceQuery("EVENT SEQ(A a, B b, D d) WITHIN 4 ns", [A, B, D], algorithm=algorithm)
        operation = query.start("Tested", 1)
        given = [EVENTS[name](ts=ts, id=ts, source="s") for ts, name in enumerate("AABBDDABABDD")]
        results = [result.ts for event in given for result in operation.apply(Delta([event]), event.ts, -9).inserts]
        spent[algorithm] = results, query.work
    results, least = spent[Algorithm.PARTITION]
    assert results and all(found == results for found, _ in spent.values())
    assert spent[Algorithm.SORT][1].searches == 12 and least.searches == spent[Algorithm.CLOCK][1].searches == 4
    assert least.constructed == len(results) and least.filtered == 0
    assert spent[Algorithm.CLOCK][1].filtered == spent[Algorithm.CLOCK][1].constructed - len(results) > 0
    with pytest.raises(DetectorError, match="sort, clock or partition"):
        SequenceQuery("EVENT SEQ(A a, B b) WITHIN 4 ns", [A, B], algorithm=Algorithm.TOTAL_ORDER)
    with pytest.raises(DetectorError, match="skip"):
        SequenceQuery("EVENT SEQ(A a, B b) USING skip-till-next-match WITHIN 4 ns", [A, B], algorithm=Algorithm.SORT)
