"""`python -m tests.fuzz SEED --count N`: N messages of one seed, and their outcomes."""

import argparse
import sys

from .arena import fuzz, listing, shortest


def main() -> int:
    """0 when no service failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, default=10_000)
    given = parser.parse_args()
    tally = fuzz(given.seed, given.count)
    print(tally)
    if tally.violation is not None:
        print(listing(shortest(tally)))
    return int(tally.violation is not None)


if __name__ == "__main__":
    sys.exit(main())
