"""`python -m tests.fuzz SEED --count N`: N messages of one seed, and their outcomes."""

import argparse
import sys

from .fuzzed_system import fuzz, listing, shortest


def main() -> int:
    """The exit code: 0 if no service failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, default=10_000)
    given = parser.parse_args()
    results = fuzz(given.seed, given.count)
    print(results)
    if results.violation is not None:
        print(listing(shortest(results)))
    return int(results.violation is not None)


if __name__ == "__main__":
    sys.exit(main())
