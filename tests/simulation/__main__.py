"""`python -m tests.simulation SEED` tells the story of one run; `FIRST-LAST` runs many and names those that fail."""

import argparse
import sys
import time
from collections import Counter

from .shrink import shrink
from .world import run


def main() -> int:
    """0 when all is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", help="a seed, or a range such as 0-499")
    parser.add_argument("--last", type=int, help="only so many lines of the story")
    parser.add_argument("--shrink", action="store_true", help="make the story of a seed that fails as short as it goes")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    if not last:
        outcome = run(int(first))
        if given.shrink and outcome.violation is not None:
            outcome = shrink(outcome)
        print(outcome.story(given.last))
        return int(outcome.violation is not None)
    began, failed, kinds = time.monotonic(), 0, Counter[str]()
    for seed in range(int(first), int(last) + 1):
        outcome = run(seed)
        kinds += outcome.witness.kinds
        if outcome.violation is not None:
            failed += 1
            print(f"seed {seed}: {outcome.violation}"[:400], flush=True)
    count, seconds = int(last) + 1 - int(first), time.monotonic() - began
    print(f"{count} seeds, {failed} failed, {kinds.total()} records and orphans, {count / seconds:.1f} seeds a second")
    print("  ".join(f"{kind} {number}" for kind, number in kinds.most_common()))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
