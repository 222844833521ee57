"""What the flow benchmark is fed, and what it counts."""

from slackline_benchmarks import flow_count
from slackline_benchmarks.flow_grid import cell
from slackline_benchmarks.flow_input import arriving

from scenarios.search.workers import MOST_LATE, promises


def test_late_pages_come_late_and_promises_are_kept():
    ordered, late = arriving("zipf", 2, 100), arriving("zipf", 2, 100, 0.3)
    assert sorted(late, key=lambda page: page.ts) == ordered != late
    newest = 0
    for at, (page, promised) in enumerate(zip(late, promises(late), strict=True)):
        newest = max(newest, page.ts)
        assert newest - page.ts < MOST_LATE
        assert all(later.ts > promised for later in late[at + 1 :])
    assert promises(late)[-1] == ordered[-1].ts
    assert promises(ordered)[5] == ordered[6].ts - 1


def test_a_batch_sends_its_net_effect_and_the_cycle_finds_what_the_fold_finds():
    counts = {(each.late > 0, each.batch, each.fused): each for each in flow_count.counted({"zipf": 80})}
    assert len(counts) == 8 and all(each.items - each.tombstones == each.valid for each in counts.values())
    assert all(each.tombstones == 0 for (late, _, _), each in counts.items() if not late)
    for fused in (True, False):
        single, net = counts[True, 1, fused], counts[True, flow_count.BATCH, fused]
        assert net.valid == single.valid and 0 < net.tombstones < single.tombstones


def test_a_cell_with_late_pages_keeps_the_barrier():
    found = cell(2, 100.0, 0.5, late=0.2)
    assert found.ratio > 1 and found.late == 0.2
