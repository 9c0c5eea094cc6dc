"""`python -m tests.simulation SEED` prints the trace of one run; `FIRST-LAST` runs many and prints each one that fails."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable

from .plan import Plan, plan_of, plan_with_adversary
from .shrink import run_short
from .world import run

PROGRESS_EVERY = 20
LAST_LINES = 150


def main() -> int:
    """The exit code: 0 without violations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", help="a seed, or a range such as 20-9999")
    parser.add_argument("--last", type=int, help=f"number of trace lines to print; {LAST_LINES} by default for a range")
    parser.add_argument("--shrink", action="store_true", help="shrink the trace of a failing seed")
    parser.add_argument("--adversary", action="store_true", help="with a participant that lies, in a pool with a root key")
    given = parser.parse_args()
    plan: Callable[[int], Plan] = plan_with_adversary if given.adversary else plan_of
    first, _, last = given.seeds.partition("-")
    if last:
        return _range(range(int(first), int(last) + 1), given.last or LAST_LINES, plan)
    outcome = run_short(plan(int(first))) if given.shrink else run(plan(int(first)))
    print(outcome.story(given.last))
    return int(outcome.violation is not None)


def _range(seeds: range, last: int, plan: Callable[[int], Plan]) -> int:
    """Run all seeds. Prints the shrunk trace of each failing seed, and progress lines."""
    failed: list[int] = []
    kinds = Counter[str]()
    began = time.process_time()
    for done, seed in enumerate(seeds, 1):
        outcome = run_short(plan(seed))
        kinds += outcome.checker.kinds
        if outcome.violation is not None:
            failed.append(seed)
            print(outcome.story(last), flush=True)
        if done % PROGRESS_EVERY == 0 or done == len(seeds):
            cost = (time.process_time() - began) / done
            print(f"{seeds[0]}-{seed}: {len(failed)} failed, {cost:.2f} s of CPU time per seed", flush=True)
    print(f"{kinds.total()} records and orphans:  " + "  ".join(f"{kind} {number}" for kind, number in kinds.most_common()))
    print(f"{len(seeds)} seeds, {len(failed)} failed" + (f": {', '.join(map(str, failed))}" if failed else ""))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
