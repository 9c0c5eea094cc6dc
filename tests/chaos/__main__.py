"""`python -m tests.chaos --seed SEED --kills N`: one storm; its seed first, and in the end what came of it."""

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

from .storm import Storm


def main() -> int:
    """0 when nothing was lost and nothing happened twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--kills", type=int, default=200)
    given = parser.parse_args()
    seed = random.randrange(1_000_000) if given.seed is None else given.seed
    print(f"make chaos SEED={seed} KILLS={given.kills}", flush=True)
    with tempfile.TemporaryDirectory(prefix="bailiff-chaos-", ignore_cleanup_errors=True) as folder:
        print(asyncio.run(Storm(Path(folder) / "system", seed, given.kills, lambda line: print(line, flush=True)).run()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
