"""Draw mutants, try each, and list those that no test sees: ``python -m tests.mutation --seed 1 --count 60``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from middleware.testing.simulation.hunt import hunt
from tests.mutation.mutants import PACKAGES, draw
from tests.mutation.trial import Outcome, copied, failing, tried

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run the command; returns 1 if a mutant survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="which mutants are drawn")
    parser.add_argument("--count", type=int, default=20, help="how many")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of the drawn ones to try: the survivors, say")
    parser.add_argument("--packages", nargs="*", default=PACKAGES, choices=PACKAGES, help="of which packages")
    parser.add_argument("--list", action="store_true", help="show the mutants, and try none")
    parser.add_argument("--worlds", type=int, nargs=2, metavar=("FIRST", "COUNT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worlds:
        return int(any(outcome.failure is not None for outcome in hunt(*given.worlds)))
    drawn = dict(enumerate(draw(ROOT, given.seed, given.count, tuple(given.packages)), 1))
    chosen = {number: each for number, each in drawn.items() if not given.only or number in given.only}
    if given.list:
        print(*(f"{number} {each.diff(ROOT)}" for number, each in chosen.items()), sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        copy = copied(ROOT, Path(folder))
        outcomes = {}
        for number, mutant in chosen.items():
            outcomes[number] = outcome = tried(mutant, copy)
            print(f"{number:3} {mutant.file}:{mutant.line} {outcome.killed_by or 'SURVIVES'}", flush=True)
        false = _failing_without(outcomes.values(), copy)
    survivors = {number: each for number, each in outcomes.items() if each.killed_by is None}
    print(f"\n{len(outcomes) - len(survivors)} of {len(outcomes)} seen")
    print(*(f"\n{number} {each.mutant.diff(ROOT)}" for number, each in survivors.items()), sep="")
    if false:
        print("These tests fail without a mutant, so what they have seen does not count:", *sorted(false), sep="\n  ")
    return int(bool(survivors or false))


def _failing_without(outcomes: Iterable[Outcome], copy: Path) -> set[str]:
    """The tests that have seen mutants, but fail without any."""
    witnesses = {outcome.killed_by for outcome in outcomes if outcome.killed_by and "::" in outcome.killed_by}
    found: set[str] = set()
    while (left := sorted(witnesses - found)) and (test := failing(left, copy)) is not None:
        if test not in witnesses:
            return found | {test}
        found.add(test)
    return found


if __name__ == "__main__":
    sys.exit(main())
